r"""Contributions: how much of a layer's output each token adds, by weights and by norms.

With f_h(x_j) = (x_j W_V + b_V) W_O^h, attention's output is a sum over heads and tokens:

$$\mathrm{attn}(x_i) = b_O + \sum_j F_{ij}, \qquad F_{ij} = \sum_h A_{h,ij} f_h(x_j)$$

For every token j of a layer this measures, summed over the queries i that see it, the weights
A_{h,ij} of every head, the norm ||f_h(x_j)||, so that A ||f|| is their product, and ||F_{ij}||.
For every query i it measures the mixing ratio, the share of the context in what the block computes,

$$r_i = \frac{\|\sum_{j \ne i} C_{ij}\|}{\|\sum_{j \ne i} C_{ij}\| + \|C_{ii}\|}$$

by five methods, with the residual x_i and the LayerNorm's gain and standard deviation of the sum:

- `attn-w`: C_ij is the mean weight over heads (a number);
- `attn-n`: C_ij = F_ij;
- `attnres-w`: half the weights, and half of 1 for the token itself;
- `attnres-n`: C_ij = F_ij, and F_ii + x_i for the token itself;
- `attnresln-n`: the same, each centred, divided by the standard deviation of the sum and scaled.

References: Attention is Not Only a Weight (Kobayashi et al., 2020),
https://arxiv.org/abs/2004.10102; Incorporating Residual and Normalization Layers into Analysis of
Masked Language Models (Kobayashi et al., 2021), section 3, https://arxiv.org/abs/2109.07152
Departure: the published code of 2021 masks 12 % of the tokens; here texts are as given unless
`share_masked` says otherwise. Biases b_O and that of the LayerNorm belong to no token and are left
out of both sides of a ratio; b_O is part of the sum whose standard deviation is taken.

The residual is what an attention module's output is added to. Two orders are known. Post-norm
blocks (BERT) compute LayerNorm(x + attention(x)). Pre-norm blocks (GPT-2, Llama, M2M100) compute r
+ attention(Norm(r)), whose sum goes into the next part of the block unchanged. Which one a layer
has is read off one forward pass: norms are modules that say so, and the sum must be what the next
norm receives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import LayerId, ModelError
from headcount.corpora import Batch, Tokens
from headcount.importance import KINDS
from headcount.measures import sides
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    Block,
    Tap,
    WholeMap,
    evaluating,
    heard,
    input_device,
    intercepted,
    weight_of,
    without_cache,
)

TOLERANCE = 1e-4
"""Largest difference of a sum from a norm's input, relative to the input's largest number."""


@final
@dataclass(frozen=True)
class Residual:
    """What is added to the output of one layer's attention."""

    is_post_norm: bool
    """Whether the residual is what attention reads, and a norm follows the sum."""
    norm: nn.LayerNorm | None
    """The norm of the sum; None in a pre-norm block, or for a norm of another kind."""


@final
class Residuals:
    """Hears what may be the residual of every layer while the model runs.

    Args:
        model: the model, in evaluation mode.
        anatomy: its attention layers.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self.model, self.anatomy = model, anatomy
        self.known: dict[LayerId, Residual] = {}
        """Order of every layer that has one of the two; others have no known residual."""
        self._heard: dict[LayerId, tuple[Tensor, Tensor | None]] = {}
        """What attention reads, and what the norm before it received."""
        self._layer: AttentionLayer | None = None
        self._normed: Tensor | None = None
        self._output: Tensor | None = None

    def of(self, layer: AttentionLayer) -> Tensor:
        """The known residual of a layer in the forward pass that runs."""
        read, normed = self._heard[layer.layer_id]
        found = read if self.known[layer.layer_id].is_post_norm else normed
        assert found is not None
        return found

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, forward passes leave their residuals."""
        with (
            intercepted(_norms(self.model), self._before_norm),
            heard(self.model, self.anatomy, attention_inputs=self._before_attention),
        ):
            yield

    @torch.inference_mode()
    def find(self, inputs: Mapping[str, Tensor | bool]) -> None:
        """Find the order of every layer by one forward pass.

        What norms receive is compared with sums of attention's output and what was before it.
        """
        outputs = [each.output for each in self.anatomy.layers if each.output]
        projections = {self.model.get_submodule(output) for output in outputs}
        with self.heard(), intercepted(projections, after=self._after_projection):
            self.model.base_model(**inputs)

    def _before_attention(self, layer: AttentionLayer, given: Tensor) -> None:
        self._layer, self._heard[layer.layer_id] = layer, (given, self._normed)

    def _after_projection(self, module: nn.Module, output: Any) -> None:
        self._output = output

    def _before_norm(self, module: nn.Module, given: Any) -> None:
        """Compare what a norm receives with both sums, once after each attention module."""
        output, self._output = self._output, None
        self._normed = given
        if output is None or self._layer is None:
            return
        place = self._layer.layer_id
        read, before = self._heard[place]
        if _is_sum(given, output, read):
            norm = module if isinstance(module, nn.LayerNorm) else None
            self.known[place] = Residual(True, norm)
        elif before is not None and _is_sum(given, output, before):
            self.known[place] = Residual(False, None)


