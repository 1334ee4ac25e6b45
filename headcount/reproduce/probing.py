"""What reproductions of papers on probes share: running probes, and sentences about claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headcount.core import Progress, amount, silent
from headcount.models import Loaded
from headcount.probes import ProbeOptions, forget_probes, probe
from headcount.reports import write_probe_figures
from headcount.results import Probed, ProbeRow


@runtime_checkable
class ProbeReproduction(Protocol):
    """Runs a paper's probes and writes its document."""

    def __call__(
        self,
        loaded: Loaded,
        files: "tuple[Files, Files]",
        out: Path,
        options: ProbeOptions | None = None,
        arguments: Mapping[str, Any] | None = None,
        progress: Progress = silent,
    ) -> Path:
        """Write the document; returns its path."""
        ...


Files = Sequence[str | Path]
"""CoNLL-U files."""


def run_probes(
    loaded: Loaded,
    files: tuple[Files, Files],
    out: Path,
    options: ProbeOptions,
    arguments: Mapping[str, Any] | None,
    progress: Progress,
) -> Probed:
    """Run probes and write their tables and figures; an unfinished run in the folder is resumed.

    Args:
        loaded: the model.
        files: files to train on and to measure on.
        out: folder for the results.
        options: the probes.
        arguments: arguments of the command, for the record.
        progress: called with the progress.
    """
    found = probe(loaded, *files, options, out, progress)
    found = found.recorded(arguments or {})
    found.write(out)
    forget_probes(out)
    write_probe_figures(out)
    return found


def about(found: Probed) -> str:
    """The sentence that names model and data."""
    record = found.record
    return (
        f"Here: {record.model} ({amount(record.heads, 'head')} in "
        f"{amount(record.layers, 'layer')}), trained on "
        f"{amount(record.train_sentences, 'sentence')} ({amount(record.train_words, 'word')}) of "
        f"{names(record.train)}, measured on {amount(record.test_sentences, 'sentence')} "
        f"({amount(record.test_words, 'word')}) of {names(record.test)}. Intervals are 95 %, by a "
        "bootstrap over sentences."
    )


def names(files: Sequence[str]) -> str:
    """The names of some files, without their folders."""
    return ", ".join(Path(file).name for file in files)


def points(row: ProbeRow | None) -> str:
    """A share in points with its interval; a dash if there is none.

    >>> points(ProbeRow("attention", "trained", "uas", 0.5631, 0.552, 0.571, 900))
    '56.3 (55.2 to 57.1)'
    """
    if row is None or row.value != row.value:
        return "–"
    return f"{100 * row.value:.1f} ({100 * row.low:.1f} to {100 * row.high:.1f})"


def verdict(holds: bool, claim: str, found: str) -> str:
    """A line of the list of claims.

    >>> verdict(True, "Attention knows trees", "60 against 30")
    '- Attention knows trees: **holds** (60 against 30).'
    """
    return f"- {claim}: **{'holds' if holds else 'does not hold'}** ({found})."


def apart(above: ProbeRow | None, below: ProbeRow | None) -> bool:
    """Whether one number is above another and their intervals do not overlap."""
    return above is not None and below is not None and above.low > below.high
