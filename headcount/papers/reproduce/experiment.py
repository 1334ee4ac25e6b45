"""Pruning experiment: methods prune a model under several budgets, in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

from headcount.core import short_hash
from headcount.models import Loaded
from headcount.pages import document_of, write_documents
from headcount.pruning import Method, PruneSettings, Trial, Units, curve, curve_of
from headcount.results import Curve, CurvePoints
from headcount.tasks import TaskSplits


@final
@dataclass(frozen=True, eq=False)
class PruningExperiment:
    """A model, its task, and the folder of a paper's pruning.

    What an unfinished experiment with the same model, data and options left in the folder is
    resumed.
    """

    loaded: Loaded
    """The model to prune."""
    splits: TaskSplits
    """The data to choose heads on, and to measure on."""
    out: Path
    """Folder for the document, the files of the curve, and the state."""
    settings: PruneSettings = field(default_factory=PruneSettings)
    """Which heads may be pruned, the seed, and the like; the state is always in `out/state`."""
    arguments: Mapping[str, Any] | None = None
    """Arguments of the command, for the record."""

    @property
    def state(self) -> Path:
        """Folder of the work of an interrupted run, and of every point's training."""
        return self.out / "state"

    @cached_property
    def units(self) -> Units:
        """The units that may be pruned."""
        return self.trial.context.units

    @cached_property
    def trial(self) -> Trial:
        """The model, data and options with which every point is measured."""
        settings = replace(self.settings, state=self.state)
        context = settings.context(self.loaded, self.splits.train)
        return Trial(context, self.splits.dev, self.splits.test)

    def signature(self, made_by: str) -> str:
        """The signature of points.

        Args:
            made_by: the methods and trainings with all their options.
        """
        by = short_hash(made_by)
        settings = self.settings
        signed = self.splits.signature(self.loaded, settings.seed, **settings.signed_options)
        return f"{signed}|by:{by}"

    def curve(
        self, methods: Mapping[str, Method], keeps: Sequence[int], seeds: Sequence[int]
    ) -> Curve:
        """Measure all points and write the files of their curve.

        Args:
            methods: methods by name.
            keeps: numbers of kept heads among those that may be pruned.
            seeds: seeds of random orders; other methods use the first.
        """
        signature = self.signature(repr(methods))
        points = curve(self.trial, methods, keeps, seeds, signature)
        return self.write(points, methods, signature)

    def write(self, points: CurvePoints, methods: Mapping[str, Method], signature: str) -> Curve:
        """Write the files of a curve, and return it."""
        found = curve_of(points, self.loaded, self.splits, methods, signature)
        found = found.recorded(self.arguments or {})
        found.write(self.out)
        write_documents(found, document_of(found), self.out)
        return found
