"""Self-check: before a plan is judged, written or used, a cache that streams must equal masks.

Which models keep and read keys in a way that a streaming cache can serve is decided by no list. A
short text, of which one row is padded, is read by `generate`, and eight more tokens are generated,
twice: under the masks of a plan by which all groups stream, with a cache of transformers, and with
the streaming cache. Both are given the same tokens. The second run is also given the outputs of the
first one's attention, after its own were compared with them. So each call of attention is judged on
the very same queries, and rounding does not add up over layers and steps.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakSet

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from transformers import Cache, DynamicCache, LogitsProcessor, PreTrainedModel

from headcount.cache.groups import plan_where, streamable
from headcount.cache.holding import Holding, holding_of
from headcount.cache.judging import masking
from headcount.cache.plan import CachePlan
from headcount.cache.split import Attend
from headcount.cache.streaming import StreamingCache, streaming
from headcount.core import ModelError, reason
from headcount.tap import (
    ERRORS,
    Anatomy,
    AnyModel,
    Call,
    difference,
    evaluating,
    examined,
    sample_runs,
)

STEPS = 8
"""Number of tokens that are generated."""
SINK, RECENT = 2, 3
"""Numbers of first and last tokens that every group keeps."""
TOLERANCE, UNITS = 1e-4, 8
"""Largest allowed difference of an output, as a share of its head's largest one, or of that many
units in the last place where the model's numbers are coarser."""

_ROOM = 1e-3
"""Largest allowed difference of logits, which are computed of the same outputs."""

_CHECKED = WeakSet[Holding]()


@contextmanager
def streaming_cache(
    model: AnyModel, plan: CachePlan, anatomy: Anatomy | None = None
) -> Iterator[StreamingCache]:
    """A cache of transformers in which the plan's streaming groups keep the first and last keys.

    Inside the block the model's attention is one that reads such a cache; all that the model
    computes must pass it. Outputs are those under `streaming_masks`, which is checked on a short
    text when a model's cache first streams.

    >>> with headcount.streaming_cache(model, plan) as cache:  # doctest: +SKIP
    ...     model.generate(**inputs, past_key_values=cache)

    `cache.reset()` empties it for another text; `copy.deepcopy(cache)` is a second one. Prompts can
    be read in chunks (`prefill_chunk_size` of `generate`) and padded on the left; beam search and
    assisted decoding work as ever.

    Args and errors are those of `streaming_masks`. Also refused is a model whose cache does not
    compute what masks do.
    """
    whole, anatomy = examined(model, anatomy)
    check_streams(whole, anatomy)
    with streaming(whole, plan, anatomy) as cache:
        yield cache


def check_streams(model: PreTrainedModel, anatomy: Anatomy) -> None:
    """Check once that a model computes with a cache that streams what it computes under masks.

    Raises:
        ModelError: if it does not, or if its cache can't stream; says why.
    """
    groups, holding = streamable(model, anatomy), holding_of(model, anatomy)
    if not groups or holding in _CHECKED:
        return
    if not model.can_generate():
        raise _refused(model, "it does not generate")
    text = _Text.of(model)
    plan, outputs = plan_where(holding, groups, SINK, RECENT), _Outputs(text)
    with evaluating(model), torch.no_grad():
        try:
            with masking(model, plan, anatomy, outputs.kept):
                expected = text.logits(model, DynamicCache(config=model.config))
            with streaming(model, plan, anatomy, outputs.compared) as cache:
                found = text.logits(model, cache)
        except ERRORS as error:
            raise _refused(model, f"generating with it fails ({reason(error)})") from error
    if outputs.found_wrong:
        raise _refused(model, outputs.found_wrong)
    if outputs.waiting or difference([found], [expected]) > _ROOM:
        raise _refused(model, "attention is not all that reads it")
    _CHECKED.add(holding)


def _refused(model: PreTrainedModel, why: str) -> ModelError:
    return ModelError(
        f"Expected a {type(model).__name__} that computes with a streaming cache what it computes "
        f"under its masks, but {why}. Its cache can't stream."
    )


@final
@dataclass(frozen=True)
class _Text:
    """Random tokens, in a row that is padded on the left and in one that is not."""

    ids_BN: Int64[Tensor, "2 token"]
    mask_BN: Int64[Tensor, "2 token"]

    @classmethod
    def of(cls, model: PreTrainedModel) -> "_Text":
        """One that a model takes."""
        batch = next(iter(sample_runs(model).values())).batch
        return cls(*(batch[name][1:] for name in ("input_ids", "attention_mask")))

    @property
    def num_prompt(self) -> int:
        """The number of tokens in front of those that are generated."""
        return self.ids_BN.shape[1] - STEPS

    def logits(self, model: Any, cache: Cache) -> Tensor:
        """Logits of the last tokens, generated one by one as a user would."""
        prompt = {"input_ids": self.ids_BN, "attention_mask": self.mask_BN}
        output = model.generate(
            **{name: each[:, : self.num_prompt] for name, each in prompt.items()},
            past_key_values=cache,
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
            do_sample=False,
            num_beams=1,
            logits_processor=[_Dictated(self.ids_BN)],
            output_logits=True,
            return_dict_in_generate=True,
        )
        return torch.stack(output.logits, 1)

    def is_seen(self, num_queries: int) -> Bool[Tensor, "2 query"]:
        """Whether the queries of a call are tokens, not padding."""
        mask_BN = self.mask_BN if num_queries == 1 else self.mask_BN[:, : self.num_prompt]
        return mask_BN[:, -num_queries:] != 0


@final
class _Dictated(LogitsProcessor):
    """Lets a model generate given tokens."""

    def __init__(self, ids_BN: Int64[Tensor, "batch token"]) -> None:
        self._ids_BN = ids_BN

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores of which only those of the given tokens are finite."""
        next_B1 = self._ids_BN[:, input_ids.shape[1], None].to(scores.device)
        return torch.full_like(scores, -torch.inf).scatter(1, next_B1, 0.0)


@final
class _Outputs:
    """Outputs of every call of attention under masks, with which those of a cache are compared."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self.waiting = deque[tuple[nn.Module, Tensor]]()
        """Modules and outputs of the calls that were not compared yet."""
        self.found_wrong: str | None = None
        """What differed first."""

    def kept(self, attend: Attend) -> Attend:
        """Attention whose outputs are kept."""

        def keeping(call: Call) -> Tensor:
            output = attend(call)
            self.waiting.append((call.module, output))
            return output

        return keeping

    def compared(self, attend: Attend) -> Attend:
        """Attention whose outputs are compared with those that were kept, which it returns."""

        def comparing(call: Call) -> Tensor:
            found = attend(call)
            module, expected = self.waiting.popleft()
            if module is not call.module or found.shape != expected.shape:
                self.found_wrong = self.found_wrong or "its layers are called in another order"
            else:
                self._compare(found, expected)
            return expected

        return comparing

    def _compare(self, found: Tensor, expected: Tensor) -> None:
        is_seen_BQ = self._text.is_seen(found.shape[1]).to(found.device)
        apart_TH, size_TH = (
            each[is_seen_BQ].float().abs().amax(-1) for each in (found - expected, expected)
        )
        shares_H = apart_TH.amax(0) / size_TH.amax(0).clamp_min(torch.finfo(torch.float32).tiny)
        share = shares_H.nan_to_num(nan=torch.inf).max().item()
        if share > max(TOLERANCE, UNITS * torch.finfo(found.dtype).eps):
            self.found_wrong = self.found_wrong or (
                f"attention differs by {share:.2g} of a head's largest output"
            )
