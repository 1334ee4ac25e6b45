"""What a Whisper reads of a recording, and the tokens that begin and make up a transcript."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel, WhisperFeatureExtractor
from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

from headcount.core import InputError, ModelError
from headcount.corpora import Recording, UnusableError, bare
from headcount.models.loaded import Loaded
from headcount.models.model_files import is_saved, place_of
from headcount.tap import evaluating, input_device

TOGETHER = 4
"""Number of pieces of a long recording that are written down together: a token of four takes a
model hardly longer than one of one."""


class Spectrograms:
    """What a model's settings say of the spectrograms that it hears.

    Args:
        loaded: the model.
        extractor: what makes its spectrograms.
    """

    def __init__(self, loaded: Loaded, extractor: Any) -> None:
        self.loaded, self.extractor = loaded, extractor

    @property
    def rate(self) -> int:
        """Samples in a second."""
        return self.extractor.sampling_rate

    @property
    def longest(self) -> float:
        """Seconds of the longest sound that the model reads."""
        config: Any = self.loaded.config
        return config.max_source_positions * self.frame_seconds

    @property
    def frame_seconds(self) -> float:
        """Seconds of a frame, which is two steps of the spectrogram: 0.02 in every Whisper."""
        return 2 * self.extractor.hop_length / self.rate


@final
class SpeechEncoder(Spectrograms):
    """Turns recordings and transcripts into what a Whisper reads.

    Args:
        loaded: the model with its tokenizer.
        language: name or code of the language spoken, for multilingual models; by default the
            model's own setting, or what it hears.

    Raises:
        ModelError: if the model is no Whisper, or has no tokenizer.
        InputError: if the model does not know the language.
    """

    def __init__(self, loaded: Loaded, language: str | None = None) -> None:
        super().__init__(loaded, extractor_of(loaded))
        model: Any = loaded.model
        self._language = self._language_token(language)
        ends = model.generation_config.eos_token_id
        self.end: int = ends[0] if isinstance(ends, list) else ends
        """The token that ends a transcript."""

    @property
    def hides_silence(self) -> bool:
        """Whether frames behind the end of a recording are masked: in no Whisper."""
        return False

    def features(self, samples_N: Float[np.ndarray, " sample"]) -> Float[Tensor, "1 bin step"]:
        """The spectrogram of a recording, padded to the longest sound, where the model is."""
        model = self.loaded.model
        made = self.extractor(samples_N, sampling_rate=self.rate, return_tensors="pt")
        return made.input_features.to(input_device(model), model.dtype)

    def num_frames(self, samples_N: Float[np.ndarray, " sample"]) -> int:
        """Number of the encoder's frames up to the end of a recording."""
        return max(1, len(samples_N) // (2 * self.extractor.hop_length))

    def check_fits(self, number: int) -> None:
        """Check that the decoder takes as many tokens, those of the prompt included.

        Raises:
            UnusableError: if it takes fewer.
        """
        config: Any = self.loaded.config
        if number > config.max_target_positions:
            raise UnusableError(
                "has a transcript of more tokens than the model takes "
                f"({config.max_target_positions})"
            )

    def pieces(self, word: str) -> list[int]:
        """The tokens of a word, which in Whisper's vocabulary begin with its blank."""
        tokenizer: Any = self.loaded.tokenizer
        return tokenizer(f" {word}", add_special_tokens=False).input_ids

    def piece(self, token: int) -> str:
        """The text of a token."""
        tokenizer: Any = self.loaded.tokenizer
        return tokenizer.decode([token], clean_up_tokenization_spaces=False)

    def forced(
        self, samples_N: Float[np.ndarray, " sample"], words: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """The tokens that begin the transcript of a recording, and those of its words.

        Raises:
            UnusableError: if there are more than the decoder takes.
        """
        prompt = self.prompt(self._heard(samples_N) if self.listens else None)
        tokens = [token for word in words for token in self.pieces(word)]
        self.check_fits(len(prompt) + len(tokens))
        return prompt, tokens

    def written(
        self,
        model: PreTrainedModel,
        features_EBS: Float[Tensor, "example bin step"],
        prompts: Sequence[Sequence[int]],
    ) -> list[str]:
        """A model's greedy transcripts of some recordings, after forced tokens of one length.

        A transcript has at most half as many tokens as the decoder takes.

        Args:
            model: this one, or one made from it.
            features_EBS: spectrograms.
            prompts: the tokens that each transcript begins with.
        """
        config: Any = self.loaded.config
        prompt_EN = torch.tensor(prompts, device=features_EBS.device)
        half, room = config.max_target_positions // 2, config.max_target_positions
        options = {"num_beams": 1, "do_sample": False, "condition_on_prev_tokens": False}
        out_EN = model.generate(  # type: ignore[operator]
            features_EBS,
            decoder_input_ids=prompt_EN,
            max_new_tokens=min(half, room - prompt_EN.shape[1]),
            **options,
        )
        tokenizer: Any = self.loaded.tokenizer
        return tokenizer.batch_decode(out_EN, skip_special_tokens=True)

    def cut(
        self, recording: Recording, heard: Callable[[Recording], None] = lambda piece: None
    ) -> list[Recording]:
        """Pieces of a recording that the model reads, each with its own words.

        Which words of the transcript are in a piece is found by what the model itself hears there.

        Args:
            recording: the recording.
            heard: called with each piece that the model has listened to.

        Raises:
            UnusableError: if it can't be read.
        """
        pieces, said, model = recording.cut(self.longest), list[str](), self.loaded.model
        if len(pieces) == 1:
            return pieces
        for first in range(0, len(pieces), TOGETHER):
            some = pieces[first : first + TOGETHER]
            sounds = [piece.samples(self.rate, self.longest)[0] for piece in some]
            prompts = [self.forced(samples_N, ())[0] for samples_N in sounds]
            features_EBS = torch.cat([*map(self.features, sounds)])
            with evaluating(model), torch.inference_mode():
                said += self.written(model, features_EBS, prompts)
            for piece in some:
                heard(piece)
        words, firsts = recording.words, [0, *shared_out(recording.words, said)]
        return [
            replace(piece, text=" ".join(words[first:last]), first_word=first)
            for piece, (first, last) in zip(pieces, pairwise(firsts), strict=True)
            if first < last
        ]

    def _heard(self, samples_N: Float[np.ndarray, " sample"]) -> Any:
        """What the encoder returns of a recording."""
        model: Any = self.loaded.model
        with evaluating(model), torch.inference_mode():
            return model.get_encoder()(self.features(samples_N))

    def prompt(self, encoded: Any) -> list[int]:
        """The forced tokens: start of transcript, language and task if any, and no timestamps.

        Args:
            encoded: what the encoder returns of the recording, if the model `listens`.
        """
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
    def listens(self) -> bool:
        """Whether the language is heard in each recording, since none is named."""
        return self._is_multilingual and self._language is None

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


def shared_out(words: Sequence[str], heard: Sequence[str]) -> list[int]:
    """Numbers of words up to the end of each of some pieces, by the words that are heard in them.

    Words are matched by the fewest errors. Those that are heard nowhere follow the word before.

    >>> shared_out("one two three four".split(), ["Uh, one", "three four."])
    [2, 4]
    """
    import jiwer

    said = [bare(word) for word in words]
    found = [[bare(word) for word in text.split()] for text in heard]
    every = [word for its in found for word in its]
    chunks = jiwer.process_words(" ".join(said), " ".join(every)).alignments[0]
    place = [
        each.ref_start_idx + (0 if each.type == "insert" else number)
        for each in chunks
        for number in range(each.hyp_end_idx - each.hyp_start_idx)
    ]
    ends = np.cumsum([len(its) for its in found]).tolist()
    return [*(([*place, len(said)])[end] for end in ends[:-1]), len(said)]


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