def _is_sum(total: Tensor, a: Tensor, b: Tensor) -> bool:
    if not total.shape == a.shape == b.shape:
        return False
    return bool((total - a - b).abs().max() <= TOLERANCE * total.abs().max())


def _norms(model: nn.Module) -> list[nn.Module]:
    """Modules that normalise, by their class."""
    return [each for each in model.modules() if "norm" in type(each).__name__.lower()]


MIXINGS = ("attn-w", "attn-n", "attnres-w", "attnres-n", "attnresln-n")
"""Mixing ratios, in the order of the columns."""


@final
@dataclass(frozen=True, eq=False)
class Contributions:
    """What was measured of every token of one layer, over a corpus."""

    sentence_T: Int[np.ndarray, " token"]
    """Number of each key's sentence."""
    kind_T: Int[np.ndarray, " token"]
    """Kind of each key, by its place in `KINDS`."""
    is_content_T: Int[np.ndarray, " token"]
    """1 for a key that is no special token."""
    count_T: Int[np.ndarray, " token"]
    """Frequency of each key."""
    queries_T: Int[np.ndarray, " token"]
    """Number of queries that see each key."""
    weight_TH: Float[np.ndarray, "token head"]
    """Sum over queries of the weight on each key."""
    norm_TH: Float[np.ndarray, "token head"]
    """||f_h(x_j)|| of each key."""
    joint_T: Float[np.ndarray, " token"]
    """Sum over queries of ||F_ij|| of each key."""
    mixing_TM: Float[np.ndarray, "token method"]
    """Mixing ratio of each token as a query; NaN in cross-attention or if a part is unknown."""


def collect_contributions(
    model: PreTrainedModel,
    anatomy: Anatomy,
    batches: Iterable[Batch],
    done: Callable[[int], None] = lambda number: None,
) -> dict[LayerId, Contributions]:
    """Measure every layer over some batches; needs memory for the tokens of the corpus.

    Args:
        model: any model of text that the tap supports.
        anatomy: its attention layers.
        batches: the corpus.
        done: called with the number of sentences so far.

    Raises:
        ModelError: if a layer has no output projection, or a number is not finite.
    """
    body = model.base_model
    more = without_cache(body)
    parts: dict[LayerId, list[Contributions]] = {layer.layer_id: [] for layer in anatomy.layers}
    weights = {layer.layer_id: _output_weight(layer, model) for layer in anatomy.layers}
    number, residuals = 0, None
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            batch = batch.to(input_device(model))
            if residuals is None:
                residuals = Residuals(model, anatomy)
                residuals.find(batch.inputs | more)
            listener = _Contributing(batch, number, residuals, weights, model)
            with residuals.heard(), Tap(model, anatomy, listener):
                body(**batch.inputs, **more)
            for place, part in listener.parts.items():
                parts[place].append(part)
            number += len(batch.sentences)
            done(number)
    found = {place: joined(each) for place, each in parts.items() if each}
    for place, each in found.items():
        _check_finite(place, each)
    return found


def _output_weight(layer: AttentionLayer, model: PreTrainedModel) -> Tensor:
    if layer.output is None:
        raise ModelError(
            f"Expected an output projection after {layer.module}, whose norms are measured, found "
            "none. Contributions can't be measured for this model. If it has adapters, merge them "
            "(`merge_and_unload()` of PEFT)."
        )
    return layer.output_weight(model).to(torch.promote_types(model.dtype, torch.float32))


