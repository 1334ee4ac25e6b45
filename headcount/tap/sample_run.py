"""Sample runs: what a model returns for short random batches, at once or with a cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

from torch import Tensor
from transformers import PreTrainedModel

from headcount.tap.sample_inputs import check_inputs, run_tiny


@final
@dataclass(frozen=True)
class SampleRun:
    """A batch, and whether a model reads it in steps with a cache."""

    batch: Mapping[str, Tensor]
    cached: bool = False

    def outputs(self, model: PreTrainedModel) -> list[Tensor]:
        """Every floating-point tensor that the model returns for the batch."""
        return self._steps(model) if self.cached else outputs(run_tiny(model, self.batch))

    def cache(self, model: PreTrainedModel) -> Any:
        """The cache that a model returns for the batch."""
        output: Any = model(**self.batch, use_cache=True)
        name = _cache_name(model)
        return output[name] if name in output else output.past_key_values

    def _steps(self, model: PreTrainedModel) -> list[Tensor]:
        """Outputs for the last tokens, two and then one, after the first went into a cache."""
        side = "decoder_" if model.config.is_encoder_decoder else ""
        ids, mask = self.batch[f"{side}input_ids"], self.batch[f"{side}attention_mask"]
        others = {name: each for name, each in self.batch.items() if not name.startswith(side)}
        name = _cache_name(model)
        length, cache, found = ids.shape[1], None, list[Tensor]()
        for begin, end in ((0, length - 3), (length - 3, length - 1), (length - 1, length)):
            step = {f"{side}input_ids": ids[:, begin:end], f"{side}attention_mask": mask[:, :end]}
            output: Any = model(**others, **step, **{name: cache}, use_cache=True)
            cache = output[name] if name in output else output.past_key_values
            found += outputs(output) if begin else []
        return found


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
    runs = {name: SampleRun(batch) for name, batch in check_inputs(model).items()}
    padded = next(iter(runs.values())).batch
    is_text = model.main_input_name == "input_ids" and "attention_mask" in padded
    writes = is_text or "decoder_attention_mask" in padded  # also about sound or images (Whisper)
    if writes and model.can_generate() and getattr(model.config, "use_cache", True):
        runs["with a cache"] = SampleRun(padded, cached=True)
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
