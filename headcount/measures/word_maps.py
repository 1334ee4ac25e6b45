r"""Word attention: every head's attention on one sentence or one pair, between words.

$$A_h(u, v) = \frac{1}{|u|} \sum_{q \in u} \sum_{k \in v} A_h(q, k)$$

The weights to the pieces of a word v are added, those from the pieces of a word u are averaged.
Reference: What Does BERT Look At? (Clark et al., 2019), section 4.1,
https://arxiv.org/abs/1906.04341
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from headcount.core import Head, InputError, LayerId, check_unicode
from headcount.corpora import (
    TOKEN_TYPES,
    LabelledTokens,
    check_languages_set,
    label_source,
    label_target,
    user_prompt,
)
from headcount.models import Loaded, greedy
from headcount.tap import AttentionLayer, Block, evaluating, input_device, tapped, without_cache

MAX_CHARACTERS = 2000
"""Largest number of characters of a text."""
MAX_TOKENS = 160
"""Largest number of tokens of a text: maps of more can't be read."""

HeadGates = Mapping[str, int | float]
"""Gates by head name; heads not named keep 1."""
_Template = Mapping[str, Any]
"""Values for a chat template, by name."""


@final
@dataclass(frozen=True, eq=False)
class SiteAttention:
    """The maps of all heads of one site."""

    site: str
    queries: tuple[str, ...]
    """Words that attend."""
    keys: tuple[str, ...]
    """Words attended to."""
    is_special_query: tuple[bool, ...]
    """Whether each of the words that attend is a special token."""
    is_special_key: tuple[bool, ...]
    """Whether each of the words attended to is a special token."""
    maps: Mapping[int, Float[np.ndarray, "head query key"]]
    """Weights between words, by layer."""


@final
@dataclass(frozen=True, eq=False)
class PictureLooks:
    """Where the words behind a picture look in it, of all heads of one site."""

    image: str
    """The picture, as the text of a `data:` address."""
    size: tuple[int, int]
    """Its width and height, in pixels."""
    site: str
    words: tuple[str, ...]
    """Words that look at it."""
    regions: tuple[tuple[float, ...], ...]
    """Left, top, right and bottom of each of its tokens, as shares of width and height."""
    maps: Mapping[int, Float[np.ndarray, "head word part"]]
    """Weights of words on its tokens, by layer."""


@final
@dataclass(frozen=True, eq=False)
class WordAttention:
    """Attention on one text or one pair."""

    model: str
    text: str
    second: str | None
    """The second sentence, or the target; of a translation, the model's own if none was given."""
    sites: tuple[SiteAttention, ...]
    picture: PictureLooks | None = None
    """Where the words look in the first picture; None without one, and if it is not known where
    its tokens lie."""

    def map(self, head: str) -> Float[np.ndarray, "query key"]:
        """Weights of one head between words.

        Raises:
            InputError: for a head that the model lacks.
        """
        where = Head.parse(head)
        for each in self.sites:
            if each.site == where.site and where.layer in each.maps:
                if where.index < len(each.maps[where.layer]):
                    return each.maps[where.layer][where.index]
        raise InputError(f"Expected a head of {self.model}, got {head}.")


def check_text(text: str, what: str = "sentence") -> str:
    """The text on one line.

    Raises:
        InputError: if it is empty or too long, or holds half of a character.
    """
    check_unicode(text, f"a {what}")
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"Expected a {what} of at most {MAX_CHARACTERS:,} characters, got {len(text):,}. Give "
            "one sentence, or measure a text with `headcount analyze`."
        )
    if not (line := " ".join(text.split())):
        raise InputError(f"Expected a {what} of at least one word, got none. Give a text.")
    return line


def read_source(
    loaded: Loaded,
    text: str,
    second: str | None = None,
    what: str = "sentence",
    chat: _Template | None = None,
) -> LabelledTokens:
    """The tokens of a text, or of a pair that the model reads as one input.

    Args:
        loaded: any model that reads text.
        text: the text.
        second: the second text of a pair.
        what: what the text is, for errors.
        chat: values for the chat template, which then writes the text as a user's message.

    Raises:
        InputError: if it has none or too many, or there is no chat template.
    """
    encoder = loaded.encoder()
    if chat is not None:
        text = user_prompt(encoder.tokenizer, loaded.name, text, chat)
    tokens = label_source(encoder, text, second, around=chat is None)
    _check_tokens(loaded, tokens, what)
    return tokens


