"""What must hold for every skill: laws of its numbers, a planted model, chance, words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast

from headcount.core import SAMPLE, Head, UnsuitedError, amount
from headcount.corpora import Corpus, Data
from headcount.models import Loaded
from headcount.skills import KINDS, NAMES, SKILL_CLASSES, Skill, read_tasks, scored
from headcount.statistics import mean_interval
from headcount.testing.architectures import ARCHITECTURES, HEAD_DIM
from headcount.testing.checks import LeftOut, check, expect, expect_same, expect_words
from headcount.testing.examples import random_model, read
from headcount.testing.laws import leaving_no_trace
from headcount.testing.planted import planted_model
from headcount.testing.programs import Planted, Program
from headcount.testing.tokens import BITS

TAKES = 1024
"""Number of tokens that the models take."""
SEED = 1
"""Seed of what a skill draws."""
SkillTwin = Callable[[Skill, Loaded, Corpus, int], Mapping[str, float]]
"""The skill again, as slowly as need be: a mean for each head by its name."""


@cache
def copier() -> Loaded:
    """A model that repeats what came after the last copy of a token.

    In its first layer, head 1 looks at the token before. In its other layers, ten heads look at the
    token after the earlier copy of their own, and each writes one bit of it. No others do anything.
    A token is a word or a mark of English.
    """
    heads = [Head("decoder.self", 1 + bit // 4, bit % 4) for bit in range(BITS)]
    copying = (Planted(each, "copy", "needed", bit, bit, 20.0) for bit, each in enumerate(heads))
    tell = Planted(Head("decoder.self", 0, 1), "tell", "needed")
    program = Program((tell, *copying))
    model = planted_model(program, "llama", positions=TAKES).model
    return Loaded(model, _words(), "planted copier")


@cache
def undirected() -> Loaded:
    """A model of random weights, which reads the same words."""
    return _random()


def _random() -> Loaded:
    program = Program((), layers=2)
    return Loaded(random_model(program, "llama", positions=TAKES), _words(), "random llama")


@cache
def _words() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words of our needles, few-shot tasks and sample."""
    tasks = [text for task in read_tasks() for pair in task.pairs for text in pair]
    facts = [fact.begins for fact in KINDS.values()]
    texts = (*NAMES, *facts, "Q A : . , \n", *tasks, *(each.text for each in Corpus(SAMPLE)))
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Whitespace()]
    )
    words = [word for text in texts for word, _ in split.pre_tokenize_str(text)]
    known = [*dict.fromkeys(("<pad>", *words))][: 1 << BITS]
    ids = {word: number for number, word in enumerate(known)}
    backend = Tokenizer(tokenizer_models.WordLevel(ids, "<pad>"))
    backend.pre_tokenizer = split
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", model_max_length=TAKES
    )


@dataclass(frozen=True)
class SkillSubject:
    """A skill to check."""

    skill: Skill
    texts: Corpus
    """What it reads."""
    model: Loaded | None = None
    """A model that has it, whose heads are known."""
    heads: tuple[str, ...] | None = None
    """The heads of this model that have it."""
    twin: SkillTwin | None = None

    @property
    def read(self) -> Loaded:
        """The model whose numbers laws are about."""
        return self.model or copier()

    @cached_property
    def found_NH(self) -> Float[np.ndarray, "case head"]:
        """The scores in this model."""
        return self.scores(self.read)

    def scores(self, loaded: Loaded) -> Float[np.ndarray, "case head"]:
        """The scores of every head of a model on every case.

        Raises:
            LeftOut: If the model leaves too few cases.
        """
        try:
            return scored(self.skill, loaded, self.texts, SEED)
        except UnsuitedError as error:
            raise LeftOut(str(error)) from error


@check("laws")
def numbers(given: SkillSubject) -> str:
    """Every head has a finite number on each of at least four cases."""
    mean_H = given.found_NH.mean(0)
    cases = amount(len(given.found_NH), "case")
    return f"{cases}, means of {mean_H.min():.3g} to {mean_H.max():.3g}"


