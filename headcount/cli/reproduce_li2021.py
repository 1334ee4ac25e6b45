"""`headcount reproduce li2021`: the paper's comparison of methods, on any model."""

from dataclasses import dataclass, field

import tyro

from headcount import reproduce
from headcount.cli.data_arguments import TrialArguments
from headcount.cli.reproduce_pruning import Experiment, FolderArguments


@dataclass(frozen=True)
class Li2021(FolderArguments):
    """Reproduce Differentiable Subset Pruning of Transformer Heads: methods under equal budgets."""

    on: tyro.conf.OmitArgPrefixes[TrialArguments]
    keep: tuple[int, ...] = field(kw_only=True)
    """Numbers of kept heads among the prunable ones (see --site): one point each."""
    tune: tuple[str, ...] = ()
    """Set fields of the trainings with gates, as NAME=VALUE, e.g. updates=2000 peak=3e-4."""

    def run(self) -> int:
        """Run every method under every budget."""
        chosen = reproduce.li2021_methods(self.tune)
        experiment = Experiment.claimed(self, self.on, repr(chosen))
        frame = experiment.curve(chosen, self.keep, [self.on.seed])
        facts = experiment.facts
        text = reproduce.li2021_document(
            frame, facts.metric, facts.higher_is_better, facts.signature
        )
        return experiment.reported("li2021.md", text)