def read_target(loaded: Loaded, text: str) -> LabelledTokens:
    """The tokens of a translation as a decoder reads them; the start token alone if it is empty.

    Raises:
        InputError: if it has too many.
    """
    tokens = label_target(loaded.encoder(), text)
    if len(tokens.ids) > 1:
        _check_tokens(loaded, tokens, "target")
    return tokens


def _limit(loaded: Loaded) -> int:
    """Largest number of tokens of a text of a model."""
    return min(MAX_TOKENS, loaded.max_length or MAX_TOKENS)


def _check_tokens(loaded: Loaded, tokens: LabelledTokens, what: str) -> None:
    limit = _limit(loaded)
    if all(tokens.is_special):
        raise InputError(f"Expected a {what} with words, got none that {loaded.name} reads.")
    if len(tokens.ids) > limit:
        raise InputError(
            f"Expected a {what} of at most {limit} tokens, got {len(tokens.ids)}. Shorten it."
        )


def word_attention(
    loaded: Loaded,
    text: str,
    second: str | None = None,
    gates: HeadGates | None = None,
    chat: _Template | None = None,
) -> WordAttention:
    """Every head's attention between the words of a text.

    Args:
        loaded: any model that reads text.
        text: one sentence.
        second: the target of a translation, by default the model's own greedy one; otherwise the
            second sentence of a pair that the model reads as one input.
        gates: factors by head name; heads not named keep 1.
        chat: as in `read_source`.

    Raises:
        InputError: for a text that is empty or too long, or an unknown head.
    """
    text = check_text(text)
    is_translation = loaded.model.config.is_encoder_decoder
    second = None if second is None else check_text(second, "second sentence")
    source = read_source(loaded, text, None if is_translation else second, chat=chat)
    target = None
    if is_translation:
        second = translate(loaded, source, gates) if second is None else second
        target = read_target(loaded, second)
    listener = Maps(source, target or source)
    body = loaded.model.base_model
    options = without_cache(body)
    with evaluating(loaded.model), torch.inference_mode():
        with tapped(loaded.model, listener, gates, loaded.anatomy):
            body(**model_inputs(loaded, source, target), **options)
    return WordAttention(loaded.name, text, second, listener.sites())


def translate(loaded: Loaded, source: LabelledTokens, gates: HeadGates | None = None) -> str:
    """The greedy translation under gates, of at most twice as many tokens as the source plus 16.

    Raises:
        InputError: if the model does not generate.
    """
    model, encoder = loaded.model, loaded.encoder()
    if not model.can_generate():
        raise InputError(
            f"Expected a target, since a {type(model).__name__} reads targets but does not "
            "generate them. Give a pair of texts."
        )
    check_languages_set(encoder.tokenizer)
    longest = min(2 * len(source.ids) + 16, _limit(loaded) - 2)  # read with its start and end
    with evaluating(model), torch.inference_mode():
        with tapped(model, None, gates, loaded.anatomy):
            return greedy(model, encoder, model_inputs(loaded, source), longest)[0]


def model_inputs(
    loaded: Loaded, source: LabelledTokens, target: LabelledTokens | None = None
) -> dict[str, Tensor]:
    """The inputs of a model for one text or pair, on the model's device."""
    rows = {"input_ids": source.ids, "attention_mask": (1,) * len(source.ids)}
    if source.type_ids is not None:
        rows[TOKEN_TYPES] = source.type_ids
    if target is not None:
        rows["decoder_input_ids"] = target.ids
        rows["decoder_attention_mask"] = (1,) * len(target.ids)
    device = input_device(loaded.model)
    return {name: torch.tensor([row], device=device) for name, row in rows.items()}


@final
class Maps:
    """A listener that keeps the map between words of every head."""

    def __init__(self, source: LabelledTokens, target: LabelledTokens) -> None:
        self._source, self._target = source, target
        self._maps: dict[LayerId, np.ndarray] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer."""
        queries, keys = (
            torch.tensor([side.word_of], device=value_BHKD.device)
            for side in self._of_site(layer.site)
        )
        self._map = GroupedMap(queries, keys, value_BHKD.shape[1], torch.float32)

    def block(self, block: Block) -> None:
        """Add a block."""
        self._map.block(block)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the layer's maps."""
        self._maps[layer.layer_id] = self._map.map_BHWW[0].cpu().numpy()

    def sites(self) -> tuple[SiteAttention, ...]:
        """The maps by site, in the order of the forward pass."""
        found = []
        for site in dict.fromkeys(place.site for place in self._maps):
            queries, keys = self._of_site(site)
            maps = {place.layer: each for place, each in self._maps.items() if place.site == site}
            found.append(
                SiteAttention(
                    site, queries.words, keys.words, queries.is_special, keys.is_special, maps
                )
            )
        return tuple(found)

    def _of_site(self, site: str) -> tuple[LabelledTokens, LabelledTokens]:
        queries = self._source if site == "encoder.self" else self._target
        return queries, self._target if site == "decoder.self" else self._source


