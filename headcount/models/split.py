"""Split: models of which each process has some heads of every layer (tensor parallelism).

transformers splits the weights while it reads them, by a plan that the class of the model has.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from headcount.core import InputError, amount, is_alone, processes, work_together
from headcount.models.compact_checkpoint import is_compact
from headcount.models.gguf_file import OPTION as GGUF
from headcount.tap import check_divides

TP: Final = "tp"
"""The name of the device that stands for all processes of a run; `tp:N` for every N of them."""


class _Copies(DistributedConfig):
    """A model for every `tp_size` processes, which don't add up their gradients as FSDP would."""

    @property
    def dp_size(self) -> int:
        """Number of processes over which FSDP is applied."""
        return 1


def is_split(device: str) -> bool:
    """Whether the name of a device stands for several processes."""
    return device.partition(":")[0] == TP


def _size(device: str) -> int:
    """The number of processes that a device of that kind stands for."""
    every, (_, colon, number) = processes().num_processes, device.partition(":")
    size = int(number) if number.isdecimal() and number.isascii() else 0
    if colon and (size < 2 or every % size):
        raise InputError(
            f"Expected --device tp:N with a number of 2 or more that divides the "
            f"{amount(every, 'process')} of this run, got {device}. Name another number, or tp for "
            "all of them"
        )
    return size if colon else every


def _check_can_split(config: PreTrainedConfig, options: Mapping[str, Any]) -> None:
    """Check that a model can be split over the processes of this run."""
    if is_alone():
        raise InputError(
            "Expected several processes for --device tp, which splits every layer over them, got "
            "one. Start them with torchrun --nproc-per-node N"
        )
    if GGUF in options or is_compact(config):
        kind = "a GGUF file" if GGUF in options else "a compact model, whose layers differ in heads"
        raise InputError(
            f"Expected safetensors files of a whole model for --device tp, got {kind}. Load it on "
            "one device"
        )


def read_split(
    read: Callable[[Mapping[str, Any]], PreTrainedModel],
    config: PreTrainedConfig,
    options: Mapping[str, Any],
    attention: Mapping[str, Any],
    device: str,
) -> PreTrainedModel:
    """What a function reads with transformers' options for tensor parallelism.

    All processes of the run, or every N of them, then work together: each has some heads of every
    layer, on a GPU of its own if there are any.

    Args:
        read: reads a model with options beside those that it has.
        config: its configuration.
        options: the options that it has.
        attention: those that choose its attention.
        device: `tp`, or `tp:N`.

    Raises:
        InputError: if there is one process, or it is a GGUF file or a compact model.
        ModelError: if its heads can't be shared equally.
    """
    _check_can_split(config, options)
    size = _size(device)
    check_divides(config, size)
    split = _Copies(tp_size=size, dp_replicate_size=processes().num_processes // size)
    model = read({**attention, "distributed_config": split})
    work_together(size)
    return model
