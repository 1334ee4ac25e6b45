"""The sound encoder: turns recordings into the frames that a model reads, and their transcripts.

A model reads so many frames, whatever the length of a recording: those behind its end are silence.
They are special tokens, which heads can look at and which do not count as queries.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import CorpusError, Progress, amount
from headcount.corpora.corpus import Corpus
from headcount.corpora.encoder import EncodedPair
from headcount.corpora.listening import Listening, Speech
from headcount.corpora.recordings import Recording, UnusableError
from headcount.corpora.sentence import NO_WORD, Clip, Encoded, Sentence
from headcount.corpora.spelling import PunctuationTable
from headcount.vocabulary import SOUND

SILENCE = 0
"""Token id of the frames behind a recording; those in it are numbered by `SHOWN`."""
SHOWN = 0.2
"""Seconds of sound that are drawn as one."""


@final
class SoundEncoder:
    """Turns recordings into spectrograms and frames, as `Encoder` turns sentences into token ids.

    Args:
        speech: the model's way of reading sound and words.
    """

    inputs, grid = SOUND, None
    token_types = windows = strict = False
    start_id: None = None
    max_length = None
    pad_id, unknown_id, sep_ids = SILENCE, None, (SILENCE,)

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self.num_frames = round(speech.longest / speech.frame_seconds)
        self.source_punctuation = PunctuationTable(lambda token: "frame")
        self.target_piece = speech.piece
        self.target_punctuation = PunctuationTable(self.target_piece)
        self._known: dict[tuple[Clip, str], tuple[int, list[int], list[int]]] = {}

    @property
    def frame_ms(self) -> float:
        """Milliseconds of a frame."""
        return 1000 * self.speech.frame_seconds

    @property
    def about(self) -> str:
        """What the model reads of a recording."""
        return f"{amount(self.num_frames, 'frame')} of {self.frame_ms:g} ms"

    def source_piece(self, token: int) -> str:
        """The time of some frames, in seconds."""
        return "silence" if token == SILENCE else f"{(token - 1) * SHOWN:.1f} s"

    def usable(self, corpus: Corpus, progress: Progress) -> tuple[Corpus, tuple[str, ...]]:
        """The recordings that can be used, long ones in pieces, and sentences about the others.

        These sentences name the recordings that are left out, with the reason.

        Args:
            corpus: the recordings.
            progress: called with the seconds of sound so far, and of all.

        Raises:
            CorpusError: if none can be used.
        """
        sentences = [*corpus]
        listening = Listening(self.speech, [*map(_recording, sentences)], progress)
        read = listening.read(self._checked)
        found = [_part(sentences[number], piece) for number, piece, _ in read]
        if not found:
            raise listening.none_used()
        return corpus.of_others(found), (*listening.left_out, *listening.prepared)

    def _checked(self, recording: Recording) -> tuple[None, str]:
        """What is done to the sound of a recording that can be used."""
        samples_N, done = recording.samples(self.speech.rate, self.speech.longest)
        clip = Clip(recording.path, recording.start, recording.seconds)
        number = min(self.speech.num_frames(samples_N), self.num_frames)
        tokens = self.speech.forced(samples_N, recording.words)
        self._known[clip, recording.text] = number, *tokens
        return None, done

    def _read(self, sentence: Sentence) -> tuple[int, list[int], list[int]]:
        """The number of frames of a recording, the forced tokens, and those of its words.

        They are kept, since a model may have to hear a recording to know its language.

        Raises:
            CorpusError: if it can't be used.
        """
        sentence.check_is(SOUND)
        assert sentence.sound is not None
        key = sentence.sound, sentence.target or ""
        if key not in self._known:
            try:
                self._checked(_recording(sentence))
            except UnusableError as error:
                raise _unusable(sentence, error) from error
        return self._known[key]

    def encode(self, sentences: Sequence[Sentence]) -> list[EncodedPair]:
        """The frames of some recordings, in order, and the tokens of their transcripts.

        Raises:
            CorpusError: for a text, or a recording that can't be used.
        """
        found = []
        for sentence in sentences:
            number, prompt, words = self._read(sentence)
            ids = [*prompt, *words]
            special = [True] * len(prompt) + [False] * len(words)
            target = Encoded(ids, [NO_WORD] * len(ids), special, len(ids)) if ids else None
            found.append(EncodedPair(sentence, self._frames(number), target))
        return found

    def arguments(
        self, sentences: Sequence[Sentence], ids_BN: Tensor, is_token_BN: Tensor
    ) -> dict[str, Tensor]:
        """The arguments of the model's forward for some recordings."""
        samples = [*map(self._samples, sentences)]
        found = {"input_features": torch.cat([*map(self.speech.features, samples)]).cpu()}
        if self.speech.hides_silence:
            number_B = torch.tensor([*map(self.speech.num_frames, samples)])
            found["is_sound"] = torch.arange(self.num_frames) < number_B[:, None]
        return found

    def _frames(self, number: int) -> Encoded:
        together = round(SHOWN / self.speech.frame_seconds)
        ids = [1 + frame // together for frame in range(number)]
        ids += [SILENCE] * (self.num_frames - number)
        is_sound = [each != SILENCE for each in ids]
        special = [not each for each in is_sound]
        return Encoded(ids, ids, special, len(ids), is_measured=is_sound)

    def _samples(self, sentence: Sentence) -> Float[np.ndarray, " sample"]:
        sentence.check_is(SOUND)
        try:
            return _recording(sentence).samples(self.speech.rate, self.speech.longest)[0]
        except UnusableError as error:
            raise _unusable(sentence, error) from error


def _recording(sentence: Sentence) -> Recording:
    clip, text = sentence.sound, sentence.target or ""
    assert clip is not None
    return Recording(sentence.origin, clip.path, text, "", clip.start, clip.seconds)


def _part(sentence: Sentence, piece: Recording) -> Sentence:
    """A piece of a recording, whose half of the corpus is its own; or the whole."""
    if piece.seconds is None:
        return sentence
    text, clip = (
        f"{sentence.text} from {piece.start} s",
        Clip(piece.path, piece.start, piece.seconds),
    )
    return replace(sentence, text=text, target=piece.text, sound=clip, origin=piece.label)


def _unusable(sentence: Sentence, error: UnusableError) -> CorpusError:
    return CorpusError(f"Expected sound that can be used, but {sentence.origin} {error}. Remove it")
