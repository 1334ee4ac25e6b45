"""Prompts with pictures: which of their tokens ask, which show what is asked about, which reply.

A row is a chat with pictures, or a text behind one. What the reply is predicted from is the last
token in front of what the assistant says first; where nobody replies, the prompt's last token. The
evidence is the tokens of a picture in the boxes of phrases (the row's field `links`) that the user
says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import CorpusError, LayerId, ModelError, Steps, silent_steps, spread
from headcount.corpora import Box, Corpus, EncodedPair, Sentence, asking
from headcount.measures import GroupedMap
from headcount.models import Loaded, Outputs, Removal, mean_outputs_of, picture_encoder, running
from headcount.tap import AttentionLayer, Block, input_device, without_cache

NULL_QUESTION = "N/A"
"""What is asked in place of a question, to see what heads look at whatever is asked."""


@final
@dataclass(frozen=True, eq=False)
class PicturedPrompt:
    """A prompt with pictures, and what its tokens are."""

    sentence: Sentence
    ids: tuple[int, ...]
    last: int
    """Place of the token from which the reply is predicted."""
    asking: tuple[int, ...]
    """Places of the tokens that the user says."""
    patches: tuple[int, ...]
    """Places of the tokens of pictures."""
    regions: tuple[Box | None, ...]
    """Where each of these lies in its picture."""
    picture_of: tuple[int, ...]
    """Number of the picture of each."""
    evidence: tuple[int, ...]
    """Numbers, among the tokens of pictures, of those in boxes of phrases that the user says."""
    reply: tuple[int, ...]
    """Places of the tokens that the assistant says."""


@final
class PicturedPrompts:
    """The prompts of a corpus, and what a model makes of them.

    Args:
        loaded: a model that reads pictures beside texts.
        texts: rows with pictures; others are left out.

    Raises:
        ModelError: if the model reads no pictures, or it is not known where their tokens lie.
        CorpusError: if no row has a picture, or for one that can't be used.
    """

    def __init__(self, loaded: Loaded, texts: Corpus) -> None:
        self._loaded, self._encoder = loaded, picture_encoder(loaded)
        rows = [each for each in texts if each.pictures]
        if not rows:
            raise CorpusError(
                "Expected rows with pictures for skills of pictures, got none. Give chats with "
                "pictures, or ask for skills of texts."
            )
        self.all = [self._read(pair) for pair in self._encoder.encode(rows)]
        self.num_without = sum(1 for _ in texts) - len(rows)
        """Number of rows without a picture."""

    def null(self, prompt: PicturedPrompt) -> PicturedPrompt:
        """The same prompt with the null question in place of the user's."""
        [pair] = self._encoder.encode([asking(prompt.sentence, NULL_QUESTION)])
        return self._read(pair)

    def looks(
        self, prompt: PicturedPrompt, queries: Sequence[int]
    ) -> Float[np.ndarray, "head patch"]:
        """Mean weight of some tokens of a prompt on each token of its pictures, for all heads."""
        heard = _Looks(queries, prompt.patches, len(prompt.ids))
        body: Any = self._loaded.model.base_model
        with running(self._loaded, heard):
            body(**self._inputs(prompt), **without_cache(body))
        layers = range(len(self._loaded.heads.counts["decoder.self"]))
        return np.concatenate([heard.found[LayerId("decoder.self", n)] for n in layers])

    def replies(
        self,
        prompts: Sequence[PicturedPrompt],
        removal: Removal | None = None,
        steps: Steps = silent_steps,
    ) -> Float[np.ndarray, "prompt 2"]:
        """Whether each reply is the likeliest one, token by token, and the share of it that is."""
        found = list[tuple[float, float]]()
        for each in spread(partial(self._reply, removal), prompts, "prompts with pictures"):
            found.append(each)
            steps(len(found), len(prompts))
        return np.array(found)

    def mean_outputs(self) -> Outputs:
        """The mean output of every head over all tokens of the prompts."""
        model: Any = self._loaded.model

        def read(prompt: PicturedPrompt) -> None:
            model(**self._inputs(prompt), **without_cache(model))

        num_tokens = sum(len(each.ids) for each in self.all)
        return mean_outputs_of(self._loaded, read, self.all, num_tokens)

    def _reply(self, removal: Removal | None, prompt: PicturedPrompt) -> tuple[float, float]:
        model: Any = self._loaded.model
        with running(self._loaded, removal=removal):
            logits_NV = model(**self._inputs(prompt), **without_cache(model)).logits[0]
        places = torch.tensor(prompt.reply, device=logits_NV.device)
        said_R = torch.tensor([prompt.ids[place] for place in prompt.reply])
        is_right_R = logits_NV[places - 1].argmax(-1).cpu() == said_R
        return float(is_right_R.all()), float(is_right_R.double().mean())

    def _inputs(self, prompt: PicturedPrompt) -> dict[str, Tensor]:
        ids_1N = torch.tensor([prompt.ids])
        given = self._encoder.arguments([prompt.sentence], ids_1N, torch.ones_like(ids_1N).bool())
        device = input_device(self._loaded.model)
        return {name: each.to(device) for name, each in given.items()}

    def _read(self, pair: EncodedPair) -> PicturedPrompt:
        sentence, encoded = pair.sentence, pair.source
        roles, is_picture = encoded.roles or [], encoded.is_picture or []
        patches = tuple(place for place, shown in enumerate(is_picture) if shown)
        if not encoded.regions:
            raise ModelError(
                "Expected a model whose tokens of pictures can be laid over the picture, got "
                f"{self._loaded.name}. `analyze` works."
            )
        reply = tuple(place for place, role in enumerate(roles) if role == "assistant" and place)
        says = [place for place, role in enumerate(roles) if role == "user"]
        ends = reply[0] if reply else len(encoded.ids)
        asks = tuple(place for place in says if place < ends and not is_picture[place])
        words = {encoded.word_of[place] for place in asks}
        found = {key for link in pair.sentence.links if link.query in words for key in link.keys}
        sizes = [self._encoder.num_tokens(sentence, n) for n in range(len(sentence.pictures))]
        return PicturedPrompt(
            sentence,
            tuple(encoded.ids),
            ends - 1,
            asks,
            patches,
            tuple(encoded.regions),
            tuple(n for n, size in enumerate(sizes) for _ in range(size)),
            tuple(sorted(found)),
            reply,
        )


@final
class _Looks:
    """Listens to the mean weight of some queries on some keys, for all heads."""

    def __init__(self, queries: Sequence[int], keys: Sequence[int], length: int) -> None:
        self._query_1Q = torch.full((1, length), -1)
        self._query_1Q[0, [*queries]] = 0
        self._key_1K = torch.full((1, length), -1)
        self._key_1K[0, [*keys]] = torch.arange(len(keys))
        self.found: dict[LayerId, Float[np.ndarray, "head key"]] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer."""
        device, heads = value_BHKD.device, value_BHKD.shape[1]
        groups = self._query_1Q.to(device), self._key_1K.to(device)
        self._map = GroupedMap(*groups, heads, torch.float32)

    def block(self, block: Block) -> None:
        """Add a block."""
        self._map.block(block)

    def end(self, layer: AttentionLayer) -> None:
        """Keep the layer's map."""
        self.found[layer.layer_id] = self._map.map_BHWW[0, :, 0].cpu().numpy()
