"""What must hold for every measure: sums that add, whatever is measured beside them, and words."""

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from headcount.analysis import totals
from headcount.core import LayerId, amount
from headcount.corpora import Batches, Corpus, Sentence, take_census
from headcount.measures import IMAGE_MEASURES, MEASURES, REGISTRY, Sums
from headcount.models import Loaded, encoder_of
from headcount.testing.checks import LeftOut, check, expect, expect_same, expect_words
from headcount.testing.examples import FAMILIES, at_random, at_random_on
from headcount.testing.frames import Frames, drawn_recordings
from headcount.testing.laws import assert_adds, assert_neutral, assert_round_trip, leaving_no_trace
from headcount.testing.patches import Patches, drawn_images
from headcount.testing.programs import Family
from headcount.vocabulary import IMAGES, SOUND, TEXTS, ColumnEntry

MapTwin = Callable[[Sequence[Float[np.ndarray, "head query key"]]], Mapping[str, Sequence[float]]]
"""The measure again, as slowly as need be: a number for each head by column, of the attention maps
of one layer, a map for each text."""
NUM_TEXTS = 6
"""Number of texts, images or recordings that are measured."""


@dataclass(frozen=True)
class MeasureSubject:
    """A measure to check, and its twin."""

    measure: type[Sums]
    twin: MapTwin | None = None


def _sums(
    given: MeasureSubject,
    loaded: Loaded,
    examples: Sequence[Sentence],
    more: Sequence[type[Sums]] = (),
) -> dict[LayerId, Sums]:
    """The sums of each layer over some examples."""
    taken = (given.measure, *(each for each in more if each is not given.measure))
    found = totals(loaded, Corpus.from_sentences(examples), taken).sums
    its = {layer: sums for (kind, layer), sums in found.items() if kind is given.measure}
    if not its:
        raise LeftOut("it does not apply to what these models read")
    return its


def _values(found: Mapping[LayerId, Sums]) -> dict[str, Float[np.ndarray, " head"]]:
    """Every column, over the heads of all layers."""
    of_layers = [found[layer].value() for layer in sorted(found)]
    return {
        name: np.concatenate([each[name].double().cpu().numpy() for each in of_layers])
        for name in of_layers[0]
    }


def _compare(found: Mapping[LayerId, Sums], other: Mapping[LayerId, Sums], what: str) -> str:
    mine, others = _values(found), _values(other)
    for name, numbers in mine.items():
        names = [f"{name} of head {number}" for number in range(len(numbers))]
        expect_same(numbers, others[name], what, names)
    return f"{amount(len(mine), 'column')} the same {what}"


def _read(given: MeasureSubject, family: Family = "gpt2") -> tuple[Loaded, tuple[Sentence, ...]]:
    """A random model of what the measure is taken on, and some examples."""
    if IMAGES in given.measure.takes:
        return at_random_on(Patches(()), "patches"), drawn_images(Patches(()), NUM_TEXTS)
    if SOUND in given.measure.takes and TEXTS not in given.measure.takes:
        return at_random_on(Frames(()), "frames"), drawn_recordings(NUM_TEXTS)
    known = at_random(family)
    return known.model, tuple(map(Sentence, known.written[:NUM_TEXTS]))


@check("laws")
def numbers(given: MeasureSubject) -> str:
    """It has the columns it names, each a number of every head, in decoders and encoders."""
    for family in FAMILIES:
        loaded, examples = _read(given, family)
        for layer, sums in _sums(given, loaded, examples).items():
            values = sums.value()
            named = given.measure.names()
            expect(tuple(values) == named, f"it has {', '.join(values)}, and names {named}")
            for name, found in values.items():
                size = sum(head.layer_id == layer for head in loaded.heads)
                expect(found.shape == (size,), f"{name} is of {tuple(found.shape)}, not ({size},)")
                expect(found.is_floating_point(), f"{name} is {found.dtype}")
                expect(not found.isinf().any(), f"{name} is infinite: {found.tolist()}")
    return f"{amount(len(given.measure.names()), 'column')}"


@check("laws")
def adds(given: MeasureSubject) -> str:
    """Parts add up to the whole in any order, however texts are batched and padded."""
    loaded, examples = _read(given)
    parts = [_sums(given, loaded, [each]) for each in examples]
    whole = {layer: reduce(add, [part[layer] for part in parts]) for layer in parts[0]}
    for layer, sums in whole.items():
        assert_adds(sums, [part[layer] for part in parts])
    return _compare(_sums(given, loaded, examples), whole, "in one batch and one by one")