@final
class GroupedMaps:
    """Adds up attention between groups of tokens, block by block of the tap.

    Weights are summed over the keys of a group and averaged over its queries.

    Args:
        layers: the layers that are heard; their heads follow each other.
    """

    def __init__(self, layers: Sequence[AttentionLayer]) -> None:
        starts = np.cumsum([0, *(layer.num_heads for layer in layers)]).tolist()
        self._start = {layer.layer_id: at for layer, at in zip(layers, starts[:-1], strict=True)}
        self._num_heads = starts[-1]
        self.maps_BHGG = torch.empty(0)
        """The maps of the batch of the last forward pass."""

    def start(self, sums_BGN: Float[Tensor, "batch group token"]) -> None:
        """Announce the batch of the next forward pass, with 1 where a token is in a group."""
        self._sums_BNG = sums_BGN.transpose(1, 2)
        self.means_BGN = sums_BGN / sums_BGN.sum(-1, keepdim=True).clamp_min(1)
        """The same divided by the number of the group's tokens."""
        batch, groups, _ = sums_BGN.shape
        self.maps_BHGG = sums_BGN.new_zeros(batch, self._num_heads, groups, groups)

    def block(self, block: Block) -> None:
        """Add a block."""
        if (start := self._start.get(block.layer.layer_id)) is None:
            return
        weights_BHQK = block.weights_BHQK.to(self.maps_BHGG.device, torch.float)
        means_BGQ = self.means_BGN[block.rows, :, block.queries]
        map_BHGG = means_BGQ[:, None] @ (weights_BHQK @ self._sums_BNG[block.rows, None])
        start += block.heads.start or 0
        self.maps_BHGG[block.rows, start : start + map_BHGG.shape[1]] += map_BHGG


def probe_layers(loaded: Loaded) -> list[AttentionLayer]:
    """The layers whose attention is between the words of a treebank."""
    layers = loaded.anatomy.layers
    sites = {layer.site for layer in layers}
    site = "encoder.self" if "encoder.self" in sites else "decoder.self"
    return sorted((layer for layer in layers if layer.site == site), key=lambda each: each.layer)


def probe_heads(loaded: Loaded) -> list[Head]:
    """The heads whose attention is between the words of a treebank, in the order of features."""
    return [
        Head(layer.site, layer.layer, index)
        for layer in probe_layers(loaded)
        for index in range(layer.num_heads)
    ]


@final
class GroupedMap:
    """A map between groups of tokens (words): sums over a group's keys, means over its queries.

    Args:
        query_group_BQ: group of each query, -1 if excluded.
        key_group_BK: group of each key, -1 if excluded.
        num_heads: number of heads.
        dtype: data type of the weights.
    """

    def __init__(
        self,
        query_group_BQ: Int64[Tensor, "batch query"],
        key_group_BK: Int64[Tensor, "batch key"],
        num_heads: int,
        dtype: torch.dtype,
    ) -> None:
        member_BQW = _membership(query_group_BQ, dtype)
        num_pieces_BW = member_BQW.sum(1).clamp_min(1)
        self.average_BWQ = (member_BQW / num_pieces_BW[:, None]).transpose(1, 2).contiguous()
        self.member_BKW = _membership(key_group_BK, dtype)
        shape = (len(key_group_BK), num_heads, self.average_BWQ.shape[1], self.member_BKW.shape[2])
        self.map_BHWW = self.average_BWQ.new_zeros(shape)

    def block(self, block: Block) -> None:
        """Add the contribution of a block's queries."""
        weights, rows = block.weights_BHQK, block.rows
        summed = weights.flatten(1, 2) @ self.member_BKW[rows]
        average = self.average_BWQ[rows, None, :, block.queries]
        self.map_BHWW[rows, block.heads] += average @ summed.view(*weights.shape[:3], -1)


def _membership(group_BN: Tensor, dtype: torch.dtype) -> Float[Tensor, "batch token group"]:
    groups = torch.arange(max(1, int(group_BN.max()) + 1), device=group_BN.device)
    return (group_BN[..., None] == groups).to(dtype)
