"""Every measure, in the order of the head table; those of plug-ins are asked for by name."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from headcount.core import OURS, REPAIR, InputError, Origin, Registry, guarded
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums
from headcount.tap import Anatomy
from headcount.vocabulary import IMAGES, SOUND, TEXTS, ColumnEntry, Inputs

REGISTRY: Registry[type[Sums]] = Registry(
    "measures",
    "a measure",
    {
        "confidence": "headcount.measures.confidence:Confidence",
        "entropy": "headcount.measures.entropy:Entropy",
        "positional": "headcount.measures.positional:Positional",
        "surface": "headcount.measures.surface:Surface",
        "rare": "headcount.measures.rare:Rare",
        "norms": "headcount.measures.norms:Norms",
        "patterns": "headcount.measures.patterns:Patterns",
        "syntactic": "headcount.measures.syntactic:Syntactic",
        "looks": "headcount.measures.looks:Looks",
        "traits": "headcount.measures.traits:Traits",
        "relation_tests": "headcount.measures.relation_tests:RelationTests",
        "patch_weights": "headcount.measures.patch_traits:PatchWeights",
        "patch_norms": "headcount.measures.norms:PatchNorms",
        "patch_looks": "headcount.measures.patches:PatchLooks",
        "patch_traits": "headcount.measures.patch_traits:PatchTraits",
        "patch_spots": "headcount.measures.patches:PatchSpots",
        "learned_sink": "headcount.measures.learned_sink:LearnedSink",
        "picture_weights": "headcount.measures.pictures:PictureWeights",
        "frame_traits": "headcount.measures.frames:FrameTraits",
        "frame_moments": "headcount.measures.frames:FrameMoments",
    },
)
"""Measures by name."""

_SINK = "learned_sink"
"""The measure that only models with a learned sink have."""
_PICTURES = "picture_weights"
"""The measure of texts beside pictures alone."""
_OURS = tuple(REGISTRY[name] for name in REGISTRY.own)


@contextmanager
def guarding(measure: type[Sums], doing: str) -> Iterator[None]:
    """A block in which a measure does something; whatever that of a plug-in raises names it.

    Raises:
        PluginError: if the measure of a plug-in fails.
    """
    name = measure.name or measure.__name__
    with guarded(measure_origin(measure), f"{doing} of the measure {name}", measure):
        yield


def measure_origin(measure: type[Sums]) -> Origin:
    """Where a measure is from."""
    is_ours = measure.__module__.startswith(f"{OURS.name}.")
    return OURS if is_ours else REGISTRY.origin_of(measure)


def sums_of(measure: type[Sums], attention: Attention, num_heads: int) -> Sums:
    """The sums of a measure over one batch; of a plug-in's, it is checked whose they are.

    Raises:
        PluginError: if the measure of a plug-in fails, or returns anything else.
    """
    with guarding(measure, "take the sums"):
        found = measure.of(attention)
        if measure_origin(measure) == OURS:
            return found
        if type(found) is not measure:
            raise InputError(f"Expected {measure.__name__}, got {type(found).__name__}. {REPAIR}")
        for name, size in found.sizes().items():
            if size != num_heads:
                raise InputError(f"Expected {name} of {num_heads} heads, got {size}. {REPAIR}")
    return found


def numbers_of(sums: Sums, num_heads: int) -> dict[str, Tensor]:
    """The numbers of every column of a measure, one of each head; of a plug-in's, they are checked.

    Raises:
        PluginError: if the measure of a plug-in fails, or has anything else.
    """
    measure = type(sums)
    with guarding(measure, "compute the columns"):
        found = sums.value()
        expected = ", ".join(measure.names())
        for name in measure.names():
            each = found.get(name) if isinstance(found, dict) else None
            shape = tuple(each.shape) if isinstance(each, Tensor) else None
            if each is None or shape != (num_heads,) or not each.is_floating_point():
                got = f"{name} {each.dtype} {shape}" if each is not None and shape else repr(each)
                raise InputError(
                    f"Expected floating-point numbers of {num_heads} heads for each of {expected}, "
                    f"got {got}. {REPAIR}"
                )
    return found


MEASURES = tuple(
    each for each in _OURS if TEXTS in each.takes and each.name not in (_SINK, _PICTURES)
)
"""Every measure of sentences that models of all kinds have."""

IMAGE_MEASURES = tuple(each for each in _OURS if IMAGES in each.takes)
"""The same of images."""

SOUND_MEASURES = (*MEASURES, *(each for each in _OURS if SOUND in each.takes))
"""The same of recordings and their transcripts."""

MEASURED = {each.key: each for measure in _OURS for each in measure.entries()}
"""Every column of our own measures, in the order of reports."""


def measures_of(
    anatomy: Anatomy,
    inputs: Inputs,
    more: Sequence[str | type[Sums]] = (),
    has_pictures: bool = False,
) -> tuple[type[Sums], ...]:
    """The measures that make sense for a model on a kind of input, and others that are asked for.

    Args:
        anatomy: the model's attention layers.
        inputs: the kind of input.
        more: further measures, or their names.
        has_pictures: whether texts come with pictures.

    Raises:
        InputError: for a name that no measure has, and for a further measure whose class or column
            has the name of another's.
    """
    every = {IMAGES: IMAGE_MEASURES, SOUND: SOUND_MEASURES}.get(inputs, MEASURES)
    if any(layer.has_learned_sink for layer in anatomy.layers):
        every = (*every, REGISTRY[_SINK])
    if has_pictures:
        every = (*every, REGISTRY[_PICTURES])
    further = [each for each in dict.fromkeys(map(REGISTRY.find, more)) if each not in every]
    for number, each in enumerate(further):
        _check_new(each, (*_OURS, *further[:number]))
    return (*every, *further)


def further_columns(measures: Sequence[type[Sums]]) -> dict[str, ColumnEntry]:
    """The columns of measures that are not ours."""
    return {each.key: each for kind in further_measures(measures) for each in kind.entries()}


def further_measures(measures: Iterable[type[Sums]]) -> list[type[Sums]]:
    """The measures that are not ours."""
    return [each for each in measures if measure_origin(each) != OURS]


def _check_new(measure: type[Sums], others: Sequence[type[Sums]]) -> None:
    """Check that no other measure has a measure's class name or one of its columns."""
    for other in others:
        names, taken = ({each.__name__, *each.names()} for each in (measure, other))
        if shared := names & taken:
            raise InputError(
                f"Expected a measure whose class and columns have names of their own, got "
                f"{min(shared)} in {measure.__module__}, which {other.__module__} has. Rename it."
            )
