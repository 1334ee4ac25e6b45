"""The record of a pruned model: the contents of `prune.json`, from which its head card is made.

A model made from a plan alone has no choice and no pipeline. A pruned model that was trained
further has the choice, but none of the numbers that training made untrue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from headcount.core import JsonObject, brief_repr, encoded, omitted
from headcount.results.cache import CacheRecord
from headcount.results.certificate import Comparison
from headcount.results.changes import DataSetChange, by_data_set
from headcount.results.pipeline import PipelineRecord
from headcount.results.sealing import read_sealed, write_sealed
from headcount.results.speed import SpeedRecord

PRUNE = "prune.json"

SPARED = ", one head per group spared"
"""Ending of the name of a method that spares a head of each group."""


@final
@dataclass(frozen=True)
class ChoiceRecord:
    """How the heads to keep were chosen."""

    method: str
    """Name of the method, as given to `--method`; it ends in `SPARED` with `--one-per-group`."""
    options: str
    """The method with all its options, as Python writes it."""
    limit: Mapping[str, Any]
    """The budget as it was given: its kind (`keep`, `share`, `max_drop` or `latency`) and value."""
    keep: int | Mapping[str, int]
    """Number of heads to keep, in all or at each site named."""
    tried: Mapping[int, float] | None = None
    """The measured drop or latency of every budget tried; None if there was no search."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Score of every head that can be pruned, by its name."""
    open: Mapping[str, int] | None = None
    """Number of heads whose gates training left open, at each site; None without such gates."""
    swept: Mapping[str, int] | None = None
    """Number of open heads by coefficient tried; None if no coefficient was searched."""
    compared: Mapping[str, float] | None = None
    """Loss by candidate of `auto`, on examples that did not score heads; None for the others."""

    @property
    def method_used(self) -> str:
        """The method that ranked the heads: of `auto`, the candidate with the lowest loss."""
        return (
            self.method if not self.compared else min(self.compared, key=self.compared.__getitem__)
        )

    @property
    def ranking(self) -> str:
        """That method as given to `--method`."""
        return self.method_used.removesuffix(SPARED)

    history: tuple[Mapping[str, Any], ...] | None = None
    """Log entries of a training with gates; None if the method trains nothing."""
    protected: tuple[str, ...] = omitted(())
    """Names of the heads that were kept whatever the method."""

    def __post_init__(self) -> None:
        if len(self.limit) != 1:
            raise ValueError(f"expected one kind of budget, got {', '.join(self.limit) or 'none'}")


@final
@dataclass(frozen=True)
class CeilingRecord:
    """The largest possible speedup of one forward pass, by its FLOPs."""

    tokens: int
    """Number of tokens of the forward pass."""
    value: float
    """FLOPs of the dense model divided by those of the pruned one."""


@final
@dataclass(frozen=True)
class Survival:
    """What became of one role."""

    role: str
    """Name of the role."""
    before: int
    """Number of heads with the role in the dense model."""
    stayed: tuple[str, ...]
    """Names of these heads that were kept."""
    kept: tuple[str, ...] | None = None
    """Names of these heads that still have the role after pruning; None if not analysed."""
    taken_over: tuple[str, ...] | None = None
    """Names of heads that have the role only in the pruned model; None if not analysed."""


