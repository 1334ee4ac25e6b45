"""The models that checks ask about: planted ones, and random ones of the same sizes."""

from dataclasses import replace
from functools import cache
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from headcount.core import SAMPLE, Head
from headcount.corpora import Corpus, Data
from headcount.models import Loaded
from headcount.testing.architectures import ARCHITECTURES, POSITIONS, sizes_of
from headcount.testing.known import Known
from headcount.testing.planted import planted_model, tokenizer
from headcount.testing.programs import Family, Planted, Planting, Program

FAMILIES: tuple[Family, ...] = ("gpt2", "encoder")
"""A decoder and an encoder."""
TEXTS = 40
"""Number of texts of a model."""
PROMPTS = 12
"""Number of prompts that ask what the planted head makes a model predict."""
_SPREAD = 0.3
"""Standard deviation of random weights, with which attention is far from uniform."""


def _program(site: Literal["decoder.self", "encoder.self"], ahead: int) -> Program:
    """Two heads that a task needs, one in each layer, two that only look, and four that are idle.

    The heads that are needed say that a later token has a bit of the one they look at.
    """
    planted = (
        Planted(Head(site, 0, 1), "offset", "needed", 2, 2, 3.0, -1),
        Planted(Head(site, 1, 2), "offset", "needed", 4, 4, 3.0, ahead),
        Planted(Head(site, 0, 3), "first", "silent", 1),
        Planted(Head(site, 1, 0), "punctuation", "silent", 3),
    )
    return Program(planted, layers=2, site=site)


def program_of(family: Family) -> Program:
    """The program of the models of a family."""
    is_encoder = family == "encoder"
    return _program("encoder.self", 2) if is_encoder else _program("decoder.self", -3)


@cache
def planted(family: Family = "gpt2") -> Known:
    """A model of which every head is known."""
    program = program_of(family)
    return Known(program, planted_model(program, family), program.texts(TEXTS, 0), family, 0)


@cache
def at_random(family: Family = "gpt2", seed: int = 0) -> Known:
    """The random model that all checks share; a plug-in may have left something on it."""
    return made_at_random(family, seed)


def made_at_random(family: Family = "gpt2", seed: int = 0) -> Known:
    """A model of random weights, which does nothing of the program whose texts it reads."""
    program = program_of(family)
    model = random_model(program, family, seed)
    return Known(
        program,
        Loaded(model, tokenizer(), f"random {family}"),
        program.texts(TEXTS, seed),
        family,
        seed,
    )


def read(data: Data | Corpus | None) -> Corpus:
    """The sentences that a thing is checked on: those that are given, or our English sample."""
    return data if isinstance(data, Corpus) else Corpus(SAMPLE if data is None else data)


def at_random_on(program: Planting, family: Family) -> Loaded:
    """A model of random weights with what the planted model of a program reads with."""
    model = random_model(program, family)
    return replace(planted_model(program, family), model=model)  # type: ignore[arg-type]


def random_model(
    program: Planting, family: Family, seed: int = 0, positions: int = POSITIONS
) -> PreTrainedModel:
    """A model of random weights, of the sizes of one that runs a program."""
    generator = torch.Generator().manual_seed(seed)
    model = ARCHITECTURES[family].built(program, sizes_of(program, positions)).eval()
    with torch.no_grad():
        for module in model.modules():
            if not isinstance(module, nn.LayerNorm):
                for each in module.parameters(recurse=False):
                    each.normal_(0, _SPREAD, generator=generator)
    return model
