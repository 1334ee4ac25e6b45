"""How models are loaded: options of the command line and of records. Needs no torch."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class TrustOptions:
    """Which code may run when models are loaded."""

    trust_remote_code: bool = field(default=False, kw_only=True)
    """Run Python files that come with a model; they can do anything you can. Off by default."""


@dataclass(frozen=True)
class DeviceOptions(TrustOptions):
    """Where and in which number format models are loaded."""

    device: str = field(default="cpu", kw_only=True)
    """Device to run on, e.g. cuda; auto spreads a model over all GPUs, then memory and disk; tp
    splits its layers over the processes of torchrun, tp:N over every N of them."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = field(
        default="float32", kw_only=True
    )
    """Number format of the model; float32 is the most exact."""


@dataclass(frozen=True)
class LoadOptions(DeviceOptions):
    """How one model is loaded."""

    languages: tuple[str, str] | None = field(default=None, kw_only=True)
    """Languages of source and target, for a multilingual translator: eng_Latn deu_Latn."""