@final
@dataclass
class _Contributing:
    """The tap's listener: measures a layer once all its weights are there."""

    batch: Batch
    first: int
    residuals: Residuals
    weights: dict[LayerId, Tensor]
    model: PreTrainedModel
    parts: dict[LayerId, Contributions] = field(default_factory=dict)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Keep the values, and make room for the layer's weights."""
        self._value_BHKD, self._map = value_BHKD, WholeMap(value_BHKD, num_queries)

    def block(self, block: Block) -> None:
        """Keep a block's weights until the layer ends."""
        self._map.add(block)

    def end(self, layer: AttentionLayer) -> None:
        """Measure the layer and forget its weights."""
        its = sides(layer, self.batch.to(self._value_BHKD.device))
        is_query_BQ, is_key_BK = its.queries.is_token_BN, its.keys.is_token_BN
        weights_BHQK = self._map.weights_BHQK * is_query_BQ[:, None, :, None]
        value_BHKD, weight_HDM = self._value_BHKD, self.weights[layer.layer_id]
        f_BKHM = torch.einsum("bhkd,hdm->bkhm", value_BHKD, weight_HDM.to(value_BHKD))
        gram_BKHG = f_BKHM @ f_BKHM.transpose(2, 3)
        norm_BKH = gram_BKHG.diagonal(dim1=2, dim2=3).clamp_min(0).sqrt()
        half_BGQK = torch.einsum("bhqk,bkhg->bgqk", weights_BHQK, gram_BKHG)
        joint_BK = (half_BGQK * weights_BHQK).sum(1).clamp_min(0).sqrt().sum(1)
        seen_BQK = is_query_BQ[:, :, None].expand(-1, -1, is_key_BK.shape[1]).long()
        if its.is_causal:
            seen_BQK = seen_BQK.tril()
        mixing_BKM = torch.full((*is_key_BK.shape, len(MIXINGS)), torch.nan)
        if layer.site != "decoder.cross":
            mixing_BKM = self._mixing(layer, f_BKHM)
        rows = torch.arange(len(is_key_BK), device=is_key_BK.device) + self.first
        per_key = (
            rows[:, None].expand(is_key_BK.shape),
            kinds_of(its.keys),
            its.keys.is_content_BN.long(),
            its.keys.count_BN,
            seen_BQK.sum(1),
            weights_BHQK.sum(2).transpose(1, 2).double(),
            norm_BKH.double(),
            joint_BK.double(),
            mixing_BKM.double(),
        )
        arrays = (each.to(is_key_BK.device)[is_key_BK].cpu().numpy() for each in per_key)
        self.parts[layer.layer_id] = Contributions(*arrays)
        del self._value_BHKD, self._map

    def _mixing(self, layer: AttentionLayer, f_BKHM: Tensor) -> Tensor:
        """The mixing ratios of every token by all methods."""
        weights_BHQK = self._map.weights_BHQK
        own_BHN = weights_BHQK.diagonal(dim1=2, dim2=3)
        own_BN = own_BHN.mean(1)
        total_BNM = torch.einsum("bhqk,bkhm->bqm", weights_BHQK, f_BKHM)
        self_BNM = torch.einsum("bhn,bnhm->bnm", own_BHN, f_BKHM)
        context_BNM = total_BNM - self_BNM
        context_BN = (1 - own_BN).clamp_min(0)
        found = [context_BN, _ratio(context_BNM, self_BNM), context_BN / 2]
        residual = self.residuals.known.get(layer.layer_id)
        if residual is not None:
            x_BNM = self.residuals.of(layer).to(total_BNM)
            with_x_BNM = self_BNM + x_BNM
            found.append(_ratio(context_BNM, with_x_BNM))
            scale = self._scale(layer, residual, total_BNM + x_BNM)
            if scale is not None:
                found.append(_ratio(_centred(context_BNM) * scale, _centred(with_x_BNM) * scale))
        unknown_BN = torch.full_like(own_BN, torch.nan)
        return torch.stack([*found, *[unknown_BN] * (len(MIXINGS) - len(found))], -1)

    def _scale(self, layer: AttentionLayer, residual: Residual, sum_BNM: Tensor) -> Tensor | None:
        """Gain of the norm over the standard deviation of the sum; None without such a norm."""
        norm = residual.norm
        if norm is None or norm.weight is None:
            return None
        bias = weight_of(self.model.get_submodule(layer.output or ""), "bias")
        whole_BNM = sum_BNM if bias is None else sum_BNM + bias.to(sum_BNM)
        variance_BN1 = whole_BNM.var(-1, unbiased=False, keepdim=True)
        return weight_of(norm).to(sum_BNM) / (variance_BN1 + norm.eps).sqrt()


def _centred(numbers_BNM: Tensor) -> Tensor:
    return numbers_BNM - numbers_BNM.mean(-1, keepdim=True)


def _ratio(context_BNM: Tensor, own_BNM: Tensor) -> Tensor:
    context_BN, own_BN = context_BNM.norm(dim=-1), own_BNM.norm(dim=-1)
    return context_BN / (context_BN + own_BN)


def kinds_of(tokens: Tokens) -> Int[Tensor, "batch token"]:
    """The kind of each token by its place in `KINDS`; padding is `other`."""
    first, separator, punctuation, other = (
        KINDS.index(kind) for kind in ("first", "separator", "punctuation", "other")
    )
    kind_BN = torch.full_like(tokens.ids_BN, other)
    kind_BN[tokens.is_punct_BN] = punctuation
    kind_BN[tokens.is_sep_BN] = separator
    kind_BN[:, 0] = first
    return kind_BN


def _check_finite(place: LayerId, each: Contributions) -> None:
    for numbers in (each.weight_TH, each.norm_TH, each.joint_T):
        if not np.isfinite(numbers).all():
            raise ModelError(
                f"Expected finite weights and values, but layer {place.layer} of {place.site} gave "
                "NaN or infinity. Check the model's parameters, or load it in float32."
            )


Part = TypeVar("Part", bound=Any)


def joined(parts: Sequence[Part]) -> Part:
    """One dataclass of arrays for several: every field, part after part."""
    names = (field.name for field in fields(parts[0]))
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return type(parts[0])(*arrays)
