"""Certificate: how far the forms of one compact model differ, as in `certificate.json`."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from headcount.core import ModelError, amount, omitted
from headcount.results.store import Stored

LAPSED = (
    "the weights differ from those that were compared: they were trained or damaged since. "
    "`headcount export` compares the current weights"
)
"""The sentence on a certificate that does not hold for the weights beside it."""


@final
@dataclass(frozen=True)
class Comparison:
    """Two forms of one model on the same data."""

    what: str
    """The two forms, e.g. `compact and gated`."""
    difference: float
    """Largest absolute difference of outputs."""
    largest_output: float
    """Largest absolute output of the second form."""
    share: float
    """The difference as a share of the largest output."""
    tolerance: float
    """Largest share that counts as equal."""
    dtype: str
    """Number format of the models, e.g. `float32`."""
    data: tuple[str, ...]
    """Names of the files; empty for made-up inputs."""
    data_sha256: str | None
    """Hash of the data; None for made-up inputs."""
    sentences: int
    """Number of sentences or examples; 0 for made-up inputs."""
    batches: int
    """Number of batches."""
    runs: tuple[str, ...] = omitted(())
    """Descriptions of the short random batches that were compared besides the data."""
    by_head: float | None = omitted(None)
    """Largest difference of a head, or of a layer's output, at one call, as a share of its norm;
    None if heads were not compared."""

    @property
    def is_with_gated(self) -> bool:
        """Whether one of the forms is the gated model."""
        return self.what.endswith("gated")

    def check_equal(self) -> None:
        """Raise an error unless the two forms are equal.

        Raises:
            ModelError: If the share is above the tolerance or not a number.
        """
        if not self.share <= self.tolerance:
            advice = (
                " Rescaling multiplies rounding errors: try prune --no-rescale, or prune other "
                "heads."
            )
            raise ModelError(
                f"Expected {self.what} to differ by at most {self.tolerance:g} of the largest "
                f"output, got {self.share:.2g} of it ({self.difference:.2g} of "
                f"{self.largest_output:.3g}) over {amount(self.batches, 'batch')}. Nothing was "
                f"written.{advice if self.is_with_gated else ''}"
            )


@final
@dataclass(frozen=True)
class Certificate(Stored):
    """All comparisons of the model that one plan makes."""

    FILE = "certificate.json"
    COMMAND = "headcount compact"
    FOLDER = "the folder of a compact model"

    plan_sha256: str
    """Hash of the kept heads."""
    weights_sha256: str
    """Hash of the weight files that were compared."""
    comparisons: tuple[Comparison, ...]
    """The comparisons, each of two forms."""
    plan_file_sha256: str | None = omitted(None)
    """Hash of the heads that `plan.json` names; None in folders of earlier versions."""

    @property
    def is_with_gated(self) -> bool:
        """Whether any comparison shows equality with the gated model."""
        return any(each.is_with_gated for each in self.comparisons)

    def joined(self, comparisons: Sequence[Comparison]) -> "Certificate":
        """The same certificate with new comparisons, which replace older ones of the same forms."""
        names = {each.what for each in comparisons}
        kept = tuple(each for each in self.comparisons if each.what not in names)
        return replace(self, comparisons=(*kept, *comparisons))

    def without(self, form: str) -> "Certificate":
        """The same certificate without the comparisons of one form."""
        left = (each for each in self.comparisons if not each.what.startswith(f"{form} and "))
        return replace(self, comparisons=tuple(left))

    def holds_for(self, folder: Path) -> bool:
        """Whether a folder has the weights that were compared."""
        return weights_sha256(folder) == self.weights_sha256

    def of_now(self, folder: Path) -> "Certificate":
        """The certificate of a folder's current weights: without comparisons if they changed."""
        found = weights_sha256(folder)
        same = found == self.weights_sha256
        return self if same else replace(self, weights_sha256=found, comparisons=())


def weights_sha256(folder: Path) -> str:
    """Hash of a folder's weight files."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