@check("laws")
def repeats(given: SkillSubject) -> str:
    """The same question with the same seed gets the same answer twice."""
    found_NH, again_NH = given.found_NH, given.scores(given.read)
    expect(found_NH.shape == again_NH.shape, f"{again_NH.shape} in place of {found_NH.shape}")
    heads = [*given.read.heads]
    return expect_same(again_NH.mean(0), found_NH.mean(0), "when repeated", heads, 0.0)


@check("laws")
def exchanged(given: SkillSubject) -> str:
    """If the heads of a layer change places in the model, so do their scores."""
    loaded = _random()
    found, heads = given.scores(loaded).mean(0), [*loaded.heads]
    for module in ARCHITECTURES["llama"].attention(loaded.model):
        for weight in (module.query, module.key, module.value, module.output.T):
            weight.data.copy_(weight.unflatten(0, (-1, HEAD_DIM)).roll(1, 0).flatten(0, 1))
    expected = np.roll(found.reshape(2, -1), 1, 1).ravel()
    return expect_same(given.scores(loaded).mean(0), expected, "when heads change places", heads)


@check("laws")
def trace(given: SkillSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    loaded = given.model or _random()
    inputs = {"input_ids": torch.arange(1, 9)[None]}
    with leaving_no_trace(loaded.model, inputs):
        given.scores(loaded)
    return f"{len(loaded.model.state_dict())} weights and all outputs are the same bit for bit"


@check("truth")
def twin(given: SkillSubject) -> str:
    """The means are those of the slow twin."""
    if given.twin is None:
        raise LeftOut("no twin was given")
    heads = [str(head) for head in given.read.heads]
    slow = given.twin(given.skill, given.read, given.texts, SEED)
    expected = np.array([slow[head] for head in heads])
    return expect_same(given.found_NH.mean(0), expected, "by the twin", heads, 1e-3)


@check("truth")
def finds(given: SkillSubject) -> str:
    """In a model whose heads are known, the heads that have the skill have it for certain alone."""
    if given.heads is None:
        raise LeftOut("it was not said which heads of a model have it")
    low_H, least = mean_interval(given.found_NH)[0], given.skill.entry().least
    found = [str(head) for head, low in zip(given.read.heads, low_H, strict=True) if low >= least]
    expect(
        found == [*given.heads],
        f"{', '.join(found) or 'no head'} in place of {', '.join(given.heads) or 'no head'}",
    )
    return f"{', '.join(found) or 'no head'}, as planted"


@check("nulls")
def chance(given: SkillSubject) -> str:
    """With random weights no head has the skill for certain."""
    loaded, entry = undirected(), given.skill.entry()
    try:
        low_H, mean_H, _ = mean_interval(scored(given.skill, loaded, given.texts, SEED))
    except UnsuitedError as error:
        return f"no head, since there is nothing to measure: {error}"
    for head, low, mean in zip(loaded.heads, low_H, mean_H, strict=True):
        text = f"{head} has {mean:.3g} (at least {low:.3g}), above {entry.least:g}"
        expect(low < entry.least, text)
    return f"means of {mean_H.min():.3g} to {mean_H.max():.3g}, below {entry.least:g}"


@check("words")
def words(given: SkillSubject) -> str:
    """It has a name, a meaning, a source, and a sentence with a place for the score."""
    entry = given.skill.entry()
    expect(entry.key.isidentifier(), f"the name {entry.key!r} is no name of a column")
    expect(entry.does.count("{}") == 1, f"what it does has no single place {{}}: {entry.does!r}")
    said = entry.does.format(entry.show(entry.least))
    expect_words("what it does", said)
    expect_words("the meaning", entry.about)
    expect_words("the source", entry.source)
    return f"such a head {said}: {entry.about} ({entry.source})"


SKILL_CHECKS = (numbers, repeats, exchanged, trace, twin, finds, chance, words)
"""What is asked of every skill."""


def skill_subject(
    given: str | type[Skill] | Skill,
    model: Loaded | None = None,
    data: Data | Corpus | None = None,
    heads: Sequence[str] | None = None,
    twin: SkillTwin | None = None,
) -> SkillSubject:
    """A skill as given to `check_skill`: its name, its class, or itself."""
    found = SKILL_CLASSES[given] if isinstance(given, str) else given
    made = found() if isinstance(found, type) else found
    return SkillSubject(made, read(data), model, None if heads is None else tuple(heads), twin)
