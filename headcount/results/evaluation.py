"""The record of an evaluation: the contents of `evaluation.json`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headcount.core import JsonObject, encoded
from headcount.results.sealing import OWN, SEALS
from headcount.results.store import Record

_FIELDS = (
    *("version", "examples", "loss", "truncated", "signature", "warnings", "arguments"),
    *(SEALS, OWN),
)


@final
@dataclass(frozen=True, kw_only=True)
class EvaluationRecord(Record):
    """How good a model is at a task."""

    FILE = "evaluation.json"
    COMMAND = "headcount evaluate"

    num_examples: int
    """Number of examples."""
    loss: float
    """Loss in nats per token."""
    scores: Mapping[str, float]
    """Scores by name, that of the task first."""
    score_signatures: Mapping[str, str] = field(default_factory=dict)
    """Signatures of the scores that have one, by name."""
    num_truncated: int = 0
    """Number of translations that were truncated."""

    def numbers(self) -> dict[str, int | float | str]:
        """Everything but the arguments, by the names in the file."""
        found: dict[str, int | float | str] = {"examples": self.num_examples, "loss": self.loss}
        for name, score in self.scores.items():
            found[name] = score
            if name in self.score_signatures:
                found[f"{name} signature"] = self.score_signatures[name]
        if self.num_truncated:
            found["truncated"] = self.num_truncated
        return found | {"signature": self.signature}

    def to_json(self) -> dict[str, Any]:
        """The contents of `evaluation.json`: each score is a field with its own name."""
        shared = {"warnings": self.warnings, "arguments": self.arguments}
        return encoded({**self.numbers(), **shared})

    @classmethod
    def from_json(cls, found: JsonObject) -> "EvaluationRecord":
        """The record in the contents of its file; numbers with other names are scores."""
        stored = found.decode(_Stored)
        others = {name: each for name, each in found.values.items() if name not in _FIELDS}
        signatures = {
            name.removesuffix(" signature"): each
            for name, each in others.items()
            if name.endswith(" signature") and isinstance(each, str)
        }
        scores = {
            name: found.field(name, float)
            for name, each in others.items()
            if each is None or (isinstance(each, int | float) and not isinstance(each, bool))
        }
        return cls(
            num_examples=stored.examples,
            loss=stored.loss,
            scores=scores,
            score_signatures=signatures,
            num_truncated=stored.truncated,
            signature=stored.signature,
            warnings=stored.warnings,
            arguments=stored.arguments,
        )


@final
@dataclass(frozen=True, kw_only=True)
class _Stored:
    """The fields whose names do not depend on the task."""

    examples: int
    loss: float
    truncated: int = 0
    signature: str
    warnings: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
