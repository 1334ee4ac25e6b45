"""What reproductions of papers on probes share: running probes, and sentences about claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from transformers import PreTrainedModel

from headcount.core import Progress, amount, literal, silent
from headcount.models import Loaded, as_loaded
from headcount.papers.document import names
from headcount.probes import ProbeName, ProbeOptions, forget_probes, probe
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
    probes: Sequence[ProbeName],
    loaded: Loaded | PreTrainedModel,
    files: tuple[Files, Files],
    out: Path,
    options: ProbeOptions | None,
    arguments: Mapping[str, Any] | None,
    progress: Progress,
) -> Probed:
    """Run probes and write their tables and figures; an unfinished run in the folder is resumed.

    Args:
        probes: the paper's probes.
        loaded: the model.
        files: files to train on and to measure on.
        out: folder for the results.
        options: options of the probes; which ones is decided by `probes`.
        arguments: arguments of the command, for the record.
        progress: called with the progress.
    """
    options = replace(options or ProbeOptions(), probes=tuple(probes))
    found = probe(as_loaded(loaded), *files, options, out, progress)
    found = found.recorded(arguments or {})
    found.write(out)
    forget_probes(out)
    write_probe_figures(found, out)
    return found


def about(found: Probed) -> str:
    """The sentence that names model and data."""
    record = found.record
    return (
        f"Here: {literal(record.model)} ({amount(record.heads, 'head')} in "
        f"{amount(record.layers, 'layer')}), trained on "
        f"{amount(record.train_sentences, 'sentence')} ({amount(record.train_words, 'word')}) of "
        f"{names(record.train)}, measured on {amount(record.test_sentences, 'sentence')} "
        f"({amount(record.test_words, 'word')}) of {names(record.test)}. Intervals are 95 %, by a "
        "bootstrap over sentences."
    )


def apart(above: ProbeRow | None, below: ProbeRow | None) -> bool:
    """Whether one number is above another and their intervals do not overlap."""
    return above is not None and below is not None and above.low > below.high
