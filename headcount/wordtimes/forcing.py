"""Teacher forcing: a Whisper reads a recording and its transcript, and its maps are kept.

The decoder is given the start of transcript, language, task and no-timestamps tokens, then the
transcript. The row of a token in a cross-attention map is that of the position that predicts it, so
the first is that of the last forced token, and the last predicts the end. Columns are the encoder's
frames up to the end of the sound: what is padded to 30 s has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch.nn.functional import cross_entropy

from headcount.core import Head, LayerId
from headcount.models import Loaded, SpeechEncoder, lists_of
from headcount.tap import Block, FunctionListener, Tap, evaluating

SITE = "decoder.cross"


@final
@dataclass(frozen=True, eq=False)
class Forced:
    """What a model says of one recording and its transcript."""

    maps_HRF: Float[np.ndarray, "head row frame"]
    """Weights of every cross-attention head."""
    loss: float
    """Mean negative log-likelihood of the transcript's tokens and its end, in nats."""
    first_rows: tuple[int, ...]
    """The row of the first token of every word, and last that of the end."""


@final
class Forcing:
    """Runs a Whisper on recordings with their transcripts.

    Args:
        loaded: the model with its tokenizer.
        language: name or code of the language spoken, as for `SpeechEncoder`.
    """

    def __init__(self, loaded: Loaded, language: str | None = None) -> None:
        self.loaded, self.speech = loaded, SpeechEncoder(loaded, language)
        self._layers = [each for each in loaded.anatomy.layers if each.site == SITE]

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The cross-attention heads, in the order of the maps."""
        return tuple(
            Head(SITE, layer.layer, index)
            for layer in self._layers
            for index in range(layer.num_heads)
        )

    @cached_property
    def own(self) -> tuple[Head, ...]:
        """The model's own list; empty if it has none."""
        listed = next((pairs for _, _, pairs in lists_of(self.loaded.model)), ())
        return tuple(Head(SITE, layer, index) for layer, index in listed)

    @property
    def width(self) -> int:
        """Frames that maps are smoothed over."""
        config: Any = self.loaded.config
        return config.median_filter_width

    def of(self, samples_N: Float[np.ndarray, " sample"], words: Sequence[str]) -> Forced:
        """Read a recording with its transcript, word by word.

        Raises:
            UnusableError: if the transcript is too long.
        """
        model: Any = self.loaded.model
        pieces = [self.speech.pieces(word) for word in words]
        tokens = [token for each in pieces for token in each]
        num_frames = self.speech.num_frames(samples_N)
        with evaluating(model), torch.inference_mode():
            encoded = model.get_encoder()(self.speech.features(samples_N))
            prompt = self.speech.prompt(encoded)
            self.speech.check_fits(len(prompt) + len(tokens))
            ids = torch.tensor([[*prompt, *tokens]], device=encoded.last_hidden_state.device)
            maps: dict[LayerId, np.ndarray] = {}

            def keep(block: Block) -> None:
                if block.layer.site == SITE:
                    its = block.weights_BHQK[0, :, len(prompt) - 1 :, :num_frames]
                    maps[block.layer.layer_id] = its.float().cpu().numpy()

            # A layer is one block, which the decoder's few rows allow.
            with Tap(model, self.loaded.anatomy, FunctionListener(keep), block=2**62):
                found = model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False)
        logits_RV = found.logits[0, len(prompt) - 1 :].float()
        targets = torch.tensor([*tokens, self.speech.end], device=logits_RV.device)
        first_rows = np.cumsum([0, *map(len, pieces)]).tolist()
        layers = [maps[layer.layer_id] for layer in self._layers]
        return Forced(
            np.concatenate(layers), float(cross_entropy(logits_RV, targets)), tuple(first_rows)
        )
