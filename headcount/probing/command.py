"""The command `headcount probe`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headcount import models, probing
from headcount.commands import BesideCommand, Flat, Report, check_corpus, check_no_unused_options
from headcount.probing.result import ProbeOptions

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Probe(BesideCommand["probing.Probed"]):
    """The arguments of `headcount probe`."""

    RESULT = probing.Probed

    train: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to train on."""
    test: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files to measure on."""
    resume: bool = False
    """Resume an interrupted run in --out."""
    how: Flat[ProbeOptions] = field(default_factory=ProbeOptions)

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        for option, probe in (
            ("vectors", "words"),
            ("ranks", "structure"),
            ("normalize", "structure"),
        ):
            if probe not in self.how.probes:
                check_no_unused_options(self.how, option, f"the probe {probe}", f"Add {probe}")
        if not self.how.needs_states:
            check_no_unused_options(self.how, "layers", "hidden states", "Add structure or layers")
        check_corpus([*self.train, *self.test])

    def forget(self) -> None:
        """Delete finished probes."""
        probing.forget_probes(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "probing.Probed":
        """Run the probes."""
        return probing.probe(read, self.train, self.test, self.how, self.out, progress)
