"""`headcount reproduce michel2019`: Michel et al. with our numbers beside theirs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headcount import compaction, pruning, reproduce, speed
from headcount.cli.importance import Importance
from headcount.cli.reproduce_pruning import Experiment, PaperArguments, plan_at, show_document
from headcount.cli.task_arguments import check_data
from headcount.core import InputError, ModelError
from headcount.importance import DeltaOf, claim_importance

if TYPE_CHECKING:
    from headcount.core import Plan
    from headcount.models import Loaded


@dataclass(frozen=True)
class Michel2019(PaperArguments):
    """Reproduce Are Sixteen Heads Really Better than One? (section 3; or 4 and 5 with --prune)."""

    other_data: tuple[str, ...] = ()
    """A second data set of the same task: for figure 2, and to measure the best single heads, which
    are chosen on --data."""
    quantity: DeltaOf = "score"
    """Quantity whose change is measured, also with --prune; the paper uses the score, which takes a
    beam search per head in translation."""
    samples: int | None = None
    """Number of bootstrap resamples; the paper uses 1000."""
    prune: bool = False
    """Instead, prune heads tenth by tenth (section 4), and cut out half of them (table 4)."""

    def run(self) -> int:
        """Ablate on both data sets, or prune, and write the document."""
        if self.prune:
            return self._pruned()
        self.check_no_pruning("--prune")
        other = self.out / "other" if self.other_data else None
        self._check_early(other)
        if other is not None:
            self._assess(self.other_data, other)
        self._assess(self.data, self.out, against=other)
        path = reproduce.write_michel2019(self.out, other)
        show_document(path)
        return 0

    def _check_early(self, other: Path | None) -> None:
        """Raise errors before the first sweep that would otherwise appear before the second."""
        self.check()
        check_data(self.other_data)
        for folder in (self.out, *([] if other is None else [other])):
            claim_importance(folder, self.resume, self.overwrite)

    def _assess(self, data: tuple[str, ...], out: Path, against: Path | None = None) -> None:
        Importance(
            **self.shared(data=data),
            out=out,
            methods=("ablation",),
            against=against,
            quantity=self.quantity,
            samples=self.samples,
            resume=self.resume,
            overwrite=self.overwrite,
        ).run()

    def _pruned(self) -> int:
        self.check_pruning_only("--prune", ("other_data", "samples"))
        if self.pruning.tune:
            raise InputError("michel2019 trains nothing, so --tune has no effect. Leave it out.")
        chosen = reproduce.michel2019_methods(self.quantity)
        experiment = Experiment.of(self, repr(chosen))
        half = pruning.share(experiment.units, 0.5)
        keeps = {*(self.pruning.keep or reproduce.tenths(experiment.units)), half}
        seeds = range(self.pruning.seed, self.pruning.seed + 5)
        frame = experiment.curve(chosen, sorted(keeps), seeds)
        timed = self._speed(experiment.loaded, plan_at(frame, "gradient", half, experiment.loaded))
        facts = experiment.facts
        text = reproduce.pruning_document(
            frame, facts.metric, facts.higher_is_better, facts.signature, timed, self.quantity
        )
        return experiment.reported("michel2019_pruning.md", text)

    def _speed(self, loaded: "Loaded", plan: "Plan") -> "speed.Speed | str":
        """The speed of the model with half of its heads pruned, or why there is none."""
        length = min(128, loaded.max_length or 128)
        try:
            smaller = replace(loaded, model=compaction.compact(loaded, plan))
        except ModelError as error:
            return f"Not measured: {error}"
        options = speed.Options(lengths=(length,), modes=("forward",))
        return speed.compare_speed(loaded, smaller, options)
