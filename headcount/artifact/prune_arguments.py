"""Arguments of `headcount prune`: budget, speed, compensation and survival.

Each group of options is checked before a model is loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headcount import artifact, numbers, pruning, results, skills, speed
from headcount.commands import check_data, field_values
from headcount.core import Heads, InputError, amount, check_known
from headcount.corpora import check_template
from headcount.training import FinetuneConfig


@dataclass(frozen=True)
class BudgetArguments:
    """How many heads to keep, or how small, fast and good the model must be; several at once."""

    keep: tuple[int, ...] = ()
    """Number of heads to keep, in total or, with --site, one number per site."""
    speedup: float | None = None
    """Keep as many heads as possible while one forward pass is this many times as fast as the dense
    model's, e.g. 1.2, in the case that is timed."""
    size: str | None = None
    """Keep as many heads as possible while the weights take at most this share of the dense model's
    bytes, e.g. 80%."""
    max_drop: str | None = None
    """Largest drop of the score on --dev, in its unit or, as 1%, of the dense model's score; the
    upper end of its 95 % interval counts. Alone, it keeps as few heads as possible."""
    latency: float | None = None
    """Keep as many heads as possible while one forward pass of the compact model, without
    search or generation, takes at most this many ms on the --dev example of median length."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    keep_cache: str | None = None
    """Keep as many heads as possible whose keys and values take at most this share of the
    cache's bytes, e.g. 60%, as `--bytes` of `cache`; entire key/value groups are pruned."""
    neurons: bool = False
    """Prune neurons of feed-forward networks, too: heads and neurons are chosen together by Fisher
    information under one --speedup or --size."""

    def spec(self, sites: Sequence[str]) -> "pruning.BudgetSpec":
        """The budget.

        Raises:
            InputError: If there is none, or one that no model can meet.
        """
        return pruning.BudgetSpec(
            self.to_keep(sites),
            self.share,
            None if self.keep_cache is None else numbers.part(self.keep_cache),
            self.max_drop,
            self.latency,
            self.speedup,
            None if self.size is None else numbers.part(self.size),
        )

    def to_keep(self, sites: Sequence[str]) -> "pruning.Keep | None":
        """The number of heads to keep, in total or site by site."""
        if not self.keep:
            return None
        if len(set(sites)) < len(sites):
            raise InputError(f"Expected every --site once, got {' '.join(sites)}. Name each once.")
        if len(self.keep) != max(1, len(sites)):
            raise InputError(
                f"Expected one number for --keep, or one for each --site, got "
                f"{amount(len(self.keep), 'number')} and {amount(len(sites), 'site')}. Give one "
                "for each."
            )
        return dict(zip(sites, self.keep, strict=True)) if sites else self.keep[0]

    def num_pruned(self, heads: Heads, sites: Sequence[str]) -> int | None:
        """The number of heads that are pruned; None if it is searched."""
        total = sum(sum(heads.counts.get(site, ())) for site in sites or heads.counts)
        if self.share is not None:
            return total - round(self.share * total)
        keep = self.to_keep(sites)
        if keep is None:
            return None
        return total - (keep if isinstance(keep, int) else sum(keep.values()))


@dataclass(frozen=True)
class TimingArguments:
    """The case in which the pruned model is timed beside the dense one."""

    speed: bool = True
    """Time one forward pass of both models, in turns, once the model is pruned."""
    batch: int = pruning.TIMING.batch[0]
    """Number of examples of the pass that is timed."""
    length: int | None = None
    """Number of tokens of each example; the median of --dev by default."""

    def options(self) -> "speed.Options":
        """The case."""
        length = () if self.length is None else (self.length,)
        return replace(pruning.TIMING, batch=(self.batch,), length=length)

    def check(self) -> None:
        """Check that the case can be run by some model."""
        options = self.options()
        replace(options, length=options.length or (1,)).check_sizes()


@dataclass(frozen=True)
class CompensationArguments:
    """What makes up for the pruned heads."""

    fold: bool = True
    """Fold the mean output of pruned heads into the bias where that lowers the loss."""
    rescale: bool = True
    """Rescale kept heads to compensate for pruned ones where that lowers the loss."""
    recover: int = 0
    """Number of updates that train the kept heads on --data, used if the loss drops; 0 for none."""
    tune: tuple[str, ...] = ()
    """Set fields of the recovery training, as NAME=VALUE, e.g. peak=5e-5 distilled=0.5."""
    control: bool = True
    """Train the dense model for as many updates as the pruned one, and measure it as a control."""
    control_taught: bool = False
    """Give that control the pruned model's teacher, the dense model before its training."""

    def recovery(self) -> FinetuneConfig | None:
        """The settings of the recovery training; None for none."""
        if self.recover < 0:
            raise InputError(f"Expected --recover of at least 0 updates, got {self.recover}.")
        if self.tune and not self.recover:
            raise InputError("--tune only affects recovery training. Add --recover UPDATES.")
        if any(each.partition("=")[0].strip() == "updates" for each in self.tune):
            raise InputError("--recover sets the number of updates. Leave updates out of --tune.")
        if not self.recover:
            return None
        recovery = FinetuneConfig(updates=self.recover, **field_values(FinetuneConfig, self.tune))
        if recovery.gate_rate != FinetuneConfig.gate_rate:
            raise InputError("Recovery training has no gates to learn. Leave gate_rate out.")
        return recovery

    def stages(self, mend: bool) -> "pruning.Compensation":
        """What is tried; nothing is folded or rescaled unless `mend`."""
        return pruning.Compensation(
            self.fold and mend,
            self.rescale and mend,
            self.recovery(),
            self.control,
            self.control_taught,
        )


@dataclass(frozen=True)
class SurvivalArguments:
    """Which functions of heads survive."""

    analysis: Path | None = None
    """Folder of `headcount analyze` of the dense model; reports which functions survive."""
    corpus: tuple[str, ...] = ()
    """With --analysis: its corpus, to find heads of the pruned model that took over functions."""
    skills: tuple[str, ...] = ("induction",)
    """Ask the dense and the pruned language model for these skills: induction, retrieval, answers
    or function_vector; all but the first take minutes."""
    chat: bool = False
    """Ask for needles, also of heads to protect, in a user's message in the tokenizer's chat
    template; in raw text by default."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""

    @property
    def asked(self) -> "skills.SkillOptions":
        """How skills are asked."""
        return replace(skills.BRIEF, chat=self.chat, template=self.template)

    def check(self) -> None:
        """Check that the analysis and its corpus are there."""
        if self.corpus and self.analysis is None:
            raise InputError(
                "Expected --analysis together with --corpus. Name the dense model's analysis of "
                "that corpus."
            )
        check_data(self.corpus)
        for each in self.skills:
            check_known("a skill to ask for", each, skills.ABILITIES)
        check_template(self.chat, self.template)
        if self.analysis is not None:
            results.check_is_run(self.analysis)
            if self.corpus:
                artifact.analysed_corpus(self.analysis, self.corpus)
