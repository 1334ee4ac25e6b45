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
from transformers import WhisperFeatureExtractor
from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

from headcount.core import Head, InputError, LayerId, ModelError
from headcount.models import Loaded, is_saved, lists_of, place_of
from headcount.tap import Block, FunctionListener, Tap, evaluating, input_device
from headcount.wordtimes.recordings import UnusableError

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
        extractor: turns samples into the model's features.
        language: name or code of the language spoken, for multilingual models; by default the
            model's own setting, or what it hears.

    Raises:
        InputError: if the model does not know the language.
    """

    def __init__(self, loaded: Loaded, extractor: Any, language: str | None = None) -> None:
        self.loaded, self.extractor = loaded, extractor
        model: Any = loaded.model
        self._layers = [each for each in loaded.anatomy.layers if each.site == SITE]
        self._language = self._language_token(language)
        ends = model.generation_config.eos_token_id
        self._end: int = ends[0] if isinstance(ends, list) else ends

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

    @property
    def longest(self) -> float:
        """Seconds of the longest sound that the model reads."""
        config: Any = self.loaded.config
        return config.max_source_positions * self.frame_seconds

    @property
    def rate(self) -> int:
        """Samples in a second."""
        return self.extractor.sampling_rate

    @property
    def frame_seconds(self) -> float:
        """Seconds of one of the encoder's frames: 0.02 in every Whisper."""
        return 2 * self.extractor.hop_length / self.rate

    def of(self, samples_N: Float[np.ndarray, " sample"], words: Sequence[str]) -> Forced:
        """Read a recording with its transcript, word by word."""
        model: Any = self.loaded.model
        pieces = [self._pieces(word) for word in words]
        tokens = [token for each in pieces for token in each]
        features = self.extractor(samples_N, sampling_rate=self.rate, return_tensors="pt")
        device = input_device(model)
        sound = features.input_features.to(device, model.dtype)
        num_frames = max(1, len(samples_N) // (2 * self.extractor.hop_length))
        with evaluating(model), torch.inference_mode():
            encoded = model.get_encoder()(sound)
            prompt = self._prompt(encoded)
            self._check_fits(len(prompt) + len(tokens))
            ids = torch.tensor([[*prompt, *tokens]], device=device)
            maps: dict[LayerId, np.ndarray] = {}

            def keep(block: Block) -> None:
                if block.layer.site == SITE:
                    its = block.weights_BHQK[0, :, len(prompt) - 1 :, :num_frames]
                    maps[block.layer.layer_id] = its.float().cpu().numpy()

            # A layer is one block, which the decoder's few rows allow.
            with Tap(model, self.loaded.anatomy, FunctionListener(keep), block=2**62):
                found = model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False)
        targets = torch.tensor([*tokens, self._end], device=device)
        logits_RV = found.logits[0, len(prompt) - 1 :].float()
        first_rows = np.cumsum([0, *map(len, pieces)]).tolist()
        layers = [maps[layer.layer_id] for layer in self._layers]
        return Forced(
            np.concatenate(layers), float(cross_entropy(logits_RV, targets)), tuple(first_rows)
        )

    def _check_fits(self, number: int) -> None:
        """Check that the decoder takes as many tokens.

        Raises:
            UnusableError: if it takes fewer.
        """
        config: Any = self.loaded.config
        if number > config.max_target_positions:
            raise UnusableError(
                "has a transcript of more tokens than the model takes "
                f"({config.max_target_positions})"
            )

    def _pieces(self, word: str) -> list[int]:
        """The tokens of a word, which in Whisper's vocabulary begin with its blank."""
        tokenizer: Any = self.loaded.tokenizer
        return tokenizer(f" {word}", add_special_tokens=False).input_ids

    def _prompt(self, encoded: Any) -> list[int]:
        """The forced tokens: start of transcript, language and task if any, and no timestamps."""
        model: Any = self.loaded.model
        start = model.generation_config.decoder_start_token_id
        spoken: list[int] = []
        if self._is_multilingual:
            language = self._language
            if language is None:
                language = int(model.detect_language(encoder_outputs=encoded)[0])
            spoken = [language, self._token("<|transcribe|>")]
        return [start, *spoken, self._token("<|notimestamps|>")]

    @property
    def _is_multilingual(self) -> bool:
        return bool(getattr(self.loaded.model.generation_config, "is_multilingual", False))

    def _token(self, text: str) -> int:
        """The number of a special token.

        Raises:
            ModelError: if the tokenizer has no such token.
        """
        tokenizer: Any = self.loaded.tokenizer
        found = tokenizer.get_vocab().get(text)
        if found is None:
            raise ModelError(
                f"Expected the token {text} in the tokenizer of {self.loaded.name}, got none. Copy "
                "the tokenizer of the model that it was tuned from."
            )
        return found

    def _language_token(self, language: str | None) -> int | None:
        """The token of the language; None where there is one language only, or none is named.

        Raises:
            InputError: if the model does not know it.
        """
        generation: Any = self.loaded.model.generation_config
        if not self._is_multilingual:
            if language not in (None, "en", "english"):
                raise InputError(
                    f"Expected no --language for {self.loaded.name}, which knows English only, got "
                    f"{language}. Leave it out, or take a multilingual model."
                )
            return None
        language = language or getattr(generation, "language", None)
        if language is None:
            return None
        known = {each[2:-2]: number for each, number in generation.lang_to_id.items()}
        code = TO_LANGUAGE_CODE.get(language.lower(), language.lower().strip("<|>"))
        if code not in known:
            raise InputError(
                f"Expected a language that {self.loaded.name} knows ({', '.join(sorted(known))}), "
                f"got {language}. Name one of them with --language."
            )
        return known[code]


def extractor_of(loaded: Loaded) -> Any:
    """What turns samples into the features of a model: what its files say, or Whisper's own.

    Raises:
        ModelError: if the model is no Whisper.
    """
    config: Any = loaded.config
    if config.model_type != "whisper":
        raise ModelError(
            f"Expected a Whisper, got {loaded.name} ({config.model_type}): no other model's "
            "cross-attention is known to follow sound word by word. In Python, `gated` and "
            "`tapped` work with any model."
        )
    if loaded.tokenizer is None:
        raise ModelError(
            f"Expected a tokenizer beside the weights of {loaded.name}, got none. Copy that of the "
            "model that it was tuned from."
        )
    extract: Any = WhisperFeatureExtractor
    if is_saved(loaded.name, "preprocessor_config.json"):
        return extract.from_pretrained(place_of(loaded.name))
    return extract(feature_size=config.num_mel_bins)