@final
@dataclass(frozen=True)
class PruneRecord:
    """How a pruned model was made, and every number before and after."""

    __repr__ = brief_repr

    model: str
    """Name of the dense model."""
    heads: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer of the dense model, by site."""
    kept: tuple[str, ...]
    """Names of the kept heads."""
    pruned: tuple[str, ...]
    """Names of the pruned heads."""
    auto_class: str = "AutoModel"
    """Name of the auto class that loads the model with transformers alone."""
    comparisons: tuple[Comparison, ...] = ()
    """The comparisons of the certificate."""
    choice: ChoiceRecord | None = None
    """How the heads were chosen; None for a plan of unknown origin."""
    pipeline: PipelineRecord | None = None
    """What followed the choice; None if nothing did, or training made it untrue."""
    ceiling: CeilingRecord | None = None
    """The largest possible speedup; None if it is unknown."""
    cache: CacheRecord | None = None
    """What the key/value cache costs; None for a model that generates nothing."""
    data_sets: Mapping[str, DataSetChange] = field(default_factory=dict)
    """Numbers before and after, by the data set's name: `dev` and `test`."""
    compensated_by: tuple[str, ...] | None = None
    """Stages that had changed the weights before further training; None without such training."""
    trained_on: int | None = None
    """Number of updates of further training; None without it."""
    functions: tuple[Survival, ...] | None = None
    """What became of every role; None if the dense model's analysis was not given."""
    speed: SpeedRecord | None = None
    """The measured speed; None if it was not measured."""
    warnings: tuple[str, ...] = ()
    """A sentence for everything that the user was warned of."""
    signature: str | None = None
    """Signature of everything that the numbers depend on."""
    arguments: Mapping[str, Any] | None = None
    """Arguments of the command that made the model; in Python, the options of the method and of the
    recovery that differ from their defaults."""

    @property
    def kept_stages(self) -> tuple[str, ...]:
        """Names of the stages after the choice that changed the weights."""
        if self.compensated_by is not None:
            return self.compensated_by
        stages = () if self.pipeline is None else self.pipeline.stages
        return tuple(each.stage for each in stages if each.kept)

    def to_json(self) -> dict[str, Any]:
        """The contents of `prune.json`; parts that are None are left out."""
        found: dict[str, Any] = {
            "model": self.model,
            "heads": self.heads,
            "staying": self.kept,
            "leaving": self.pruned,
            "auto_class": self.auto_class,
            "comparisons": self.comparisons,
        }
        found |= {} if self.choice is None else encoded(self.choice)
        found |= {} if self.pipeline is None else self.pipeline.to_json()
        found |= {name: each.to_json() for name, each in self.data_sets.items()}
        if self.warnings or self.signature is not None:
            found["warnings"] = self.warnings
        optional = {
            "ceiling": self.ceiling,
            "cache": self.cache,
            "mended": self.compensated_by,
            "trained_on": self.trained_on,
            "signature": self.signature,
            "arguments": self.arguments,
            "functions": self.functions,
            "speed": self.speed and self.speed.numbers,
        }
        given = {name: each for name, each in optional.items() if each is not None}
        return encoded(found | given)

    @classmethod
    def from_json(cls, found: JsonObject) -> "PruneRecord":
        """The record in the contents of `prune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        speed = found.optional("speed", JsonObject)
        return cls(
            model=found.field("model", str),
            heads=found.field("heads", Mapping[str, tuple[int, ...]]),
            kept=found.field("staying", tuple[str, ...]),
            pruned=found.field("leaving", tuple[str, ...]),
            auto_class=found.optional("auto_class", str) or "AutoModel",
            comparisons=found.optional("comparisons", tuple[Comparison, ...]) or (),
            choice=found.decode(ChoiceRecord) if "method" in found else None,
            pipeline=PipelineRecord.from_json(found) if "gains" in found else None,
            ceiling=found.optional("ceiling", CeilingRecord),
            cache=found.optional("cache", CacheRecord),
            data_sets=by_data_set(found, DataSetChange.from_json),
            compensated_by=found.optional("mended", tuple[str, ...]),
            trained_on=found.optional("trained_on", int),
            functions=found.optional("functions", tuple[Survival, ...]),
            speed=speed and SpeedRecord.from_json(speed),
            warnings=found.optional("warnings", tuple[str, ...]) or (),
            signature=found.optional("signature", str),
            arguments=found.optional("arguments", Mapping[str, Any]),
        )

    def write(self, folder: Path) -> None:
        """Write `prune.json` with the hash of the plan; the certificate has that of the weights."""
        plan = [path.name for path in folder.glob("plan.json")]
        write_sealed(folder / PRUNE, self.to_json(), plan)

    @classmethod
    def read(cls, folder: Path) -> "PruneRecord":
        """Read the record of a folder.

        Raises:
            InputError: If there is none, or it can't be read; the error names file and field.
        """
        of_model = "the folder of a pruned model"
        return cls.from_json(read_sealed(folder / PRUNE, "headcount prune", of_model))