@check("laws")
def neutral(given: MeasureSubject) -> str:
    """A part without cases changes nothing, and its own numbers are missing, not 0."""
    for sums in _sums(given, *_read(given)).values():
        empty = {name: torch.zeros_like(each) for name, each in sums.state().items()}
        assert_neutral(sums, type(sums).of_state(empty))
    return "the sums are the same bit for bit"


@check("laws")
def resumes(given: MeasureSubject) -> str:
    """A state that a killed run left returns every sum bit for bit, and can be added to."""
    found = _sums(given, *_read(given))
    for sums in found.values():
        with tempfile.TemporaryDirectory() as folder:
            assert_round_trip(sums, Path(folder))
    return f"{amount(len(found), 'layer')}"


@check("laws")
def needs(given: MeasureSubject) -> str:
    """Its numbers are the same alone, with what it needs, and beside all of ours."""
    loaded, examples = _read(given)
    every = IMAGE_MEASURES if IMAGES in given.measure.takes else MEASURES
    beside = _sums(given, loaded, examples, every)
    return _compare(_sums(given, loaded, examples), beside, "alone and beside all of ours")


@check("laws")
def trace(given: MeasureSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    loaded, examples = _read(given)
    loaded = replace(loaded, model=copy.deepcopy(loaded.model))
    corpus = Corpus.from_sentences(examples)
    encoder = encoder_of(loaded, corpus)
    batch = next(iter(Batches(corpus, encoder, take_census(corpus, encoder))))
    with leaving_no_trace(loaded.model, batch.inputs):
        _sums(given, loaded, examples)
    return f"{len(loaded.model.state_dict())} weights and all outputs are the same bit for bit"


@check("truth")
def twin(given: MeasureSubject) -> str:
    """The numbers are those of the slow twin on the stock model's attention maps."""
    if given.twin is None:
        raise LeftOut("no twin was given")
    loaded, examples = _read(given)
    if TEXTS not in given.measure.takes:
        raise LeftOut("a twin reads maps of texts")
    found = _values(_sums(given, loaded, examples))
    maps = [_maps(loaded, each.text) for each in examples]
    slow = [given.twin([each[layer] for each in maps]) for layer in range(len(maps[0]))]
    for name, numbers in found.items():
        expected = np.concatenate([np.asarray(each[name], float) for each in slow])
        names = [f"{name} of {head}" for head in loaded.heads]
        expect_same(numbers, expected, "by the twin", names)
    return f"{amount(len(found), 'column')} the same by the twin"


def _maps(loaded: Loaded, text: str) -> list[Float[np.ndarray, "head query key"]]:
    """The attention weights of every layer on a text, from the stock model."""
    encoded = loaded.tokenizer(text, return_tensors="pt")  # type: ignore[misc]
    model = loaded.model
    before = model.config._attn_implementation or "sdpa"
    model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            found = model(**encoded, output_attentions=True).attentions
    finally:
        model.set_attn_implementation(before)
    return [each[0].double().numpy() for each in found]


@check("words")
def words(given: MeasureSubject) -> str:
    """It has a name, and each column has a name, a meaning, and numbers written with a unit."""
    its = given.measure
    expect_words("the name", its.name)
    for column in its.columns:
        if not isinstance(column, ColumnEntry):
            expect(False, f"the column {column!r} has no words: make it a ColumnEntry")
            continue
        expect(column.key.isidentifier(), f"the key {column.key!r} is no name of a column")
        expect_words(f"the label of {column.key}", column.label)
        expect_words(f"the group of {column.key}", column.group)
        expect_words(f"the meaning of {column.key}", column.about)
        expect_words(f"0.5 of {column.key}, as it is shown,", column.show(0.5))
    return f"{amount(len(its.columns), 'column')}"


MEASURE_CHECKS = (numbers, adds, neutral, resumes, needs, trace, twin, words)
"""What is asked of every measure."""


def measure_subject(given: str | type[Sums], twin: MapTwin | None = None) -> MeasureSubject:
    """A measure as given to `check_measure`: its name, or its class."""
    return MeasureSubject(REGISTRY.find(given), twin)
