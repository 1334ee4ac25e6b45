"""Every measure, in the order of the head table's columns."""

from headcount.measures.confidence import Confidence
from headcount.measures.entropy import Entropy
from headcount.measures.learned_sink import LearnedSink
from headcount.measures.looks import Looks
from headcount.measures.norms import Norms, PatchNorms
from headcount.measures.patches import PatchLooks, PatchSpots, PatchTraits, PatchWeights
from headcount.measures.patterns import Patterns
from headcount.measures.positional import Positional
from headcount.measures.rare import Rare
from headcount.measures.relation_tests import RelationTests
from headcount.measures.sums import Sums
from headcount.measures.surface import Surface
from headcount.measures.syntactic import Syntactic
from headcount.measures.traits import Traits
from headcount.tap import Anatomy
from headcount.vocabulary import IMAGES, TEXTS, Inputs

MEASURES: tuple[type[Sums], ...] = (
    Confidence,
    Entropy,
    Positional,
    Surface,
    Rare,
    Norms,
    Patterns,
    Syntactic,
    Looks,
    Traits,
    RelationTests,
)
"""Every measure of sentences that models of all kinds have."""

IMAGE_MEASURES: tuple[type[Sums], ...] = (
    Confidence,
    Entropy,
    PatchWeights,
    PatchNorms,
    PatchLooks,
    PatchTraits,
    PatchSpots,
)
"""The same of images."""


_OF_INPUTS = {TEXTS: MEASURES, IMAGES: IMAGE_MEASURES}


def measures_of(anatomy: Anatomy, inputs: Inputs) -> tuple[type[Sums], ...]:
    """The measures that make sense for a model on a kind of input."""
    every = _OF_INPUTS[inputs]
    has_sink = any(layer.has_learned_sink for layer in anatomy.layers)
    return (*every, LearnedSink) if has_sink else every
