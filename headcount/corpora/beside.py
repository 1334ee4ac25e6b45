"""What stands beside a text: pictures, or recordings, as a model's processor takes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from jaxtyping import Float

from headcount.core import CorpusError
from headcount.corpora.images import open_image
from headcount.corpora.picture_rows import MARK
from headcount.corpora.pictures import refuse_picture
from headcount.corpora.recordings import Recording, UnusableError, check_reads_sound
from headcount.corpora.sentence import HEARD, PICTURE, Sentence, Shown

PIXELS = 50_000_000
"""Largest number of pixels of a picture."""
FEATURES = ("input_features", "feature_attention_mask")
"""What a processor makes of recordings, one row each, whatever the number of tokens is."""
_ORIENTATION = 0x0112
"""Number of the EXIF field that says how a picture is turned; above 4 it lies on its side."""


@final
class Seen:
    """Pictures beside texts.

    Args:
        processor: the model's processor.
    """

    kind, what, label = "image", "picture", PICTURE
    has_places = True
    """Whether its tokens may be known to lie somewhere."""

    def __init__(self, processor: Any) -> None:
        self.mark = str(getattr(processor, "image_token", None) or MARK)
        """What stands for a picture in the text that the processor is given."""

    def given(self, sentence: Sentence) -> dict[str, Any]:
        """The arguments of the processor for a prompt's pictures.

        Raises:
            CorpusError: for one that is too large or can't be read.
        """
        for each in sentence.pictures:
            size_of(each, sentence.origin)
        images = [open_image(each.path) for each in sentence.pictures]
        return {"images": [images]} if images else {}


@final
class Heard:
    """Recordings beside texts.

    Args:
        processor: the model's processor.

    Raises:
        InputError: if the package that reads sound is not installed.
    """

    kind, what, label = "audio", "recording", HEARD
    has_places = False

    def __init__(self, processor: Any) -> None:
        check_reads_sound()
        self._extractor, self.mark = processor.feature_extractor, str(processor.audio_token)

    def given(self, sentence: Sentence) -> dict[str, Any]:
        """The arguments of the processor for a prompt's recordings.

        Raises:
            CorpusError: for one that can't be read, is silent, or longer than the model hears.
        """
        sounds = [self._samples(each, sentence.origin) for each in sentence.pictures]
        rate = {"sampling_rate": self._extractor.sampling_rate}
        return {"audio": sounds, **rate} if sounds else {}

    def _samples(self, shown: Shown, origin: str) -> Float[np.ndarray, " sample"]:
        rate = self._extractor.sampling_rate
        recording = Recording(origin, shown.path, text=self.label)  # a transcript is not needed
        try:
            return recording.samples(rate, self._extractor.n_samples / rate)[0]
        except UnusableError as error:
            raise CorpusError(
                f"{origin}: expected a recording that can be used, but {shown.path} {error}. Fix "
                "or remove it."
            ) from error


def beside(processor: Any) -> Seen | Heard:
    """What a processor takes beside texts: recordings if it takes no pictures."""
    hears = all(hasattr(processor, name) for name in ("audio_token", "feature_extractor"))
    sees = hasattr(processor, "image_processor")
    return Heard(processor) if hears and not sees else Seen(processor)


def size_of(shown: Shown, origin: str) -> tuple[int, int]:
    """Width and height of a picture as it is seen, which only its first bytes are read for.

    Raises:
        CorpusError: if it can't be read, or has more than `PIXELS`.
    """
    from PIL import Image

    try:
        with _of_any_size(), Image.open(shown.path) as opened:
            width, height = opened.size
            if width * height > PIXELS:
                raise CorpusError(
                    f"{origin}: expected pictures of at most {PIXELS:,} pixels, got {width:,} x "
                    f"{height:,}: {shown.path}. Make it smaller."
                )
            turned = opened.getexif().get(_ORIENTATION, 1) > 4  # which may read all pixels
    except CorpusError:
        raise
    except Exception as error:  # damaged files raise errors of many kinds
        refuse_picture(shown.path, error)
    return (height, width) if turned else (width, height)


@contextmanager
def _of_any_size() -> Iterator[None]:
    """Inside, Pillow opens pictures of any size, of which it reads no pixels yet."""
    from PIL import Image

    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before
