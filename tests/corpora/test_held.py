"""Data held in memory: objects of `datasets`, data frames, lists of texts and of dicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

from headcount.core import CorpusError, InputError
from headcount.corpora import Column, Corpus, Sentence, is_held, read_data, read_parallel
from headcount.tasks import COLUMNS
from headcount.vocabulary import IMAGES

ROWS = [{"text": " A dog. ", "label": 1}, {"text": "", "label": 0}, {"text": "A cat.", "label": 0}]
TEXTS = ["A dog.", "A cat."]
MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "rows": list,
    "Dataset": datasets.Dataset.from_list,
    "IterableDataset": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
    "DataFrame": pd.DataFrame,
    "columns": lambda rows: pd.DataFrame(rows).to_dict("list"),
}
made = pytest.mark.parametrize("make", list(MAKERS.values()), ids=list(MAKERS))


@made
def test_rows_are_a_corpus_and_a_task_s_data(make: Any) -> None:
    """Again and again, and hashed as the same rows in a list are; a blank text is a blank line."""
    corpus = Corpus(make(ROWS))
    for _ in range(2):
        assert [sentence.text for sentence in corpus] == TEXTS
    assert [sentence.origin for sentence in corpus] == ["row 1", "row 3"]
    assert corpus.sha256() == Corpus(ROWS).sha256() != Corpus(make(ROWS[:1])).sha256()
    assert corpus.names == () and corpus.inputs is not IMAGES
    table = read_data(make(ROWS), None, COLUMNS["causal-lm"])
    assert (table["text"], table.origins) == (TEXTS, ["row 1", "row 3"])
    assert table.sha256 == read_data(TEXTS, None, COLUMNS["causal-lm"]).sha256
    other = [{"review": text, "stars": 3} for text in TEXTS]
    named = Corpus(make(other), columns={"text": "review"})
    assert [sentence.text for sentence in named] == TEXTS
    roles = {"text": Column(("text",)), "label": Column(("label",))}
    table = read_data(make(other), {"text": "review", "label": "stars"}, roles)
    assert table.columns == {"text": TEXTS, "label": ["3", "3"]}


def test_texts_are_a_corpus_and_a_task_s_data(tmp_path: Path) -> None:
    assert [sentence.text for sentence in Corpus(TEXTS)] == TEXTS
    assert Corpus(TEXTS).sha256() == Corpus.from_sentences(TEXTS).sha256()
    assert Corpus(tuple(TEXTS), limit=1).sha256() == Corpus(TEXTS).sha256()
    named = tmp_path / "a.txt"
    named.write_text("A bird.\n")
    assert [sentence.text for sentence in Corpus([str(named), named])] == 2 * ["A bird."]
    assert [sentence.text for sentence in Corpus.from_sentences([str(named)])] == [str(named)]
    long = ["word " * 3000, "x" * 500, "two\nlines", "a.b c", "a.jsonish", "3.14"]
    assert is_held(["3.14", "2.7"]) and is_held(["Yes.", "No."]) and is_held({"text": ["a.json"]})
    assert is_held(long) and not is_held("A dog.") and not is_held([]) and not is_held([named])


def test_fields_of_a_sentence() -> None:
    rows = [
        {"text": "A dog.", "target": "Ein Hund.", "second": "A cat."},
        {"words": ["A", "dog"], "target": 1, "second": None},
        {"sentence": "A cat.", "words": 2},
    ]
    assert list(Corpus(rows)) == [
        Sentence("A dog.", target="Ein Hund.", second="A cat.", origin="row 1"),
        Sentence("A dog", ("A", "dog"), spans=((0, 1), (2, 5)), origin="row 2"),
        Sentence("A cat.", origin="row 3"),
    ]
    given = [Sentence("A dog.", target="x"), "A cat."]
    assert list(Corpus(given)) == [given[0], Sentence("A cat.", origin="row 2")]
    pairs = [{"en": "A dog.", "de": "Ein Hund."}]
    columns = {"source": "en", "target": "de"}
    table = read_parallel(pairs, columns, COLUMNS["translation"])
    assert table.columns == {"source": ["A dog."], "target": ["Ein Hund."]}


@pytest.mark.parametrize("make", [list, pd.DataFrame], ids=["rows", "DataFrame"])
def test_arrays_are_lists(make: Any) -> None:
    """Also inside each other, as pandas reads the lists of a Parquet file."""

    def array(*items: Any) -> Any:
        found = np.empty(len(items), object)
        found[:] = items
        return found

    words = Corpus(make([{"words": array("A", "dog")}]))
    assert [*words] == [Sentence("A dog", ("A", "dog"), spans=((0, 1), (2, 5)), origin="row 1")]
    said = {"role": "user", "content": array({"type": "text", "text": "A dog."})}
    for rows in (make([{"messages": array(said)}]), make([{"messages": [said]}])):
        assert [sentence.text for sentence in Corpus(rows)] == ["A dog."]
        table = read_data(rows, None, COLUMNS["causal-lm"])
        assert [sentence.text for sentence in table.sentences("text")] == ["A dog."]
    roles = {"text": Column(("text",)), "label": Column(("label",))}
    numbers = make([{"text": "A dog.", "label": np.float64(0.5)}])
    assert read_data(numbers, None, roles).columns == {"text": ["A dog."], "label": ["0.5"]}


def test_names_of_classes_are_those_of_the_data_set() -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    data = datasets.Dataset.from_list(ROWS[:1], features=features)
    table = read_data(data, None, COLUMNS["classification"])
    assert table.class_names == {"label": ["no", "yes"]}


def test_rows_of_unknown_number_are_hashed_up_to_the_limit() -> None:
    """Those of a stream, which may never end."""

    def count() -> Any:
        number = 0
        while True:
            number += 1
            yield {"text": f"text {number}"}

    corpus = Corpus(datasets.IterableDataset.from_generator(count), limit=3)
    expected = [f"text {number}" for number in (1, 2, 3)]
    assert [sentence.text for sentence in corpus] == expected
    assert corpus.sha256() == Corpus(expected).sha256()


SPLITS = datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SPLITS, r"one split of a data set, got a DatasetDict with 'train'. .* data\['train'\]"),
        (
            ["A dog.", "train.json", "A cat."],
            r"got both: 'train.json' \(item 2\) looks like the name of a file, 'A dog.' \(item 1\)",
        ),
        (["no.txt", "A dog."], r"got both: 'no.txt' \(item 1\) is the name of a file, 'A dog.'"),
        (["a.json", "b.gz"], r"Expected files or texts, got 'a.json' \(item 1\), which looks like"),
        ([*ROWS[:1], 3], "row 2: expected a text or a dict with its fields, got a int"),
        (iter(TEXTS), "got <.*iterator.*>, which is none of them. Pass a list"),
        ({"text": "A dog."}, "a list of cells for each column, got one text for 'text'"),
        ({"text": TEXTS, "label": [1]}, "Expected columns of one length, got .*2.*1"),
    ],
)
def test_what_holds_no_rows_is_refused(data: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(Corpus(data))
    with pytest.raises(CorpusError, match=message):
        read_data(data, None, COLUMNS["causal-lm"])


def test_what_is_no_data_at_all_is_refused() -> None:
    with pytest.raises(CorpusError, match="Expected files, or texts or rows in memory .* got 5"):
        is_held(5)


def test_bad_rows_have_a_number() -> None:
    with pytest.raises(CorpusError, match="row 2: expected a field 'text', got the fields: 'x'"):
        Corpus([{"text": "A dog."}, {"x": "A cat."}])
    fields = ("text", "words", "sentence")
    for row, field in [({field: None, "x": 1}, field) for field in fields]:
        with pytest.raises(CorpusError, match=f"row 1: expected some text in field '{field}', got"):
            Corpus([row])
    with pytest.raises(CorpusError, match="row 1: expected some text in field 'review', got none"):
        Corpus([{"review": None}], columns={"text": "review"})
    with pytest.raises(CorpusError, match="row 1: expected the field 'tokens' to hold a list"):
        Corpus([{"tokens": "A dog."}], columns={"words": "tokens"})
    with pytest.raises(CorpusError, match="row 1: expected a field 'review', got the fields: 'te"):
        Corpus(ROWS, columns={"text": "review"})
    with pytest.raises(CorpusError, match="Expected sentences in the data, got none"):
        list(Corpus(datasets.Dataset.from_list(ROWS[1:2])))
    with pytest.raises(InputError, match="Expected columns for text, words, .* got one for 'txt'"):
        Corpus(ROWS, columns={"txt": "text"})
    with pytest.raises(CorpusError, match="row 1: expected a text .* got a Sentence, which is for"):
        read_data([Sentence("A dog.")], None, COLUMNS["causal-lm"])


def test_columns_of_a_file_name_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "A dog.", "review": "Good."}\n')
    corpus = Corpus(path, columns={"text": "review"})
    assert [sentence.text for sentence in corpus] == ["Good."]
    assert corpus.sha256() != Corpus(path).sha256()
