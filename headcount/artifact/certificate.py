"""Certificate: the gated, the compact, the reloaded and the exported model give the same numbers.

For every two forms it holds the largest absolute difference of their outputs over all batches, and
that difference as a share of the largest output. A share above the tolerance (float32: 1e-5) is a
failure. Padding is not compared: runtimes disagree about a padding token that may see no other
token, as in a sliding window.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.artifact.sample_batches import Data, Inputs
from headcount.core import InputError, ModelError, write_json
from headcount.tap import TOLERANCE, evaluating, outputs, run_tiny

CERTIFICATE = "certificate.json"

Run = Callable[[Inputs], list[Tensor]]
"""A model's floating-point outputs for a batch."""


@final
@dataclass(frozen=True)
class Comparison:
    """Two forms of one model on the same data."""

    what: str
    """The two forms, e.g. `compact and gated`."""
    difference: float
    """Largest absolute difference of outputs."""
    largest_output: float
    share: float
    """The difference as a share of the largest output."""
    tolerance: float
    """Largest share that counts as equal."""
    dtype: str
    data: tuple[str, ...]
    """Names of the files; empty for made-up inputs."""
    data_sha256: str | None
    sentences: int
    batches: int

    def check_equal(self) -> None:
        """Raise an error unless the two forms are equal.

        Raises:
            ModelError: If the share is above the tolerance or not a number.
        """
        if not self.share <= self.tolerance:
            raise ModelError(
                f"Expected {self.what} to differ by at most {self.tolerance:g} of the largest "
                f"output, got {self.share:.2g} of it ({self.difference:.2g} of "
                f"{self.largest_output:.3g}) over {self.batches} batches. Nothing was written."
            )


@final
@dataclass(frozen=True)
class Certificate:
    """All comparisons of the model that one plan makes."""

    plan_sha256: str
    weights_sha256: str
    """Hash of the weight files that were compared."""
    comparisons: tuple[Comparison, ...]

    def write(self, folder: Path) -> None:
        """Write `certificate.json`, completely or not at all."""
        write_json(folder / CERTIFICATE, asdict(self))

    def joined(self, comparisons: Sequence[Comparison]) -> "Certificate":
        """The same certificate with new comparisons, which replace older ones of the same forms."""
        names = {each.what for each in comparisons}
        stay = tuple(each for each in self.comparisons if each.what not in names)
        return Certificate(self.plan_sha256, self.weights_sha256, (*stay, *comparisons))

    def without(self, form: str) -> "Certificate":
        """The same certificate without the comparisons of one form."""
        left = (each for each in self.comparisons if not each.what.startswith(f"{form} and "))
        return replace(self, comparisons=tuple(left))

    def of_now(self, folder: Path) -> "Certificate":
        """The certificate of a folder's current weights: without comparisons if they changed."""
        found = weights_sha256(folder)
        return self if found == self.weights_sha256 else Certificate(self.plan_sha256, found, ())

    @classmethod
    def read(cls, folder: Path) -> "Certificate":
        """Read the certificate of a folder.

        Raises:
            InputError: If there is no certificate, or it can't be read.
        """
        path = folder / CERTIFICATE
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            comparisons = (
                Comparison(**each | {"data": tuple(each["data"])}) for each in value["comparisons"]
            )
            return cls(value["plan_sha256"], value["weights_sha256"], tuple(comparisons))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected the folder of a compact model with its certificate, as `headcount "
                f"compact` writes it, but {path} can't be read ({error})."
            ) from error


def weights_sha256(folder: Path) -> str:
    """Hash of a folder's weight files."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def compare(
    reference: tuple[str, Run], others: Mapping[str, Run], data: Data, dtype: torch.dtype
) -> list[Comparison]:
    """Run all forms on the data and compare each with the reference.

    Args:
        reference: Name and runner of the form that others are compared with.
        others: Names and runners of the other forms.
        data: Batches to run.
        dtype: Number format of the model, which sets the tolerance.
    """
    name, run = reference
    largest, differences = 0.0, dict.fromkeys(others, 0.0)
    for batch in data.batches:
        expected = _at_tokens(run(batch), batch)
        largest = max(largest, *(tensor.abs().max().item() for tensor in expected))
        for other, run_other in others.items():
            pairs = zip(_at_tokens(run_other(batch), batch), expected, strict=True)
            found = max(_largest_difference(*pair) for pair in pairs)
            differences[other] = max(differences[other], found)
    about: dict[str, Any] = {
        "largest_output": largest,
        "tolerance": TOLERANCE[dtype],
        "dtype": str(dtype).removeprefix("torch."),
        "data": data.names,
        "data_sha256": data.sha256,
        "sentences": data.sentences,
        "batches": len(data.batches),
    }
    return [
        Comparison(f"{other} and {name}", difference, share=_share(difference, largest), **about)
        for other, difference in differences.items()
    ]


def _share(difference: float, largest: float) -> float:
    """The difference as a share of the largest output, also where that is 0."""
    return difference / largest if largest else math.inf if difference else 0.0


def runner(model: PreTrainedModel) -> Run:
    """A runner for a torch model."""

    def run(inputs: Inputs) -> list[Tensor]:
        with evaluating(model), torch.inference_mode():
            return [tensor.cpu() for tensor in outputs(run_tiny(model, inputs))]

    return run


def _at_tokens(outputs: Sequence[Tensor], batch: Inputs) -> list[Tensor]:
    """The outputs with 0 at padding; the first output is the decoder's if there is a decoder."""
    names = ("decoder_attention_mask", "attention_mask")
    masks = [batch[name].bool().cpu() for name in names if name in batch]
    return [_masked(masks, outputs[0]), *(_masked(masks[::-1], each) for each in outputs[1:])]


def _masked(masks: Sequence[Tensor], output: Tensor) -> Tensor:
    """The output with 0 where the first mask of its shape is 0; unchanged without such a mask."""
    for mask in masks:
        if output.ndim > 2 and mask.shape == output.shape[:2]:
            return output.where(mask.view(*mask.shape, *(1,) * (output.ndim - 2)), 0)
    return output


def _largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; infinite where an output is not a number."""
    return (ours - theirs).abs().nan_to_num(nan=torch.inf).max().item()
