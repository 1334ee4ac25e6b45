"""The live model: answers questions about one text at a time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, final

from headcount.analysis import check_text, read_source, word_attention
from headcount.core import InputError
from headcount.explanation import ExplainOptions, explain, spelled
from headcount.models import Loaded, check_is_loaded
from headcount.reports import attention_data, sharpest
from headcount.serve.asking import Question
from headcount.serve.predicting import (
    Choices,
    Kind,
    Number,
    Prediction,
    Text,
    kind_of,
    predict,
)

SHOWN = 8
"""Number of most probable options shown, of the dense model and of the gated one each."""

ZEROED = ExplainOptions(effects=("zero",), together=())
"""How effects are measured: each head alone is replaced by zero."""

Findings = Mapping[str, Sequence[tuple[str, str]]]
"""What heads do, by head name: verdicts (role, tendency) and sentences."""


@final
@dataclass(eq=False)
class LiveModel:
    """A model to ask, with what is known about its heads."""

    loaded: Loaded
    pruned: tuple[str, ...] | None = None
    """Heads that a plan prunes; None without a plan."""
    findings: Findings = field(default_factory=dict)
    """What heads do, from a finished run."""
    kind: Kind | None = field(init=False)
    """What the model predicts."""
    _dense: dict[tuple[str, str | None], list[Prediction]] = field(default_factory=dict, init=False)
    """The dense model's answer to the last text."""
    _lock: Lock = field(default_factory=Lock, init=False)
    """Held while the model answers, since gates are set on the model itself."""

    def __post_init__(self) -> None:
        check_is_loaded(self.loaded)
        self.kind = kind_of(self.loaded)
        _ = self.loaded.anatomy  # found now, so that the first answer comes as fast as the others

    def __repr__(self) -> str:
        plan = "" if self.pruned is None else f", a plan that prunes {len(self.pruned)}"
        return f"LiveModel({self.loaded.name!r}, predicts: {self.kind}{plan})"

    def answer(self, question: Question) -> dict[str, Any]:
        """Attention and predictions, as the page reads them; one question is answered at a time.

        Raises:
            InputError: for a text that is empty or too long, before the model reads it; or if its
                numbers overflow under the gates.
        """
        with self._lock:
            return self._answer(question)

    def _answer(self, question: Question) -> dict[str, Any]:
        start = time.perf_counter()
        text = check_text(spelled(self.loaded, question.text))
        second = question.second and check_text(question.second, "second sentence")
        dense = self._dense_predictions(text, second)
        gates = question.gates
        gated = predict(self.loaded, self.kind, text, second, gates) if gates else dense
        other = None if self.kind == "similarity" else second
        if self.kind == "translation" and other is None:
            other = next((each.text for each in gated if isinstance(each, Text)), None) or None
        attention = word_attention(self.loaded, text, other, gates)
        return {
            "attention": attention_data(attention),
            "head": sharpest(attention),
            "second": attention.second,
            "predictions": [_compared(*pair) for pair in zip(dense, gated, strict=True)],
            "seconds": time.perf_counter() - start,
        }

    def effects(self, question: Question) -> dict[str, Any]:
        """By how much each head raises a prediction of the dense model, in nats (`explain`).

        Raises:
            InputError: without a target, or with one that can't be explained.
        """
        if question.target is None:
            raise InputError('Expected a target, such as {"target": " moon"}, got none.')
        if question.second is not None and self.kind == "classification":
            raise InputError(
                "Expected one text to explain a label of, got a pair. Empty the second field."
            )
        with self._lock:
            text = check_text(question.text)
            read_source(self.loaded, spelled(self.loaded, text))
            asked = text, question.target, question.against
            found = explain(self.loaded, *asked, options=ZEROED)
        return {
            "target": question.target,
            "against": question.against,
            "value": found.record.value,
            "effects": {row.part: row.value for row in found.effects},
            "head": found.largest,
        }

    def _dense_predictions(self, text: str, second: str | None) -> list[Prediction]:
        key = (text, second)
        if key not in self._dense:
            found = predict(self.loaded, self.kind, text, second, {})
            self._dense = {key: found}
        return self._dense[key]


def _compared(dense: Prediction, gated: Prediction) -> dict[str, Any]:
    """One prediction of the dense model and of the gated one."""
    if isinstance(dense, Text) and isinstance(gated, Text):
        return {"kind": "text", "title": dense.title, "dense": dense.text, "gated": gated.text}
    if isinstance(dense, Number) and isinstance(gated, Number):
        return {"kind": "number", "title": dense.title, "dense": dense.value, "gated": gated.value}
    assert isinstance(dense, Choices) and isinstance(gated, Choices)
    count = min(SHOWN, len(dense.probability_V))
    tops = [each.probability_V.topk(count).indices.tolist() for each in (dense, gated)]
    rows = [
        {
            "text": dense.name(index),
            "target": dense.target(index),
            "dense": float(dense.probability_V[index]),
            "gated": float(gated.probability_V[index]),
        }
        for index in dict.fromkeys([*tops[0], *tops[1]])
    ]
    return {"kind": "choices", "title": dense.title, "rows": rows}
