"""A corpus of images: what is read, in which order, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headcount.core import CorpusError, Grid
from headcount.corpora import (
    Batches,
    Corpus,
    Encoder,
    ImageEncoder,
    Sentence,
    open_image,
    take_census,
)
from headcount.corpora.halves import is_in_second_half
from headcount.vocabulary import IMAGES
from tests import pictures, tiny_tokenizers


def encoder() -> ImageEncoder:
    return ImageEncoder(pictures.processor(), Grid(pictures.ROWS, pictures.COLUMNS, 1))


def test_labels_take_turns(tmp_path: Path):
    pictures.write_images(tmp_path, 6, ("a", "b"))
    pictures.write_images(tmp_path / "c", 1)
    (tmp_path / ".hidden").write_text("left out")
    found = [Path(each.origin).relative_to(tmp_path).parts[0] for each in Corpus(tmp_path)]
    assert found == ["a", "b", "c", "a", "b", "a", "b"]
    assert len(list(Corpus(tmp_path, limit=3))) == 3


def test_files_of_other_programs_are_left_out(tmp_path: Path):
    pictures.write_images(tmp_path, 2, ("a", "b"))
    (tmp_path / "a" / "Thumbs.db").write_bytes(b"?")
    (tmp_path / "b" / ".hidden.txt").write_text("left out")
    assert len(list(Corpus(tmp_path))) == 2


def test_sixteen_bits_are_scaled(tmp_path: Path):
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(pixels.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(pixels).save(tmp_path / "plain.png")
    deep, plain = (open_image(tmp_path / f"{name}.png") for name in ("deep", "plain"))
    np.testing.assert_array_equal(np.asarray(deep), np.asarray(plain))


def test_thirty_two_bits_are_refused(tmp_path: Path):
    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(CorpusError, match="its pixels have 32 bits, whose largest value is unk"):
        open_image(tmp_path / "a.tiff")


def test_photographs_are_turned_upright(tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    image, exif = Image.fromarray(pixels), Image.Exif()
    exif[274] = 6  # the camera was turned: rows of the file are columns of the picture
    image.save(tmp_path / "turned.png", exif=exif)
    turned = np.asarray(open_image(tmp_path / "turned.png"))
    np.testing.assert_array_equal(turned, np.rot90(pixels, -1))


def test_an_image_is_known_by_its_bytes(tmp_path: Path):
    folder = pictures.write_images(tmp_path / "one", 2)
    copy = tmp_path / "copy.png"
    copy.write_bytes((folder / "001.png").read_bytes())
    corpus = Corpus([folder, copy])
    first, second, again = corpus
    assert first.text != second.text == again.text
    assert is_in_second_half(second) == is_in_second_half(again)
    assert corpus.inputs is IMAGES and corpus.names == ("one", "copy.png")
    assert corpus.sha256() == Corpus([folder / "000.png", copy, copy]).sha256()


def test_batches_of_images(tmp_path: Path):
    corpus = Corpus(pictures.write_images(tmp_path, 5))
    census = take_census(corpus, encoder())
    assert (census.counts.sentences, census.counts.tokens, census.counts.longest) == (5, 5 * 21, 21)
    made = list(Batches(corpus, encoder(), census, max_tokens=42))
    assert [len(batch.sentences) for batch in made] == [2, 2, 1]
    batch, grid = made[0], encoder().grid
    assert batch.grid == grid and set(batch.inputs) == {"pixel_values"}
    assert batch.inputs["pixel_values"].shape == (2, 3, 12, 15)
    tokens = batch.source
    assert tokens.is_content_BN[0].tolist() == [False] + [True] * 20
    assert not (tokens.is_sep_BN | tokens.is_punct_BN).any()
    assert (tokens.rarest_B2 == -1).all()
    assert tokens.unit_BN.tolist() == [[0] * 21, [1] * 21]  # an image is one unit


def test_an_image_of_many_tokens_is_one_unit(tmp_path: Path):
    corpus = Corpus(pictures.write_images(tmp_path, 1))
    large = ImageEncoder(pictures.processor(), Grid(20, 30, 0))
    (batch,) = Batches(corpus, large, take_census(corpus, large))
    assert batch.source.unit_BN.unique().tolist() == [0]


@pytest.mark.parametrize(("mode", "channels"), [("L", 3), ("RGBA", 3), ("P", 3), ("RGB", 1)])
def test_any_colours_are_read(tmp_path: Path, mode: str, channels: int):
    Image.new(mode, (7, 5)).save(path := tmp_path / "image.png")
    assert np.array(open_image(path, channels)).shape == ((5, 7, 3) if channels == 3 else (5, 7))


def _damaged(folder: Path) -> Path:
    (path := pictures.write_images(folder, 1) / "000.png").write_bytes(b"\x89PNG nothing")
    return path


def _truncated(folder: Path) -> Path:
    path = pictures.write_images(folder, 1) / "000.png"
    path.write_bytes(path.read_bytes()[:-200])
    return path


@pytest.mark.parametrize("spoil", [_damaged, _truncated])
def test_an_unreadable_image_is_named(tmp_path: Path, spoil):
    path = spoil(tmp_path)
    with pytest.raises(CorpusError, match=f"{re.escape(str(path))}: expected an image, but it can"):
        take_census(Corpus(tmp_path), encoder())


def test_what_is_no_corpus_of_images_is_refused(tmp_path: Path):
    with pytest.raises(CorpusError, match=r"Expected images in the folder .*, got no file\. Name"):
        Corpus(tmp_path)
    (text := tmp_path / "notes.txt").write_text("a text")
    with pytest.raises(CorpusError, match=r"Expected images in the folder .*, got 1 other file\."):
        Corpus(tmp_path)
    pictures.write_images(tmp_path, 1)
    with pytest.raises(CorpusError, match=f"Expected only images in the folder .*, got {text}"):
        Corpus(tmp_path)
    with pytest.raises(CorpusError, match=f"Expected images only beside images, got {text}"):
        Corpus([tmp_path / "000.png", text])
    with pytest.raises(CorpusError, match="got a source, a target or --pairs"):
        Corpus(tmp_path / "000.png", source=text)
    with pytest.raises(CorpusError, match=r"000\.png: expected a text, since the model reads tex"):
        Encoder(tiny_tokenizers.wordpiece()).encode(list(Corpus(tmp_path / "000.png")))
    with pytest.raises(CorpusError, match=r"Give images, or a model that reads texts\."):
        encoder().encode([Sentence("a text")])
