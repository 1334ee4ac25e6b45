"""`headcount export`: a compact model for other runtimes."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from headcount.artifact.export import FILE, FOLDER, export
from headcount.cli.compact import certificate_corpus, print_certificate
from headcount.cli.console import plain_console
from headcount.errors import InputError
from headcount.models.load import load


@dataclass(frozen=True)
class Export:
    """Export a compact model to ONNX, and check it in ONNX Runtime."""

    model: tyro.conf.Positional[Path]
    """Folder of a compact model."""
    onnx: bool = False
    """Write onnx/model.onnx into the folder."""
    data: tuple[Path, ...] = ()
    """Texts to compare on; by default headcount's own sample."""
    limit: int | None = None
    """Compare on at most so many sentences."""

    def run(self) -> int:
        """Export, compare, save."""
        if not self.onnx:
            raise InputError("a format to export to was expected: give --onnx")
        loaded = load(self.model)
        corpus = certificate_corpus(loaded, self.data, self.limit)
        certificate = export(loaded, self.model, corpus)
        console = plain_console()
        print_certificate(certificate, console)
        if not any(each.what.endswith("gated") for each in certificate.comparisons):
            console.print(
                "warning: the weights were changed since heads were cut out: the certificate does "
                "not say that they equal a gated model's",
                style="yellow",
            )
        console.print(f"Saved: {self.model / FOLDER / FILE}")
        return 0
