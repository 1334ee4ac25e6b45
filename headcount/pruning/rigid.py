"""Rigid: detects models whose heads can't be cut out before time is spent on a plan."""

from headcount.compaction import compact
from headcount.models.load import Loaded
from headcount.pruning.budget import Unit, Units
from headcount.pruning.plan import Plan


def refuse_rigid(loaded: Loaded, units: Units | None = None) -> None:
    """Check that a model can be made smaller, by cutting one unit out of every layer as a trial.

    Meanwhile, the smaller model takes memory beside the original.

    Args:
        loaded: the model.
        units: what can be pruned; all of its heads, or groups, if None.

    Raises:
        ModelError: if the model can't be made smaller; the error says why.
    """
    units = units or Units.of(loaded.anatomy)
    goes = {head for unit in _trial(units.tied()) for head in unit}
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if head not in goes])
    compact(loaded, plan, origin="trial")


def _trial(units: Units) -> list[Unit]:
    """The last unit of every layer with several; if none has, all layers except the first."""
    layers: dict[tuple[str, int], list[Unit]] = {}
    for unit in units.units:
        layers.setdefault((unit[0].site, unit[0].layer), []).append(unit)
    several = [each[-1] for each in layers.values() if len(each) > 1]
    return several or [each[0] for each in list(layers.values())[1:]]
