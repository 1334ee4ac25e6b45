"""The scores by name, and the options of an assessment. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from headcount.core import Registry
from headcount.importance.choices import AblationOptions, CausalGatesOptions, MatryoshkaOptions
from headcount.importance.gradient_score import GradientOptions
from headcount.importance.relevance_score import RelevanceOptions
from headcount.importance.score import Score

SCORES: Registry[type[Score]] = Registry(
    "scores",
    "a score",
    {
        name: f"headcount.importance.{name.replace('-', '_')}_score:{kind}Score"
        for name, kind in (
            ("gradient", "Gradient"),
            ("relevance", "Relevance"),
            ("ablation", "Ablation"),
            ("norm", "Norm"),
            ("sink", "Sink"),
            ("fisher", "Fisher"),
            ("causal-gates", "CausalGates"),
            ("matryoshka", "Matryoshka"),
        )
    },
)
"""Every score by its name, in the order in which they are measured."""

_OWN = tuple(SCORES[name] for name in SCORES.own)
BY_DEFAULT = tuple(each.name for each in _OWN if each.by_default)
"""The scores of an assessment by default."""
OWN_COLUMNS = tuple(
    column
    for each in sorted(_OWN, key=lambda each: each.name != "ablation")
    for column in each.columns()
)
"""Columns that assessments by our own scores write, with their words, the measured effect first."""
COLUMNS = tuple(each.key for each in OWN_COLUMNS)
SCORE_COLUMNS = tuple(each.key for each in OWN_COLUMNS if each in {one.column for one in _OWN})
"""Columns of the head table that score importance; higher = more important."""
READ_BY: Mapping[str, tuple[str, ...]] = {
    each.name: tuple(name for name in each.__match_args__ if name != "seed") for each in _OWN
}
"""Options that only one score reads; the seed also draws the masks of a task."""


@dataclass(frozen=True)
class Chosen:
    """What heads are scored by."""

    methods: tuple[str, ...] = BY_DEFAULT
    """Scores to compute."""


@dataclass(frozen=True)
class Options(
    AblationOptions,
    MatryoshkaOptions,
    CausalGatesOptions,
    RelevanceOptions,
    GradientOptions,
    Chosen,
):
    """The scores to compute, and their options, in Python and as options of the command.

    Those of scores are inherited; the last base has the first options.

    Raises:
        InputError: If a score is unknown, or a type does not allow an option.
    """

    def __post_init__(self) -> None:
        for name in self.methods:
            SCORES.find(name)
        super().__post_init__()


def score_of(name: str, options: object) -> Score:
    """A score with those of some options that are its own, e.g. of an assessment or a method.

    Raises:
        InputError: If there is no such score.
    """
    kind = SCORES[name]
    given = {each.name: getattr(options, each.name) for each in fields(options)}  # type: ignore[arg-type]
    return kind(**{each: given[each] for each in kind.__match_args__ if each in given})
