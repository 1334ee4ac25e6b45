"""What reproductions of papers on probes share: running probes, and sentences about claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from transformers import PreTrainedModel

from headcount.core import Document, Progress, Text, amount, silent
from headcount.models import Loaded, as_loaded
from headcount.papers.document import names
from headcount.probes import ProbeName, ProbeOptions, forget_probes, probe
from headcount.reports import document_of
from headcount.results import Probed, ProbeRow

Files = Sequence[str | Path]
"""CoNLL-U files."""

ProbeReproduction = Callable[
    [Loaded, tuple[Files, Files], Path, ProbeOptions | None, Mapping[str, Any] | None, Progress],
    Document,
]
"""Runs a paper's probes; the arguments are those of a `ProbePaper`."""


@final
@dataclass(frozen=True)
class ProbePaper:
    """A paper whose document is made of probes alone; a call runs them, and returns it."""

    probes: Sequence[ProbeName]
    document: Callable[[Probed], Document]
    options: ProbeOptions = field(default_factory=ProbeOptions)
    """Options if none are given."""

    def __call__(
        self,
        loaded: Loaded | PreTrainedModel,
        files: tuple[Files, Files],
        out: Path,
        options: ProbeOptions | None = None,
        arguments: Mapping[str, Any] | None = None,
        progress: Progress = silent,
    ) -> Document:
        """Run the probes with their controls, and return the document.

        Args:
            loaded: the model.
            files: files to train on and to measure on.
            out: folder for the results.
            options: options of the probes; which ones is decided by the paper.
            arguments: arguments of the command, for the record.
            progress: called with the progress.
        """
        options = options or self.options
        return self.document(
            run_probes(self.probes, loaded, files, out, options, arguments, progress)
        )


def run_probes(
    probes: Sequence[ProbeName],
    loaded: Loaded | PreTrainedModel,
    files: tuple[Files, Files],
    out: Path,
    options: ProbeOptions,
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
    options = replace(options, probes=tuple(probes))
    found = probe(as_loaded(loaded), *files, options, out, progress)
    found = found.recorded(arguments or {})
    found.write(out)
    forget_probes(out)
    document_of(found).write(out / "probes.md")
    return found


def about(found: Probed) -> Text:
    """The sentence that names model and data."""
    record = found.record
    return Text(
        f"Here: {record.model} ({amount(record.heads, 'head')} in "
        f"{amount(record.layers, 'layer')}), trained on "
        f"{amount(record.train_sentences, 'sentence')} ({amount(record.train_words, 'word')}) of "
        f"{names(record.train)}, measured on {amount(record.test_sentences, 'sentence')} "
        f"({amount(record.test_words, 'word')}) of {names(record.test)}. Intervals are 95 %, by a "
        "bootstrap over sentences."
    )


def apart(above: ProbeRow | None, below: ProbeRow | None) -> bool:
    """Whether one number is above another and their intervals do not overlap."""
    return above is not None and below is not None and above.low > below.high
