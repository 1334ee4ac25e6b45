r"""Transcription: how well a Whisper predicts a transcript, and how good its own transcript is.

Loss: NLL of the transcript's tokens and its end, in nats, with the transcript as decoder input
(teacher forcing) after the forced tokens. Score: the word error rate of greedy transcripts,

$$\mathrm{WER} = \frac{S + D + I}{N}$$

over the N words of all transcripts, with the fewest substitutions, deletions and insertions, both
sides in lower case and without marks. It is 0 at best and may exceed 1.

Reference: Robust Speech Recognition via Large-Scale Weak Supervision (Radford et al., 2022),
https://arxiv.org/abs/2212.04356, appendix C for the normalization (its basic form)
"""

from collections.abc import Iterator
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from transformers import PreTrainedModel
from transformers.models.whisper.english_normalizer import BasicTextNormalizer

from headcount.core import MAX_TOKENS, Progress, silent
from headcount.corpora import (
    SECONDS,
    Columns,
    Data,
    Listening,
    Recording,
    check_limit,
    read_recordings,
    recordings_sha256,
)
from headcount.models import Loaded, SpeechEncoder
from headcount.tap import input_device
from headcount.tasks.batch import Evaluation, TaskBatch, groups, padded, unwritten
from headcount.tasks.metrics import IGNORED, WritingTask
from headcount.tasks.supported import check_fits
from headcount.tasks.task import Resampled


@final
class Transcription(WritingTask):
    """Transcription of recordings by a Whisper.

    Args:
        loaded: a Whisper with its tokenizer.
        data: a folder, a table or a data set of recordings with transcripts (`read_recordings`).
        columns: `{"audio": NAME, "text": NAME}`.
        language: language spoken, for multilingual models; by default the model's own setting.
        limit: largest number of recordings.
        progress: called with the seconds of sound that were read so far, and of all.
    """

    name: ClassVar[str] = "transcription"
    texts_file: ClassVar[str] = "transcripts.txt"
    by_example: ClassVar[tuple[str, ...]] = ("recordings", "_tokens", "_prompts", "_lasts")
    counts: ClassVar[str] = SECONDS
    metric = "wer"
    higher_is_better = False

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        *,
        language: str | None = None,
        limit: int | None = None,
        progress: Progress = silent,
    ) -> None:
        check_fits(loaded.model, self.name)
        check_limit(limit, "recording")
        self._loaded, self.speech = loaded, SpeechEncoder(loaded, language)
        listening = Listening(self.speech, read_recordings(data, columns)[:limit], progress, True)
        read = [(piece, *tokens) for _, piece, tokens in listening.read(self._checked)]
        self.recordings: list[Recording] = [recording for recording, _, _ in read]
        """The recordings with their transcripts; pieces of those that the model can't read whole"""
        self._prompts, self._tokens = [each[1] for each in read], [each[2] for each in read]
        self._lasts = [each.lasts for each in self.recordings]
        self._prepared = listening.prepared
        self.sha256 = recordings_sha256(self.recordings)
        self.num_examples = len(self.recordings)

    @property
    def signature(self) -> str:
        """The score's name, and how texts are compared."""
        return "wer|normalizer:basic|beams:1"

    def warnings(self) -> list[str]:
        """How sound was cut, resampled or mixed."""
        return [*super().warnings(), *self._prepared]

    @property
    def sizes_N(self) -> Int[np.ndarray, " example"]:
        """Seconds of each recording, rounded so that sums are right to a second."""
        ends_N = np.round(np.cumsum(self._lasts)).astype(int)
        return np.diff(ends_N, prepend=0)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of the encoder's positions, which all recordings are padded to."""
        config: Any = self._loaded.config
        return np.full(self.num_examples, config.max_source_positions)

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of recordings, with their transcripts as decoder inputs."""
        prompts, tokens = ([held[index] for index in index_E] for held in self._sides)
        end = self.speech.end
        pairs = [*zip(prompts, tokens, strict=True)]
        asked = [[IGNORED] * (len(before) - 1) + said + [end] for before, said in pairs]
        labels_EN, read_EN = padded(asked, IGNORED), padded([a + b for a, b in pairs], end)
        lengths_E1 = torch.tensor([[len(each)] for each in asked])
        inputs = {
            "input_features": self._features(index_E),
            "decoder_input_ids": read_EN,
            "decoder_attention_mask": (torch.arange(read_EN.shape[1]) < lengths_E1).long(),
        }
        return TaskBatch.of(inputs, {"labels": labels_EN}, index_E)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model with the transcripts as decoder inputs."""
        return model(**batch.inputs, use_cache=False, **more)

    def transcribe(self, model: PreTrainedModel, max_tokens: int = MAX_TOKENS) -> list[str]:
        """The model's greedy transcripts, in the order of the data: see `SpeechEncoder.written`."""
        return self.written(model, max_tokens)

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The word error rate as a function of the recordings drawn."""
        counts_N2 = self.statistics(evaluation)
        return lambda index_DS: self.of_sums(counts_N2[index_DS].sum(1))

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example 2"]:
        """Numbers of errors and of words of every recording.

        Raises:
            InputError: if the outcomes are not transcripts.
        """
        if evaluation.outcome_N.dtype != object:
            raise unwritten("transcripts", self.metric)
        texts = zip(self.recordings, evaluation.outcome_N, strict=True)
        return np.array([word_errors(each.text, text) for each, text in texts], float)

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """Word error rates of many sums of errors and words."""
        return sums_DK[:, 0] / np.maximum(sums_DK[:, 1], 1)

    @property
    def _sides(self) -> tuple[list[list[int]], list[list[int]]]:
        return self._prompts, self._tokens

    def _checked(self, recording: Recording) -> tuple[tuple[list[int], list[int]], str]:
        """The forced tokens of a recording and those of its words, and what was done to its sound.

        Raises:
            UnusableError: if it can't be used.
        """
        samples_N, how = recording.samples(self.speech.rate, self.speech.longest)
        return self.speech.forced(samples_N, recording.words), how

    def _features(self, index_E: Int[np.ndarray, " example"]) -> torch.Tensor:
        speech = self.speech
        return torch.cat(
            [
                speech.features(self.recordings[index].samples(speech.rate, speech.longest)[0])
                for index in index_E
            ]
        ).cpu()

    def searches(self, max_tokens: int) -> Iterator[tuple[Int[np.ndarray, " example"], int]]:
        """Batches of recordings that begin with the same forced tokens."""
        config: Any = self._loaded.config
        for prompt in sorted({*map(tuple, self._prompts)}):
            index_G = np.array([n for n, its in enumerate(self._prompts) if tuple(its) == prompt])
            for place_E in groups(self.length_N[index_G], max_tokens):
                yield index_G[place_E], config.max_target_positions

    def searched(
        self, model: PreTrainedModel, index_E: Int[np.ndarray, " example"], most: int
    ) -> list[str]:
        """The transcripts of a batch."""
        del most
        features_EBS = self._features(index_E).to(input_device(model))
        return self.speech.written(model, features_EBS, [self._prompts[n] for n in index_E])


def word_errors(text: str, written: str) -> tuple[int, int]:
    """Number of word errors in a transcript, and of words in the right one.

    >>> word_errors("The dog barked.", "a dog  barked")
    (1, 3)
    """
    import jiwer

    normal = BasicTextNormalizer()
    right, own = normal(text).strip(), normal(written).strip()
    if not right:
        return len(own.split()), 0
    found = jiwer.process_words(right, own)
    return found.substitutions + found.deletions + found.insertions, len(right.split())
