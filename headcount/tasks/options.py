"""Names of tasks, metrics and options. Needs no torch, so that arguments are checked at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final, get_args

from headcount.core import InputError, check_choice, check_known
from headcount.corpora import TEXT_NAMES, Column, ColumnSpec

TaskName = Literal[
    "translation", "classification", "causal-lm", "masked-lm", "similarity", "image-classification"
]
Pooling = Literal["mean", "cls"]
ClassMetric = Literal["accuracy", "f1", "matthews"]
TranslationMetric = Literal["bleu", "chrf"]
Replacement = Literal["mask", "bert"]

METRICS: Mapping[str, tuple[str, ...]] = {
    "translation": get_args(TranslationMetric),
    "classification": get_args(ClassMetric),
    "image-classification": get_args(ClassMetric),
}
"""Metrics of the tasks that have several."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "translation": ("num_beams", "tokenize", "prefix"),
    "similarity": ("scale", "pooling"),
    "causal-lm": ("max_length", "start", "roles"),
    "masked-lm": ("max_length",),
}
"""Options that only some tasks have."""

_TEXT = Column(TEXT_NAMES[:-1])
COLUMNS: Mapping[str, ColumnSpec] = {
    "translation": {
        "source": Column(("source", "src")),
        "target": Column(("target", "tgt", "reference")),
    },
    "classification": {
        "text": Column(
            ("text", "sentence1", "premise", "question1", "question", "sentence", "text1")
        ),
        "second": Column(
            ("sentence2", "hypothesis", "question2", "text2", "text_pair"),
            needed=False,
            beside={"question": ("sentence", "passage", "context")},
        ),
        "label": Column(("label", "labels", "class")),
    },
    "image-classification": {
        "image": Column(("image", "file_name", "path", "file")),
        "label": Column(("label", "labels", "class")),
    },
    "causal-lm": {"text": Column(TEXT_NAMES, may_be_chat=True)},
    "masked-lm": {"text": _TEXT},
    "similarity": {
        "sentence1": Column(("sentence1", "first", "text1", "sentence_1")),
        "sentence2": Column(("sentence2", "second", "text2", "sentence_2")),
        "score": Column(("score", "similarity_score", "similarity", "label")),
    },
}
"""Columns that the tasks read."""


@final
@dataclass(frozen=True)
class Masking:
    """How tokens are masked for masked language modelling.

    >>> Masking(seed=3).share
    0.15

    Raises:
        InputError: for an unknown replacement, or a share that masks nothing or too much.
    """

    seed: int = 0
    """Seed of the masks."""
    share: int | float = 0.15
    """Share of an example's content tokens that are masked."""
    replacement: Replacement = "mask"
    """What replaces a masked token: always [MASK], or as in BERT."""

    def __post_init__(self) -> None:
        check_choice("a replacement", self.replacement, Replacement)
        if not 0 < self.share <= 1:
            raise InputError(
                f"Expected a share of masked tokens above 0 and up to 1, got {self.share}."
            )


def check_metric(task: str, metric: str | None) -> None:
    """Check that a task has a metric.

    Raises:
        InputError: If it has not.
    """
    if metric is None:
        return
    if task not in METRICS:
        raise InputError(
            f"Expected no metric for {task}, which has one score only, got {metric!r}. Leave the "
            "metric out."
        )
    check_known("a metric", metric, METRICS[task], "(one of {})")
