"""Streams: data sets that are read where they are, in parts that processes share."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import datasets
import pytest
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, InputError
from headcount.corpora import Batches, Census, Corpus, Encoder, sentences_within, take_census
from tests.forked import ranks
from tests.tiny_tokenizers import SENTENCES, wordpiece

FILES = [
    [{"text": f"{SENTENCES[(file + row) % 3]} {file}"} for row in range(file % 4)]
    for file in range(20)
]
ROWS = [row for rows in FILES for row in rows]


class Files:
    """The files of a stream, which note when they are read."""

    def __init__(self, files: Sequence[Sequence[dict[str, Any]]]) -> None:
        self.files, self.read = files, list[int]()

    def rows(self, numbers: list[int]) -> Iterator[dict[str, Any]]:
        for number in numbers:
            self.read.append(number)
            yield from self.files[number]

    def stream(self) -> datasets.IterableDataset:
        numbers = [*range(len(self.files))]
        return datasets.IterableDataset.from_generator(self.rows, gen_kwargs={"numbers": numbers})


def counted(census: Census) -> dict[str, str]:
    """What a census counts, without the hash and the parts."""
    told = vars(census) | {"sha256": "", "parts": ()}
    return {name: str(getattr(each, "tolist", lambda: each)()) for name, each in told.items()}  # noqa: B023


def test_a_stream_is_counted_and_read_by_parts() -> None:
    """Its counts are those of the same rows in a list, and a unit reads its own files only."""
    files, encoder = Files(FILES), Encoder(wordpiece())
    corpus, whole = Corpus(files.stream()), Corpus(ROWS)
    census = take_census(corpus, encoder)
    assert counted(census) == counted(take_census(whole, encoder))
    assert census.parts == tuple(map(len, FILES)) and sum(census.parts) == len(ROWS)
    assert census.sha256 == corpus.sha256() == Corpus(files.stream(), limit=99).sha256()
    assert census.sha256 != Corpus(Files(FILES[:-1]).stream()).sha256()
    files.read.clear()
    every = [*Batches(corpus, encoder, census).units()]
    assert len(every) == 20 and files.read == []
    texts = [each.text for batch in every[7] for each in batch.sentences]
    assert sorted(texts) == sorted(row["text"] for row in FILES[7]) and files.read == [7]
    (batch,) = every[6]
    first = sum(census.parts[:6])
    assert sorted(batch.source.unit_BN[:, 0].tolist()) == [first, first + 1]
    few = Corpus(Files(FILES[:15]).stream())
    assert len(few.parts) == len(take_census(few, encoder).parts) == 1


@pytest.mark.slow
def test_three_processes_read_each_file_of_a_stream_once() -> None:
    script = """
import json
from headcount.corpora import Corpus, Encoder, take_census
from tests.corpora.test_streams import FILES, Files, counted
from tests.tiny_tokenizers import wordpiece
files = Files(FILES)
corpus = Corpus(files.stream())
files.read.clear()
print(json.dumps([counted(take_census(corpus, Encoder(wordpiece()))), files.read]))
"""
    said = [json.loads(each.communicate()[0]) for each in ranks("-c", script, number=3)]
    alone = counted(take_census(Corpus(ROWS), Encoder(wordpiece())))
    assert [each for each, _ in said] == 3 * [alone]
    assert sorted(sum((read for _, read in said), [])) == [*range(20)]


def test_a_limit_of_tokens(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    """It is that of the first texts that fit, at least one."""
    encoder, corpus = Encoder(tokenizers["wordpiece"]), Corpus(SENTENCES)
    sizes = [len(pair.source.ids) for pair in encoder.encode([*corpus])]
    assert sentences_within(corpus, encoder, sizes[0] + sizes[1] - 1) == 1
    assert sentences_within(corpus, encoder, sizes[0] + sizes[1]) == 2
    assert sentences_within(corpus, encoder, 1) == 1
    assert sentences_within(corpus, encoder, sum(sizes)) == len(sizes)
    windows = Encoder(tokenizers["wordpiece"], 8, windows=True)
    rows = windows.encode([*corpus][:2])
    every = [len(row.source.measured(row.source.ids)) for row in rows]
    assert rows[-2].source.first_token > 0, "the second text has several windows"
    assert sentences_within(corpus, windows, sum(every[:-1])) == 1
    assert sentences_within(corpus, windows, sum(every)) == 2


def test_bad_streams() -> None:
    """A missing column is named with its row; what is shorter or longer the second time is said."""
    files, encoder = Files([[{"text": "a b"}, {"text": "c"}], *([{"text": "d"}],) * 15]), None
    corpus = Corpus(files.stream())
    encoder = Encoder(wordpiece())
    census = take_census(corpus, encoder)
    files.files = [files.files[0][:1], *files.files[1:]]
    first, second, *_ = Batches(corpus, encoder, census).units()
    with pytest.raises(
        CorpusError, match="Expected 2 texts in part 1 of 16, as .* got 1: files ch"
    ):
        assert [*first]
    assert len([*second]) == 1
    late = [{"text": "a"}] * 40 + [{"review": "a"}]
    with pytest.raises(
        CorpusError, match=r"^row 41: expected a field 'text', got the fields: 'rev"
    ):
        assert [*Corpus(Files([late]).stream())]
    named = Corpus(Files([*([{"text": "a"}],) * 16, late]).stream())
    with pytest.raises(CorpusError, match=r"part 17 of 17 row 41: expected a field 'text'"):
        take_census(named, encoder)

    def breaks() -> Iterator[dict[str, str]]:
        yield from late[:2]
        raise OSError("no network.")

    broken = datasets.IterableDataset.from_generator(breaks)
    with pytest.raises(CorpusError, match="^row 2: .*can't be read any further: no network. Check"):
        assert [*Corpus(broken)]
    with pytest.raises(InputError, match="Expected data sets of the hub .* got a.txt. Leave the"):
        Corpus("a.txt", stream=True)
    empty = Corpus(Files([[{"text": "a"}]] * 16).stream(), limit=3)
    assert len(empty.parts) == 1 and len([*empty]) == 3
