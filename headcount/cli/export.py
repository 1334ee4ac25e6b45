"""`headcount export`: a compact model for other runtimes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headcount import artifact, models, results
from headcount.cli.arguments import ColumnArguments, TrustArguments
from headcount.cli.compact import print_certificate
from headcount.cli.console import Report, plain_console, print_warnings
from headcount.cli.frame import Measuring
from headcount.core import InputError
from headcount.corpora import named_columns


@dataclass(frozen=True)
class Export(ColumnArguments, TrustArguments, Measuring["models.Loaded", "results.Certificate"]):
    """Export a compact model to ONNX and check it."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PRUNED")]
    """Folder of a compact model."""
    onnx: bool = False
    """Write onnx/model.onnx into the folder."""
    cache: bool = False
    """Also write onnx/decoder.onnx, and onnx/encoder.onnx of an encoder-decoder, which generate
    token by token with a cache of keys and values."""
    data: tuple[str, ...] = ()
    """Texts to compare on; by default headcount's own sample."""
    limit: int | None = None
    """Largest number of sentences to compare on; all by default."""

    def check(self) -> None:
        """Check everything that needs no model."""
        if not self.onnx:
            raise InputError("Expected a format to export to, got none. Add --onnx.")
        self.check_texts(self.data, self.limit)

    def prepare(self) -> "models.Loaded":
        """Load the model."""
        return models.load(self.model, trust_remote_code=self.trust_remote_code)

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Certificate":
        """Export the model, compare it, and save it."""
        columns = named_columns(self.columns)
        corpus = artifact.certificate_corpus(read, self.data, self.limit, columns)
        return artifact.export(read, self.model, corpus, self.cache)

    def show(self, read: "models.Loaded", found: "results.Certificate") -> None:
        """Print the comparisons, and where the files are."""
        console = plain_console()
        print_certificate(found, console)
        if not found.is_with_gated:
            changed = (
                "the weights changed after heads were pruned, so the certificate does not show "
                "equality with a gated model"
            )
            print_warnings([changed], console)
        for path in sorted((self.model / artifact.FOLDER).glob("*.onnx")):
            console.print(f"Saved: {path}")
