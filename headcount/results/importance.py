"""The importance of heads for a task, as plain values: the contents of `importance.json`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from headcount.core import SITES, Head, LayerId

METRICS: Mapping[str, str] = {"bleu": "BLEU", "chrf": "chrF", "f1": "F1"}
"""Spelling of the metrics that are not written like their names."""


REPLACEMENTS = {
    "zero": "output set to zero",
    "mean": "output replaced by its mean",
    "uniform": "attention made uniform",
}
"""Ways to remove a head, in words."""


@final
@dataclass(frozen=True)
class Effect:
    """How much worse the model gets without some heads; positive means that they help."""

    site: str
    layer: int
    head: str
    """The only head kept in the layer; empty if all heads of the layer are removed."""
    delta: float
    low: float
    high: float
    p: float
    """P-value; NaN if the effect was not tested."""

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Effect":
        """One entry of `layers` or of `single_heads`."""
        site, layer, head = str(entry["site"]), int(entry["layer"]), entry.get("head", "")
        if site not in SITES:
            raise ValueError(f"expected a site among {', '.join(SITES)}, got {site!r}")
        name = str(Head(site, layer, head)) if isinstance(head, int) else str(head)
        return cls(
            site, layer, name, *(_number(entry, key) for key in ("delta", "low", "high", "p"))
        )


@final
@dataclass(frozen=True)
class SiteEffect:
    """How much worse the model gets without any of a site's heads."""

    site: str
    delta: float
    low: float
    high: float
    p: float

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "SiteEffect":
        """One entry of `sites`."""
        site = str(entry["site"])
        if site not in SITES:
            raise ValueError(f"expected a site among {', '.join(SITES)}, got {site!r}")
        return cls(site, *(_number(entry, key) for key in ("delta", "low", "high", "p")))


@final
@dataclass(frozen=True)
class Matrix:
    """Rank correlations between scores."""

    names: tuple[str, ...]
    rho: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sentence: str

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Matrix":
        """The entry `agreement`."""
        names = tuple(map(str, entry["names"]))
        shape = (len(names), len(names))
        matrices = (_matrix(entry[name], shape) for name in ("rho", "low", "high"))
        return cls(names, *matrices, sentence=str(entry.get("sentence", "")))


@final
@dataclass(frozen=True)
class ImportanceRecord:
    """The assessment of a model: everything that is not in the table of heads."""

    task: str
    metric: str
    higher_is_better: bool
    num_examples: int
    loss: float
    """Loss of the dense model; `score` is the dense model's too."""
    score: float
    methods: tuple[str, ...]
    replacement: str
    """How ablation removes heads, in words; empty without ablation."""
    quantity: str
    """The quantity that ablation measures: `loss`, or the metric as it is spelt."""
    sites: tuple[SiteEffect, ...]
    layers: tuple[Effect, ...]
    single_heads: tuple[Effect, ...]
    agreement: Matrix | None
    across: str
    """Agreement of the effects with those on other data, in words; empty if not compared."""
    facts: Mapping[str, Any]
    """Seconds and signature, printed as they are."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "ImportanceRecord":
        """Read the contents of `importance.json`; KeyError, TypeError or ValueError if damaged."""
        ablation = found.get("ablation") or {}
        replacement = str(ablation.get("replacement", ""))
        layers, single_heads = (found.get(name) or () for name in ("layers", "single_heads"))
        return cls(
            task=str(found["task"]),
            metric=str(found.get("metric", "")),
            higher_is_better=bool(found.get("higher_is_better", True)),
            num_examples=int(found["num_examples"]),
            loss=_number(found, "loss"),
            score=_number(found, "score"),
            methods=tuple(map(str, found.get("methods") or ())),
            replacement=REPLACEMENTS.get(replacement, replacement),
            quantity=_quantity(ablation, str(found.get("metric", ""))),
            sites=tuple(map(SiteEffect.of, found.get("sites") or ())),
            layers=tuple(map(Effect.of, layers)),
            single_heads=tuple(map(Effect.of, single_heads)),
            agreement=Matrix.of(found["agreement"]) if found.get("agreement") else None,
            across=str((found.get("across") or {}).get("sentence", "")),
            facts={name: found[name] for name in ("seconds", "signature") if found.get(name)},
        )

    @property
    def rises(self) -> bool:
        """Whether the measured quantity rises as the model gets worse."""
        return self.quantity == "loss" or not self.higher_is_better

    @property
    def effect(self) -> str:
        """The effect that ablation measures, e.g. "rise in the loss"."""
        name = "the loss" if self.quantity == "loss" else self.quantity
        return f"{'rise' if self.rises else 'drop'} in {name}"


def _quantity(ablation: Mapping[str, Any], metric: str) -> str:
    is_loss = ablation.get("quantity", "loss") == "loss"
    return "loss" if is_loss else METRICS.get(metric, metric)


def _number(entry: Mapping[str, Any], name: str) -> float:
    value = entry.get(name)
    return math.nan if value is None else float(value)


def _matrix(rows: Sequence[Sequence[float | None]], shape: tuple[int, int]) -> np.ndarray:
    matrix = np.array([[math.nan if x is None else float(x) for x in row] for row in rows])
    if matrix.shape != shape:
        raise ValueError(f"expected a matrix of {shape[0]} x {shape[1]}, got {matrix.shape}")
    return matrix
