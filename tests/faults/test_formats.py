"""Every format of data has its damaged twin, which ends in a sentence that names file and place."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow
import pytest

from headcount.core import CorpusError
from headcount.corpora import Corpus, Encoder
from headcount.corpora import lines as corpora_lines
from headcount.corpora import pictures as corpora_pictures
from headcount.tasks import read_examples
from tests import tiny_tokenizers
from tests.corpora.test_pictures import PIXELS, archive, png
from tests.corpora.test_told import CHAT

SMALL = 5000
"""Largest size of a line, or of a file in an archive, in these tests."""
TEXT = b"".join(b"%d dogs\n" % n for n in range(40_000))
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


def _tar(*files: tuple[str, bytes], link: str = "") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as out:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("0.png")
            info.type, info.linkname = tarfile.SYMTYPE, link
            out.addfile(info)
    return data.getvalue()


def _rows(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def _parquet(*rows: object) -> bytes:
    data = io.BytesIO()
    pd.DataFrame([*rows]).to_parquet(data)
    return data.getvalue()


MANY = [f"c{n}" for n in range(10_000)]
PAIRS = _tar(("0.txt", b"A dog. " * 300), ("1.txt", b"No."))
DAMAGED: dict[str, tuple[bytes, str]] = {
    **{f"half.txt{end}": (pack(TEXT)[:200], "a complete") for end, pack in PACK.items()},
    **{f"no.csv{end}": (b"no such thing", "a complete") for end in PACK},
    **{f"bomb.jsonl{end}": (pack(b"0" * 10**7), "a line of") for end, pack in PACK.items()},
    **{f"half.tar{end}": (pack(PAIRS)[:-40], "a tar archive") for end, pack in PACK.items()},
    "half.tar": (PAIRS[:1000], "a tar archive, but it can't be read after row 0"),
    "up.tar": (_tar(("../a.txt", b"A dog.")), "plain files inside the archive, got '../a.txt'"),
    "root.tar": (_tar(("/etc/a.txt", b"A dog.")), "plain files inside the archive, got '/etc"),
    "link.tar": (_tar(link="/etc/passwd"), "plain files .* '0.png', a link or a device"),
    "bomb.tar": (_tar(("0.txt", b"A" * (SMALL + 1))), "files of at most 5,000 bytes, got '0.txt'"),
    "no.tar": (b"no such thing", "a tar archive"),
    "json.tar": (_tar(("0.json", b"[1")), "a JSON object in '0.json'"),
    "half.parquet": (_parquet({"text": "A dog."})[:-9], "a Parquet file, but it can't be read"),
    "mixed.jsonl": (_rows({"text": "A dog."}, {"text": [1]}), ":2: expected"),
    "number.jsonl": (_rows({"text": "A dog."}, {"text": {"a": 1}}), ":2: expected"),
    "lists.parquet": (_parquet({"text": [1, 2]}), "row 1: expected"),
    "tools.jsonl": (_rows({"messages": CHAT, "tools": "find("}), ":1: expected tools as a list"),
    "chat.jsonl": (_rows({"messages": [{"role": 3, "content": "A"}]}), ":1: expected messages"),
    "many.csv": (",".join(MANY).encode() + b"\n" + b"x," * 9_999 + b"x", "'c9998'"),
    "many.jsonl": (_rows(dict.fromkeys(MANY, "x")), "'c9998'"),
    "many.parquet": (_parquet(dict.fromkeys(MANY, "x")), "'c9998'"),
    "deep.jsonl": (b"[" * 100_000, ":1: expected one JSON object"),
    "wide.tsv": (b"a\tb\nc\td\te\n", ":2: expected source<TAB>target, got 3"),
    "quotes.csv": (b'text,label\nA,1\n"B,0\n', ":3: expected comma-separated columns"),
    "half.conllu": (b"1\tA\t_\t_\t_\t_\t0\n", ":1: expected 10 columns"),
    "bytes.txt": (b"A dog.\n\xff\xfe\n", ":2: expected UTF-8"),
}
"""What is in each damaged file, and what is said about it."""


@pytest.mark.once
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a corpus and as a task's data, which read the same rows."""
    path, (content, message) = tmp_path / name, DAMAGED[name]
    path.write_bytes(content)
    if name.startswith("bomb"):
        monkeypatch.setattr(corpora_lines, "LONGEST", SMALL)
        monkeypatch.setattr(corpora_pictures, "LONGEST", SMALL)
    if name.startswith("many"):
        assert [each.text for each in Corpus(path, columns={"text": "c9998"})] == ["x"]
    with pytest.raises(CorpusError, match=message) as refused:
        list(Corpus(path))
    assert str(path) in str(refused.value)
    if not name.endswith((".tsv", ".conllu")):  # pairs and treebanks are no rows of texts
        with pytest.raises(CorpusError) as refused:
            read_examples("causal-lm", path)
        assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles alternate') }}", "refuses them: roles alternate. Fix or"),
        ("{{ 1 / 0 }}", "refuses them: division by zero. Fix or remove the line"),
        ("{% for a in messages %}", "refuses them: Unexpected end of template"),
        ("{{ messages[9].content }}", "refuses them: list object has no element 9"),
        ("{% for a in range(99) %}" * 5 + "{% endfor %}" * 5, "a chat template that ends, got one"),
        ("{{ messages[0].content | upper }}", "a chat template that writes messages as they are"),
    ],
)
def test_a_template_that_fails_names_the_row(
    template: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.corpora.chats.MOST_STEPS", 10_000)
    encoder = Encoder(tiny_tokenizers.chatting(template))
    with pytest.raises(CorpusError, match=f"^row 2: .*{message}"):
        encoder.encode([*Corpus(["A dog.", {"messages": CHAT}])])


def test_a_picture_in_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    from headcount.corpora import open_image

    path = archive(tmp_path / "a.tar", ("0.png", png(PIXELS[0])[:40]), ("0.cls", b"1"))
    (picture,) = read_examples("image-classification", path)["image"]
    with pytest.raises(CorpusError, match="expected an image, but it can't be read"):
        open_image(Path(picture))
