"""What a model says of every recording that can be used, and why the others are left out.

A Whisper reads a recording and its transcript (teacher forcing), and its maps are kept. The decoder
is given the start of transcript, language, task and no-timestamps tokens, then the
transcript. The row of a token in a cross-attention map is that of the position that predicts it, so
the first is that of the last forced token, and the last predicts the end. Columns are the encoder's
frames up to the end of the sound: what is padded to 30 s has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch.nn.functional import cross_entropy

from headcount.core import Head, LayerId, Progress, check_disk
from headcount.corpora import Listening, Recording
from headcount.models import Loaded, SpeechEncoder, lists_of
from headcount.tap import Block, FunctionListener, Tap, evaluating
from headcount.wordtimes.head_scores import map_scores
from headcount.wordtimes.lists import Heard, MapsOnDisk
from headcount.wordtimes.warping import standardised, starts

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


FAR_ABOVE = 6.0
"""Standard deviations above the median loss, by the median absolute deviation, from which a
transcript is taken for that of another recording."""
LEAST_ABOVE = 2.0
"""Nats by which such a loss is above the median at least."""
OTHERS = "has a transcript that the model finds far less likely than the others'"
"""Why such a recording is left out."""


@final
@dataclass(frozen=True, eq=False)
class Hearing:
    """The recordings that were read, and what their maps say of heads."""

    heard: tuple[Heard, ...]
    recordings: tuple[Recording, ...]
    """The same recordings as they were given, or pieces of those that are too long."""
    scores_SCH: Float[np.ndarray, "recording score head"]
    """What `head_scores.MAP_SCORES` names."""
    left_out: tuple[str, ...]
    """Why recordings were left out."""
    prepared: tuple[str, ...]
    """How sound was cut, resampled or mixed."""

    @property
    def seconds(self) -> float:
        """Length of all recordings."""
        return sum(each.seconds for each in self.heard)


@final
@dataclass(frozen=True, eq=False)
class _Read:
    """What is kept of a recording or a piece of one."""

    recording: Recording
    heard: Heard
    scores_CH: Float[np.ndarray, "score head"]
    loss: float


def hear(
    forcing: Forcing, recordings: Sequence[Recording], file: IO[bytes], progress: Progress
) -> Hearing:
    """Read all recordings with their transcripts, those that are too long in pieces.

    Args:
        forcing: runs the model.
        recordings: the recordings.
        file: gets their maps.
        progress: called with the seconds of sound so far, and of all.

    Raises:
        CorpusError: if none can be used.
        InputError: if their maps do not fit on the disk.
    """
    found, listening = list[_Read](), Listening(forcing.speech, recordings, progress)
    for _, _, read in listening.read(partial(_read, forcing, file)):
        found.append(read)
        if len(found) == 1:
            held, what = read.heard.maps.num_bytes * listening.number, "the maps of all recordings"
            check_disk(Path(gettempdir()), held, what, "Name another folder with TMPDIR.")
    is_own = fits([each.loss for each in found])
    for each, fits_in in zip(found, is_own, strict=True):
        if not fits_in:
            listening.leave_out(each.recording, OTHERS)
    used = [each for each, fits_in in zip(found, is_own, strict=True) if fits_in]
    if not used:
        raise listening.none_used()
    return Hearing(
        tuple(each.heard for each in used),
        tuple(each.recording for each in used),
        np.stack([each.scores_CH for each in used]),
        listening.left_out,
        listening.prepared,
    )


def _read(forcing: Forcing, file: IO[bytes], recording: Recording) -> tuple[_Read, str]:
    """Read one recording with its transcript; also returns how its sound was prepared.

    Raises:
        UnusableError: if it can't be used.
    """
    speech = forcing.speech
    samples_N, how = recording.samples(speech.rate, speech.longest)
    forced = forcing.of(samples_N, recording.words)
    gains_HRF = standardised(forced.maps_HRF, forcing.width)
    heard = Heard(
        maps=MapsOnDisk(file, gains_HRF),
        starts_HR=starts(gains_HRF),
        first_rows=forced.first_rows,
        frame_seconds=speech.frame_seconds,
        seconds=len(samples_N) / speech.rate,
    )
    scores_CH = map_scores(forced.maps_HRF, gains_HRF, heard.starts_HR)
    return _Read(recording, heard, scores_CH, forced.loss), how


def fits(losses: Sequence[float]) -> list[bool]:
    """Whether each transcript is as likely as those of other recordings are."""
    if not losses:
        return []
    middle = float(np.median(losses))
    spread = 1.4826 * float(np.median(np.abs(np.array(losses) - middle)))
    most = middle + max(LEAST_ABOVE, FAR_ABOVE * spread)
    return [loss <= most for loss in losses]
