"""Finish: choose the weights of the final model.

The last checkpoints are averaged. If there is a development set, the checkpoint with the best score
on it (transformers' Trainer keeps it) becomes the model instead if it beats the average there.

Reference for averaging: Attention Is All You Need (Vaswani et al., 2017), section 6.1,
https://arxiv.org/abs/1706.03762
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_NAME

from headcount.papers.pretraining.trainer import dev_numbers
from headcount.tasks import Task
from headcount.training import check_whole, whole_checkpoints


@final
@dataclass(frozen=True)
class Candidate:
    """One set of weights that may become the model."""

    name: str
    checkpoints: tuple[Path, ...]
    dev: dict[str, float] = field(default_factory=dict)
    """`loss` in nats a token, and the score; empty without a development set."""


def candidates(folder: Path, best: int | None, average: int) -> list[Candidate]:
    """The average of the last checkpoints, and the best checkpoint, that of step `best`."""
    last = whole_checkpoints(folder)[-average:]
    steps = [path.name.removeprefix("checkpoint-") for path in last]
    name = f"average of steps {', '.join(steps)}" if len(last) > 1 else f"step {steps[0]}"
    found = [Candidate(name, tuple(last))]
    # The Trainer's path of the best checkpoint is not used: it is wrong once the folder has moved.
    if best is not None and [folder / f"checkpoint-{best}"] != last:
        found.append(Candidate(f"step {best}, the best one", (folder / f"checkpoint-{best}",)))
    return found


def averaged(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of some checkpoints, summed in float64."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in checkpoints:
        check_whole(path)
        with safe_open(path / SAFE_WEIGHTS_NAME, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (it is no dict)
                weight = file.get_tensor(name)
                kinds[name] = weight.dtype
                sums[name] = sums.get(name, 0) + weight.double()
    return {name: (total / len(checkpoints)).to(kinds[name]) for name, total in sums.items()}


def set_weights(model: PreTrainedModel, checkpoints: tuple[Path, ...]) -> None:
    """Set a model's weights to the mean over some checkpoints."""
    weights = averaged(checkpoints)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(model.all_tied_weights_keys)
    assert not unexpected and set(missing) <= tied, (missing, unexpected)
    model.tie_weights()


def choose(model: PreTrainedModel, found: list[Candidate], dev: Task | None) -> list[Candidate]:
    """The candidates with their scores, best first; the model gets the weights of the best."""
    if dev is None:
        ranked = found
    else:
        judged = []
        for candidate in found:
            set_weights(model, candidate.checkpoints)
            judged.append(replace(candidate, dev=dev_numbers(model, dev)))
        sign = -1 if dev.higher_is_better else 1
        metric = dev.metric
        ranked = sorted(judged, key=lambda candidate: sign * candidate.dev[metric])
    set_weights(model, ranked[0].checkpoints)
    return ranked
