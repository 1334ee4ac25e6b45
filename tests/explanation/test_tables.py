"""Prompts from tables of any format, and targets that are not what they seem."""

from dataclasses import replace
from pathlib import Path

import datasets
import pandas as pd
import pytest

from headcount.core import InputError
from headcount.corpora import HowRead, ReadAs
from headcount.explanation import explain, read_prompts
from tests.explanation.test_reader import GPT2, case
from tests.tasks.loaded import loaded

FRAME = pd.DataFrame(
    {"question": ["A, dog", "The"], "answer": [" barked", " moon"], "wrong": [" ran", None]}
)
NAMED = {"prompt": "question", "target": "answer", "against": "wrong"}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ""])
def test_prompts_of_a_table(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    if suffix == ".jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    elif suffix == ".parquet":
        FRAME.to_parquet(path)
    elif suffix:
        FRAME.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    data = path if suffix else datasets.Dataset.from_pandas(FRAME)
    first, second = read_prompts(data, NAMED)
    assert (first.prompt, first.target, first.against) == ("A, dog", " barked", " ran")
    assert (second.prompt, second.target, second.against) == ("The", " moon", None)
    with pytest.raises(
        InputError, match="name the columns to read: --columns prompt=NAME prompt.target="
    ):
        read_prompts(data)
    with pytest.raises(InputError, match="Expected columns of prompts .*, got 'text'"):
        read_prompts(data, {"text": "question"})


@pytest.mark.parametrize(
    "row, wrong",
    [
        ({"prompt": "A", "answer": " b"}, "none for target among the fields 'prompt', 'answer'"),
        ({"prompt": "A", "target": " b", "rival": " c"}, "the unknown field 'rival'"),
        ({"prompt": "A", "target": 3}, "3 as target"),
    ],
)
def test_what_is_wrong_with_a_row_is_named(row: dict[str, object], wrong: str) -> None:
    with pytest.raises(InputError, match=f"row 1: expected an object .*, got {wrong}. Fix the row"):
        read_prompts([row])


def test_columns_may_be_numbered(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("A dog\t barked\nThe\t moon\n")
    found = read_prompts(path, {"prompt": 0, "target": 1})
    assert [each.target for each in found] == [" barked", " moon"]


def test_prompts_with_media_are_left_out_on_request() -> None:
    rows = [{"prompt": "A dog", "target": " barked"}, {"prompt": "<image> is", "target": " moon"}]
    with pytest.warns(UserWarning, match="left out: 1"):
        found = read_prompts(ReadAs(rows, HowRead(without_media=True)))
    assert [each.prompt for each in found] == ["A dog"] and len(read_prompts(rows)) == 2


@pytest.mark.slow
def test_tokens_that_target_and_rival_share_are_named() -> None:
    held = loaded(GPT2)
    assert case(held, "The old", " dog barked", " dog moon").shared == " dog"
    assert case(held, "The old", " dog", " moon").shared == ""
    found = explain(held, "The old", " dog barked", " dog moon")
    (said,) = [each for each in found.record.warnings if "rival" in each]
    assert said.startswith("target and rival both begin with ' dog' in 1 prompt of 1")


def test_a_target_without_its_blank_is_asked_about() -> None:
    found = explain(loaded(GPT2), "The old", "dog")
    (row,) = found.prompts
    for target, prompt, probability, lacks in [
        ("dog", "The old", 1e-8, True),
        ("dog", "The old", 1e-3, False),
        (" dog", "The old", 1e-8, False),
        ("dog", "The old ", 1e-8, False),
        (".", "The old", 1e-8, False),
    ]:
        changed = replace(row, target=target, prompt=prompt, probability=probability)
        assert replace(found, prompts=(changed,)).lacks_blank == lacks, target


def test_bytes_that_are_no_letter_are_not_listed_among_promoted_tokens() -> None:
    held = loaded(GPT2)
    tokenizer = held.encoder().tokenizer
    pieces = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    assert sum("\ufffd" in piece for piece in pieces) > len(pieces) / 20
    found = explain(held, "The old", " dog", " moon")
    assert found.written and not [row for row in found.written if "\ufffd" in row.token]
    for head in {row.head for row in found.written}:
        promoted, demoted = found.writes(head)
        assert len(promoted) == len(demoted) == 5, head
