"""Pictures where data sets hold them: bytes, tar archives, tables of a folder; folders of data."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow
import pytest
from PIL import Image

from headcount.core import CorpusError
from headcount.corpora import Corpus, open_image
from headcount.corpora.lines import COMPRESSED
from headcount.tasks import read_examples

PIXELS = [np.full((4, 5, 3), shade, np.uint8) for shade in (10, 200)]


def png(pixels: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


ROWS = [{"image": {"bytes": png(each), "path": None}, "label": n} for n, each in enumerate(PIXELS)]


def archive(path: Path, *files: tuple[str, bytes], mode: str = "w") -> Path:
    tar: Any = tarfile.open
    with tar(path, mode) as out:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def data_set(folder: Path) -> Any:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    return datasets.Dataset.from_list(ROWS, features=features)


def parquet(folder: Path) -> Path:
    data_set(folder).to_parquet(folder / "a.parquet")
    return folder / "a.parquet"


def saved(folder: Path) -> str:
    splits = {"train": data_set(folder), "test": data_set(folder).select([0])}
    made: Any = datasets.DatasetDict
    made(splits).save_to_disk(folder / "saved")
    return f"{folder / 'saved'}?split=train"


def webdataset(folder: Path) -> Path:
    files = [(f"a/{n}.{kind}", data) for n in (0, 1) for kind, data in _pair(n)]
    return archive(folder / "a.tar.gz", *files, mode="w:gz")


def _pair(n: int) -> list[tuple[str, bytes]]:
    return [("cls", str(n).encode()), ("png", png(PIXELS[n]))]


def metadata(folder: Path) -> Path:
    for n, each in enumerate(PIXELS):
        (folder / f"{n}.png").write_bytes(png(each))
    rows = [{"file_name": f"{n}.png", "label": n} for n in (0, 1)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.mark.parametrize("make", [data_set, parquet, saved, webdataset, metadata])
def test_pictures_are_read_where_they_are(make: Callable[[Path], Any], tmp_path: Path) -> None:
    data = make(tmp_path)
    table = read_examples("image-classification", data)
    assert table["label"] == ["0", "1"]
    found = [np.asarray(open_image(Path(each))) for each in table["image"]]
    assert all(map(np.array_equal, found, PIXELS))
    corpus = Corpus(data)
    assert not corpus.inputs.is_text
    shown = [np.asarray(open_image(each.image)) for each in corpus if each.image is not None]
    assert len(shown) == 2 and all(map(np.array_equal, shown, PIXELS))
    assert corpus.sha256() == Corpus(data).sha256()


def test_a_caption_is_a_text_unless_the_image_is_named(tmp_path: Path) -> None:
    files = [("0.png", png(PIXELS[0])), ("0.txt", b"A dog."), ("1.json", b'{"text": "No."}')]
    path = archive(tmp_path / "a.tar", *files)
    assert [each.text for each in Corpus(path)] == ["A dog.", "No."]
    assert next(iter(Corpus(path, columns={"image": "image"}))).image is not None


def test_archives_are_read_whatever_compresses_them(tmp_path: Path) -> None:
    data = archive(tmp_path / "a.tar", *(("0.txt", b"A dog."), ("1.txt", b"No."))).read_bytes()
    packed = {
        ".gz": gzip.compress(data),
        ".bz2": bz2.compress(data),
        ".xz": lzma.compress(data),
        ".zst": pyarrow.compress(data, codec="zstd", asbytes=True),
    }
    assert {*packed} == {*COMPRESSED}
    for end, content in packed.items():
        path = tmp_path / f"a.tar{end}"
        path.write_bytes(content)
        assert [each.text for each in Corpus(path)] == ["A dog.", "No."], end


def test_folders_of_data_sets_have_splits(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["A dog.", "No."]})
    (tmp_path / "data").mkdir()
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        frame.to_parquet(tmp_path / "data" / f"{name}.parquet")
    named = f"{tmp_path}?split=train"
    assert [each.text for each in Corpus(named)] == ["A dog.", "No."] * 2
    assert len(read_examples("causal-lm", f"{tmp_path}?split=test")) == 2
    with pytest.raises(CorpusError, match=r"split of .* \(train, test\), got none. Write .*train"):
        Corpus(tmp_path)
    with pytest.raises(CorpusError, match=r"got dev. Write"):
        Corpus(f"{tmp_path}?split=dev")
    both: Any = datasets.DatasetDict
    rows = datasets.Dataset.from_pandas(frame)
    both(train=rows, test=rows).save_to_disk(tmp_path / "both")
    with pytest.raises(
        CorpusError, match=r"^Expected one split of .*both \(train, test\), got none"
    ):
        Corpus(tmp_path / "both")
    rows.save_to_disk(tmp_path / "saved")
    assert [each.text for each in Corpus(tmp_path / "saved")] == ["A dog.", "No."]


def test_folders_of_data_sets_have_configs(tmp_path: Path) -> None:
    """As the card of a cloned data set names them."""
    card = "configs:\n- config_name: a\n  data_files: a/*\n- config_name: b\n  data_files: b/*"
    (tmp_path / "README.md").write_text(f"---\n{card}\n---\n")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.jsonl").write_text(f'{{"text": "{name} dog."}}\n')
    assert [each.text for each in Corpus(f"{tmp_path}?config=b&split=train")] == ["b dog."]
    assert [each.text for each in Corpus(f"{tmp_path}?config=a")] == ["a dog."], "its only split"
    for end, got in (("split=train", "none"), ("config=c&split=train", "c")):
        with pytest.raises(
            CorpusError, match=rf"config of .* \(a, b\), got {got}. Write .*config=a"
        ):
            Corpus(f"{tmp_path}?{end}")
    with pytest.raises(CorpusError, match=r"got test. Write .*\?config=b&split=train"):
        Corpus(f"{tmp_path}?config=b&split=test")
    with pytest.raises(CorpusError, match="got row in .* Leave it out"):
        Corpus(f"{tmp_path}?config=b&row=3")
    with pytest.raises(CorpusError, match=r"or the split of a data set: .*\?split=train"):
        Corpus(tmp_path / "a")


def test_class_names_are_those_that_datasets_wrote(tmp_path: Path) -> None:
    """In Parquet, of several files if they agree, and in a saved folder of images."""
    names = datasets.ClassLabel(names=["no", "yes"])
    features = datasets.Features({"image": datasets.Image(), "label": names})
    held = datasets.Dataset.from_list(ROWS, features=features)
    held.to_parquet(tmp_path / "a.parquet")
    held.save_to_disk(tmp_path / "saved")
    for data in (tmp_path / "a.parquet", [tmp_path / "a.parquet"] * 2, tmp_path / "saved"):
        table = read_examples("image-classification", data)
        assert table.class_names == {"label": ["no", "yes"]}
    parquet(tmp_path)
    assert read_examples("image-classification", parquet(tmp_path)).class_names == {}


def test_labels_stand_in_the_metadata_of_each_split(tmp_path: Path) -> None:
    """Not in the name of the split's folder."""
    (tmp_path / "train").mkdir()
    metadata(tmp_path / "train")
    assert read_examples("image-classification", tmp_path)["label"] == ["0", "1"]
    with pytest.raises(CorpusError, match="Expected tables in .* Name the folder that holds them"):
        Corpus(f"{tmp_path}?split=train")


def test_files_of_an_archive_have_the_names_that_webdataset_gives_them(tmp_path: Path) -> None:
    files = [("0.in.png", png(PIXELS[0])), ("0.kind.cls", b"3"), ("0.npy", b"\0"), ("0.cls", b"1")]
    path = archive(tmp_path / "a.tar", *files)
    table = read_examples("image-classification", path, {"image": "in.png", "label": "kind.cls"})
    assert table["label"] == ["3"]
    with pytest.raises(CorpusError, match="the columns are 'in.png', 'kind.cls', 'npy', 'label'"):
        read_examples("image-classification", path)
