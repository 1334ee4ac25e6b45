"""The command `headcount compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from headcount import compare, numbers
from headcount.commands import Command, plain_console, print_warnings
from headcount.core import InputError, check_is_folder
from headcount.results import check_is_run

EXPLANATION = "explanation.json"
"""What the folder of an explanation holds."""


@dataclass(frozen=True)
class Compare(Command):
    """The arguments of `headcount compare`."""

    one: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT_A")]
    """Folder of a run of `headcount analyze`, or of `headcount explain --prompts`."""
    other: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT_B")]
    """Folder of a second one: same model on other data, or another model."""
    out: Path = Path("headcount-comparison")
    """Folder for the comparison; an earlier comparison in it is replaced."""

    match: bool = False
    """Pair heads by their profiles, for models trained apart, which number heads by chance;
    writes matching.json."""

    def run(self) -> int:
        """Compare the runs, write the comparison, and print the main numbers."""
        folders = (self.one, self.other)
        if all((each / EXPLANATION).exists() for each in folders) and not any(
            (each / "run.json").exists() for each in folders
        ):
            return self._explanations()
        for folder in (self.one, self.other):
            check_is_run(folder)
        check_is_folder(self.out)
        found = compare.write_comparison(self.one, self.other, self.out, self.match)
        console = plain_console(soft_wrap=False)
        print_warnings(found.warnings, console)
        if not found.is_paired:
            console.print(found.headline)
            if not self.match:
                console.print(
                    "--match pairs heads by what they do; for a pruned model, give the run of the "
                    "dense one to `headcount report RUN --pruned FOLDER`."
                )
        else:
            _print(found, console)
        for site in found.matching.sites if found.matching else ():
            console.print(f"{compare.matching_title(site)}: {compare.matching_sentence(site)}")
        console.print(f"Comparison: {self.out / 'comparison.html'}", soft_wrap=True)
        return 0

    def _explanations(self) -> int:
        """Compare two explanations."""
        if self.match:
            raise InputError(
                "Expected two runs of `headcount analyze` for --match, got two explanations. Leave "
                "it out."
            )
        check_is_folder(self.out)
        names = compare.names_of(self.one, self.other)
        found = compare.write_explanations(self.one, self.other, self.out, names)
        console = plain_console(soft_wrap=False)
        print_warnings(found.warnings, console)
        console.print(found.headline)
        console.print(f"Comparison: {self.out / 'comparison.html'}", soft_wrap=True)
        return 0


def _print(found: "compare.Comparison", console: Console) -> None:
    """Print the main numbers of runs over the same heads."""
    console.print(found.headline)
    for name in ("ablation_delta", "relevance", "gradient", "confidence"):
        if name in found.by_head:
            console.print(
                f"{name}: rank correlation {found.by_head[name]} head by head, "
                f"{numbers.correlation(found.by_layer[name].rho)} between layer means"
            )
    if not found.is_one_model:
        console.print(
            "For models trained separately, compare layer means, or heads matched by --match."
        )
