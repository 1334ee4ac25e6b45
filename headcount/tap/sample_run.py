"""Sample runs: what a model returns for short random batches, at once or with a cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

from torch import Tensor
from transformers import PreTrainedModel

from headcount.tap.sample_inputs import UNMASKED, UNPADDED, check_inputs, run_tiny

CACHED_LENGTH = 16
"""Tokens of the longest row that is read in steps with a cache."""


@final
@dataclass(frozen=True)
class SampleRun:
    """A batch, and whether a model reads it in steps with a cache."""

    batch: Mapping[str, Tensor]
    cached: bool = False
    like: str | None = None
    """The run whose outputs a model repeats here, unless caches or masks of ones change them."""

    def outputs(self, model: PreTrainedModel) -> list[Tensor]:
        """Every floating-point tensor that the model returns for the batch."""
        return self._in_steps(model) if self.cached else outputs(run_tiny(model, self.batch))

    def repeated(self, other: "SampleRun", found: list[Tensor]) -> list[Tensor]:
        """What a model returns here, unless caches or masks of ones change it.

        Args:
            other: The run that this one is like.
            found: What the model returns there.
        """
        if not self.cached:
            return found
        length = other._written.shape[1]
        return [
            each[:, begin:end] if each.shape[1:2] == (length,) else each
            for begin, end in _steps(self._written.shape[1])[1:]
            for each in found
        ]

    @property
    def masks(self) -> list[Tensor]:
        """Which tokens are no padding, the decoder's first; with a cache also those of its steps.

        [row, token] each.
        """
        names = ("decoder_attention_mask", "attention_mask")
        masks = [self.batch[name].bool() for name in names if name in self.batch]
        if self.cached:  # two tokens, then one
            masks += [masks[0][:, -3:-1], masks[0][:, -1:]]
        return masks

    def cache(self, model: PreTrainedModel) -> Any:
        """The cache that a model returns for the batch."""
        output: Any = model(**self.batch, use_cache=True)
        name = _cache_name(model)
        return output[name] if name in output else output.past_key_values

    def _in_steps(self, model: PreTrainedModel) -> list[Tensor]:
        """Outputs for the last tokens, two and then one, after the first went into a cache."""
        side = "decoder_" if model.config.is_encoder_decoder else ""
        ids, mask = self._written, self.batch[f"{side}attention_mask"]
        others = {name: each for name, each in self.batch.items() if not name.startswith(side)}
        name = _cache_name(model)
        cache, found = None, list[Tensor]()
        for begin, end in _steps(ids.shape[1]):
            step = {f"{side}input_ids": ids[:, begin:end], f"{side}attention_mask": mask[:, :end]}
            output: Any = model(**others, **step, **{name: cache}, use_cache=True)
            cache = output[name] if name in output else output.past_key_values
            found += outputs(output) if begin else []
        return found

    @property
    def _written(self) -> Tensor:
        """The tokens on the side that writes."""
        name = "decoder_input_ids"
        return self.batch[name if name in self.batch else "input_ids"]


def _steps(length: int) -> list[tuple[int, int]]:
    """First and last token of each step with a cache: most of them, two, and one."""
    return [(0, length - 3), (length - 3, length - 1), (length - 1, length)]


def _cache_name(model: PreTrainedModel) -> str:
    """Name of the cache as an argument; it was `past_key_values` up to transformers 5.23."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def sample_runs(
    model: PreTrainedModel, inputs: Mapping[str, Tensor] | None = None
) -> dict[str, SampleRun]:
    """Runs that a changed model must pass, by a description: every padding, none, and a cache.

    Args:
        model: Any transformers model.
        inputs: Inputs of the user's own, which then are the only ones.
    """
    if inputs is not None:
        return {"on the given inputs": SampleRun(inputs)}
    runs = {
        name: SampleRun(batch, like=UNMASKED if name == UNPADDED else None)
        for name, batch in check_inputs(model).items()
    }
    where, padded = next((name, run.batch) for name, run in runs.items())
    is_text = model.main_input_name == "input_ids" and "attention_mask" in padded
    writes = is_text or "decoder_attention_mask" in padded  # also about sound or images (Whisper)
    if writes and model.can_generate() and getattr(model.config, "use_cache", True):
        side = "decoder_" if model.config.is_encoder_decoder else ""
        written = [f"{side}{name}" for name in ("input_ids", "attention_mask")]
        short = {**padded} | {name: padded[name][:, :CACHED_LENGTH] for name in written}
        runs["with a cache"] = SampleRun(short, cached=True, like=where)
    return runs


def outputs(output: Mapping[str, object]) -> list[Tensor]:
    """Every floating-point tensor of a model output that has the batch as its first axis."""
    several = (value if isinstance(value, tuple) else (value,) for value in output.values())
    return [
        value
        for values in several
        for value in values
        if isinstance(value, Tensor) and value.is_floating_point()
    ]
