"""Certificate: the gated, the compact, the reloaded and the exported model give the same numbers.

Of every two forms: the largest absolute difference of their outputs over all batches, and as a
share of the largest output. A share above the tolerance (float32: 1e-5) is a failure. Padding is
not compared: a token of it that may see no other, as in a sliding window, has no answer that every
runtime gives.
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

from headcount.artifact.batches import Data, Inputs
from headcount.errors import InputError, ModelError
from headcount.files import write_json
from headcount.models.selfcheck import TOLERANCE, evaluating, outputs
from headcount.models.tiny_inputs import run_tiny

NAME = "certificate.json"

Run = Callable[[Inputs], list[Tensor]]
"""A model's floating-point outputs for a batch."""


@final
@dataclass(frozen=True)
class Comparison:
    """Two forms of one model on the same data."""

    what: str
    """E.g. `compact and gated`."""
    difference: float
    """Largest absolute difference of an output."""
    largest_output: float
    share: float
    """The difference as a share of the largest output."""
    tolerance: float
    """The largest share that is let pass."""
    dtype: str
    data: tuple[str, ...]
    """Files; none for made-up inputs."""
    data_sha256: str | None
    sentences: int
    batches: int

    def refuse_unequal(self) -> None:
        """Let a comparison pass that says: equal.

        Raises:
            ModelError: if the share is above tolerance, or not a number.
        """
        if not self.share <= self.tolerance:
            raise ModelError(
                f"{self.what} should be equal to {self.tolerance:g} of the largest output, and "
                f"differ by {self.share:.2g} of it ({self.difference:.2g} of "
                f"{self.largest_output:.3g}) over {self.batches} batches: nothing was written"
            )


@final
@dataclass(frozen=True)
class Certificate:
    """What was compared of the model of one plan."""

    plan_sha256: str
    weights_sha256: str
    """Hash of the files of weights that were compared."""
    comparisons: tuple[Comparison, ...]

    def write(self, folder: Path) -> None:
        """Write as `certificate.json`, whole or not at all."""
        write_json(folder / NAME, asdict(self))

    def joined(self, comparisons: Sequence[Comparison]) -> "Certificate":
        """The same with new comparisons, in place of earlier ones of the same forms."""
        names = {each.what for each in comparisons}
        stay = tuple(each for each in self.comparisons if each.what not in names)
        return Certificate(self.plan_sha256, self.weights_sha256, (*stay, *comparisons))

    def without(self, form: str) -> "Certificate":
        """The same without what was compared with a form."""
        left = (each for each in self.comparisons if not each.what.startswith(f"{form} and "))
        return replace(self, comparisons=tuple(left))

    def of_now(self, folder: Path) -> "Certificate":
        """What holds of the weights that are in a folder now: nothing where they were changed."""
        found = weights_sha256(folder)
        return self if found == self.weights_sha256 else Certificate(self.plan_sha256, found, ())

    @classmethod
    def read(cls, folder: Path) -> "Certificate":
        """The certificate of a folder.

        Raises:
            InputError: if there is none, or it is something else.
        """
        path = folder / NAME
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            comparisons = (
                Comparison(**each | {"data": tuple(each["data"])}) for each in value["comparisons"]
            )
            return cls(value["plan_sha256"], value["weights_sha256"], tuple(comparisons))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"the folder of a compact model with its certificate was expected, as `headcount "
                f"compact` writes; {path} can't be read ({error})"
            ) from error


def weights_sha256(folder: Path) -> str:
    """Hash of a folder's files of weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def compare(
    reference: tuple[str, Run], others: Mapping[str, Run], data: Data, dtype: torch.dtype
) -> list[Comparison]:
    """Run all forms over the data.

    Args:
        reference: name and outputs of the form that others are compared with.
        others: names and outputs of these.
        data: what to run.
        dtype: number format of the model, which says what is let pass.
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
    """Of the largest output, which is 0 where all of them are, or none is a number."""
    return difference / largest if largest else math.inf if difference else 0.0


def runner(model: PreTrainedModel) -> Run:
    """What a torch model gives."""

    def run(inputs: Inputs) -> list[Tensor]:
        with evaluating(model), torch.inference_mode():
            return [tensor.cpu() for tensor in outputs(run_tiny(model, inputs))]

    return run


def _at_tokens(outputs: Sequence[Tensor], batch: Inputs) -> list[Tensor]:
    """The outputs with 0 at padding: the first is of the decoder, where there is one."""
    names = ("decoder_attention_mask", "attention_mask")
    masks = [batch[name].bool().cpu() for name in names if name in batch]
    return [_masked(masks, outputs[0]), *(_masked(masks[::-1], each) for each in outputs[1:])]


def _masked(masks: Sequence[Tensor], output: Tensor) -> Tensor:
    """With 0 where the first mask of its rows and tokens is; as it is if none is of these."""
    for mask in masks:
        if output.ndim > 2 and mask.shape == output.shape[:2]:
            return output.where(mask.view(*mask.shape, *(1,) * (output.ndim - 2)), 0)
    return output


def _largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """Infinite where one is not a number."""
    return (ours - theirs).abs().nan_to_num(nan=torch.inf).max().item()
