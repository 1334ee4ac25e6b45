"""Arguments of commands that prune: data to choose heads on, and the heads that may be pruned."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headcount import models, pruning, tasks
from headcount.commands import LearningArguments
from headcount.core import InputError, Progress, silent
from headcount.pruning.options import CALIBRATION

Site = Literal["encoder.self", "decoder.self", "decoder.cross", "vision.self"]


@dataclass(frozen=True)
class TrialArguments(LearningArguments):
    """Data to choose heads on and to measure on, and the heads that may be pruned."""

    site: tuple[Site, ...] = ()
    """Sites whose heads may be pruned; all by default."""
    groups: bool = True
    """Prune whole groups of heads that share keys and values; otherwise equally many of each."""
    protect: tuple[str, ...] = ()
    """Keep these heads whatever the method, with their groups: names such as dec.17.3, or roles.
    induction, duplicate and previous are found in causal models; others need --analysis."""
    calibration: int = CALIBRATION
    """Number of examples drawn from --data for scoring heads, folding and rescaling; training uses
    all."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If the number of examples or another argument can't be used.
        """
        if self.calibration < 1:
            raise InputError(f"Expected --calibration of at least 1, got {self.calibration}.")
        if self.protect:
            pruning.check_protect(self.protect)
        super().check()

    def check_heads(self, keep: "pruning.Keep | None", analysis: Path | None) -> None:
        """Check what the model's configuration says of heads; it may not say anything.

        Args:
            keep: Number of heads to keep, in all or at each site; None if it is not known yet.
            analysis: Analysis of the model, from which roles are read.

        Raises:
            InputError: If more heads are to be kept than the model has, a protected head is not the
                model's, or a protected role can't be known.
        """
        has_roles = analysis is not None
        protected = pruning.check_protect(self.protect, has_roles) if self.protect else []
        if keep is None and not protected:
            return
        stated = models.Stated.of(self.model, self.trust_remote_code)
        stated.check_heads(protected, "--protect")
        if isinstance(keep, int):
            stated.check_keep(keep)
        elif keep is not None:
            for site, number in keep.items():
                stated.check_keep(number, site)

    def settings(
        self, state: Path | None, progress: Progress, roles: "pruning.Roles | None" = None
    ) -> "pruning.PruneSettings":
        """What may be pruned, and how numbers are made.

        Args:
            state: Folder for intermediate state.
            progress: Function that is called with the progress.
            roles: Roles of the heads by an analysis.
        """
        return pruning.PruneSettings(
            sites=self.site,
            whole_groups=self.groups,
            protect=self.protect,
            roles=roles,
            calibration=self.calibration,
            seed=self.seed,
            max_tokens=self.max_tokens,
            state=state,
            progress=progress,
        )

    def signature(self, loaded: "models.Loaded", splits: "tasks.TaskSplits", **more: object) -> str:
        """The signature of everything that the numbers depend on, sites and groups included."""
        signed = self.settings(None, silent).signed_options
        return super().signature(loaded, splits, **signed, **more)


def check_calibration(calibration: int, methods: "Iterable[pruning.MethodOptions]") -> None:
    """Raise an error if --calibration was set and no method scores heads on examples.

    Raises:
        InputError: If --calibration would have no effect.
    """
    if calibration != CALIBRATION and not any(each.uses_data for each in methods):
        raise InputError(
            "--calibration only affects scores of heads, folding and rescaling, and this run has "
            "none of them. Leave it out."
        )
