"""Split: models of which each process has some heads of every layer (tensor parallelism).

transformers splits the weights while it reads them, by a plan that the class of the model has.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from headcount.core import InputError, is_alone, processes, work_as_one
from headcount.models.compact_checkpoint import is_compact
from headcount.models.gguf_file import OPTION as GGUF
from headcount.tap import check_divides

TP: Final = "tp"
"""The name of the device that stands for all processes of a run."""


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
    check_divides(config, processes().num_processes)


def read_split(
    read: Callable[[Mapping[str, Any]], PreTrainedModel],
    config: PreTrainedConfig,
    options: Mapping[str, Any],
    attention: Mapping[str, Any],
) -> PreTrainedModel:
    """What a function reads with transformers' options for tensor parallelism.

    All processes of the run then work together: each has some heads of every layer, on a GPU of its
    own if there are any.

    Args:
        read: reads a model with options beside those that it has.
        config: its configuration.
        options: the options that it has.
        attention: those that choose its attention.

    Raises:
        InputError: if there is one process, or it is a GGUF file or a compact model.
        ModelError: if its heads can't be shared equally.
    """
    _check_can_split(config, options)
    split = DistributedConfig(tp_size=processes().num_processes)
    model = read({**attention, "distributed_config": split})
    work_as_one()
    return model
