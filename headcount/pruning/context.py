"""Context: what a method chooses heads with, and the settings that it is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

from headcount.core import MAX_TOKENS, Progress, silent
from headcount.models import Loaded
from headcount.pruning.budget import Units
from headcount.pruning.options import CALIBRATION
from headcount.pruning.protecting import Roles, known_roles, protected_heads
from headcount.tasks import Task, check_examples_fit, drawn
from headcount.training import TrainingRun


@final
@dataclass(frozen=True, eq=False)
class PruningContext:
    """What a method has to choose heads with."""

    loaded: Loaded
    train: Task
    """Training data; some of its examples are used to score heads."""
    units: Units
    """What can be pruned: single heads or entire groups; and which heads must be kept."""
    seed: int = 0
    max_tokens: int = MAX_TOKENS
    state: Path | None = None
    """Folder for intermediate state, from which an interrupted choice resumes."""
    progress: Progress = silent
    calibration: int = CALIBRATION
    """Number of examples drawn from `train`, or all if it has fewer, for steps without training:
    scores of heads, folding, rescaling."""
    roles: Roles = field(default_factory=dict)
    """Roles of the heads, by head name; empty if none were looked for."""

    @cached_property
    def sample(self) -> Task:
        """The examples for steps without training."""
        return drawn(self.train, self.calibration, self.seed)

    def watched(self, task: Task, stage: str) -> Task:
        """A task whose examples are reported as a stage while a model runs on them."""
        return task.watched(partial(self.progress, stage))

    def scored(self, name: str) -> Task:
        """The examples for steps without training, reported as a score runs on them."""
        return self.watched(self.sample, name)

    def training_run(
        self, stage: str, state: Path | None, about: Mapping[str, Any] | None = None
    ) -> TrainingRun:
        """One run of a training, whose progress is reported as a stage.

        Args:
            stage: the stage's name.
            state: folder from which the training resumes.
            about: further values that must be the same on resuming.
        """
        return TrainingRun(
            self.seed,
            state,
            about,
            lambda moment: self.progress(stage, moment.step, moment.steps),
        )


@final
@dataclass(frozen=True)
class PruneSettings:
    """Settings of `prune` beside model, data, method and budget: sites, seed, state and the like.

    >>> PruneSettings(sites=("encoder.self",), calibration=500, seed=1).whole_groups
    True
    """

    sites: tuple[str, ...] = ()
    """Sites whose heads may be pruned; all if empty."""
    whole_groups: bool = True
    """Whether heads that share keys and values are pruned together; otherwise a layer keeps equally
    many heads of every group."""
    protect: tuple[str, ...] = ()
    """Names of heads that are kept whatever the method, or roles whose heads are; a protected head
    protects its whole group."""
    roles: Roles | None = None
    """Roles of the heads by an analysis, such as `read_roles` gives; of causal models, induction
    and the like are found without."""
    calibration: int = PruningContext.calibration
    """Number of training examples drawn for steps without training: scores, folding, rescaling."""
    seed: int = 0
    """Seed of everything that is drawn."""
    max_tokens: int = PruningContext.max_tokens
    """Number of padded tokens in a batch."""
    state: Path | None = None
    """Folder for intermediate state, from which an interrupted call resumes; None for no state."""
    progress: Progress = silent
    """Function called with a stage's name, how much is done, and the total."""

    def context(self, loaded: Loaded, train: Task, with_roles: bool = False) -> PruningContext:
        """What a method has to choose heads with.

        Args:
            loaded: the model.
            train: the data to choose heads with.
            with_roles: whether to find roles even if no head is protected, which takes seconds.

        Raises:
            InputError: for texts that do not fit into memory, a site or a protected head that the
                model does not have, or a protected role that no head has.
        """
        check_examples_fit(loaded, train, self.max_tokens)
        units = Units.of(loaded.anatomy, self.sites or None, self.whole_groups)
        roles: Roles = {}
        if self.protect or with_roles:
            roles = known_roles(loaded, self.seed, self.roles, self.progress)
        return PruningContext(
            loaded,
            train,
            units.protecting(protected_heads(self.protect, loaded, roles)),
            seed=self.seed,
            max_tokens=self.max_tokens,
            state=self.state,
            progress=self.progress,
            calibration=self.calibration,
            roles=roles,
        )

    @property
    def signed_options(self) -> Mapping[str, object]:
        """The settings that numbers depend on, besides the seed, for signatures."""
        return {
            "sites": "+".join(self.sites) or None,
            "groups": self.whole_groups,
            "protect": "+".join(self.protect) or None,
            "calibration": self.calibration,
        }
