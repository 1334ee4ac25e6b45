"""Tables, Parquet and data sets of the hub as the corpus of a command, and what is refused."""

import json
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount import load, models
from headcount.core import CorpusError
from headcount.corpora import Corpus
from tests.commanding import PARALLEL, headcount, run
from tests.forked import ranks

TEXTS = [line.split("\t")[0] for line in PARALLEL.read_text(encoding="utf-8").splitlines()[:12]]
ROWS: list[dict[str, Any]] = [{"review": text, "stars": 3} for text in TEXTS]
NAMED = ("--columns", "text=review")
URL = "hf://owner/reviews?split=train"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The same texts in a .csv, a .parquet and a data set of the hub."""
    table, parquet = tmp_path / "data.csv", tmp_path / "data.parquet"
    cells = [f'"{text.replace(chr(34), 2 * chr(34))}",3' for text in TEXTS]
    table.write_text("\n".join(["review,stars", *cells]), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), parquet, row_group_size=5)
    data_set = datasets.Dataset.from_list(ROWS)
    fake = SimpleNamespace(load_dataset=lambda *_, split: data_set)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return [str(table), str(parquet), URL]


@pytest.mark.slow
def test_the_same_texts_are_analysed_alike(bert: Path, tmp_path: Path, sources: list[str]) -> None:
    """Numbers do not depend on where the texts come from, and the records say from where."""
    from headcount.artifact.surviving_roles import read_again

    plain = tmp_path / "plain.txt"
    plain.write_text("\n".join(TEXTS), encoding="utf-8")
    assert headcount("analyze", bert, plain, "--out", tmp_path / "plain")[0] == 0
    expected = pd.read_parquet(tmp_path / "plain" / "heads.parquet")
    for number, source in enumerate(sources):
        out = tmp_path / str(number)
        status, _, errors = headcount("analyze", bert, source, *NAMED, "--out", out)
        assert status == 0, errors
        pd.testing.assert_frame_equal(pd.read_parquet(out / "heads.parquet"), expected)
        record = json.loads((out / "run.json").read_text())
        name = source if source == URL else Path(source).name
        assert record["corpora"] == [name] and record["arguments"]["corpus"] == [name]
        assert record["arguments"]["columns"] == ["text=review"]
        corpus = Corpus(source, columns={"text": "review"})
        assert f"|corpus:{corpus.sha256()[:12]}|" in record["signature"]
        again = read_again(out, [source], load(bert))
        assert list(again[0]) == list(corpus)
        resumed = headcount("analyze", bert, source, *NAMED, "--out", out, "--resume")
        assert resumed[0] == 0, resumed[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*lines were wrapped")
def test_wrapped_lines_are_joined_unless_they_are_kept_and_read_again_in_the_same_way(
    bert: Path, tmp_path: Path
) -> None:
    from headcount.artifact.surviving_roles import read_again

    book, loaded = tmp_path / "book.txt", load(bert)
    sentence = "The old dog barked at the cat, and the cat looked at the old dog."
    paragraph = textwrap.wrap(" ".join([sentence] * 5), 40)
    book.write_text("\n".join([*paragraph, "", *paragraph, "", *paragraph, "", *paragraph]))
    for flags, number in (([], 4), (["--lines"], 4 * len(paragraph))):
        out = tmp_path / f"out{number}"
        status, shown, errors = headcount("analyze", bert, book, *flags, "--out", out)
        assert status == 0 and f"on {number} sentences" in shown, errors
        assert len([*read_again(out, [book], loaded)[0]]) == number


@pytest.mark.slow
def test_the_analysis_of_a_table_is_read_again_when_pruning(
    bert: Path, data: list[Path], tmp_path: Path, sources: list[str], monkeypatch: Any
) -> None:
    """With the columns of its record; another corpus is refused before a model is loaded."""
    analysis = tmp_path / "analysis"
    status, _, errors = headcount("analyze", bert, sources[0], *NAMED, "--out", analysis)
    assert status == 0, errors
    more = ("--keep", 4, "--no-fold", "--no-rescale", "--analysis", analysis, "--corpus")
    status, _, errors = run("prune", bert, data, tmp_path / "out", *more, sources[0])
    assert status == 0, errors
    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    other = tmp_path / "other.csv"
    other.write_text("review\nA dog.\n")
    for files, message in [
        ((other,), "Expected the corpus of the analysis in"),
        ((data[0],), "expected a field 'review', got the fields: 'text'"),
    ]:
        status, _, errors = run("prune", bert, data, tmp_path / "new", *more, *files)
        assert status == 2 and message in errors


COMMANDS = {
    "analyze": ("analyze", "MODEL", "CORPUS"),
    "cluster": ("cluster", "MODEL", "CORPUS"),
    "evolve": ("evolve", "MODEL", "CORPUS"),
    "align": ("align", "MODEL", "CORPUS", "--gold", "GOLD"),
    "kobayashi2020": ("reproduce", "kobayashi2020", "MODEL", "CORPUS"),
    "speed": ("speed", "MODEL", "MODEL", "--data", "CORPUS"),
    "compact": ("compact", "MODEL", "--plan", "GOLD", "--data", "CORPUS"),
    "export": ("export", "MODEL", "--to", "onnx", "--data", "CORPUS"),
}
"""Commands with a corpus and its columns."""
OTHERS = {
    "follow": ("follow", "MODEL", "--task", "masked-lm", "--data", "GOLD", "--corpus", "CORPUS"),
    "task": ("evaluate", "MODEL", "--task", "masked-lm", "--data", "CORPUS"),
}
"""Commands whose texts have the names that are known, and those of tasks."""


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model fails the test."""
    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("a model was loaded"))


def refused(words: tuple[str, ...], bert: Path, corpus: object, *more: object) -> str:
    """What a command says that is refused."""
    gold = Path(str(bert)).parent / "gold.txt"
    gold.write_text("0-0\n")
    names: dict[str, object] = {"MODEL": bert, "CORPUS": corpus, "GOLD": gold}
    writes = words[0] not in ("export", "evaluate")
    out = ("--out", bert.parent / "never") if writes else ()
    status, _, errors = headcount(*(names.get(word, word) for word in words), *more, *out)
    assert status == 2 and not (bert.parent / "never").exists(), errors
    return errors


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_column_that_is_not_there_is_refused_before_a_model_is_loaded(
    bert: Path, sources: list[str], name: str
) -> None:
    for source in sources:
        errors = refused(COMMANDS[name], bert, source, "--columns", "text=body")
        assert "expected a field 'body', got the fields: 'review', 'stars'" in errors
        assert source in errors and "--columns text=NAME" in errors
    assert "Expected columns as ROLE=NAME, got 'review'" in refused(
        COMMANDS[name], bert, sources[0], "--columns", "review"
    )
    said = refused(COMMANDS[name], bert, sources[0], "--columns", "label=stars")
    named = "text, words, target, second, image, images, links"
    assert f"Expected columns for {named}, got one for 'label'" in said


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("name", [*COMMANDS, *OTHERS])
def test_a_file_or_a_field_that_is_not_there_is_refused_before_a_model_is_loaded(
    bert: Path, tmp_path: Path, sources: list[str], name: str
) -> None:
    words = (COMMANDS | OTHERS)[name]
    missing = refused(words, bert, tmp_path / "no.csv")
    assert "no.csv" in missing and ("does not exist" in missing or "got nothing" in missing)
    for source in sources[:2]:
        errors = refused(words, bert, source)
        assert source in errors and "'review', 'stars'" in errors
        assert "expected a field 'text'" in errors or "expected a column 'text'" in errors


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("name", ["speed", "compact", "export"])
def test_columns_of_no_file_are_refused(bert: Path, name: str) -> None:
    words = COMMANDS[name]
    at = words.index("--data")
    errors = refused(words[:at] + words[at + 2 :], bert, "", *NAMED)
    assert "--columns only affects --data. Name files with --data, or leave the option" in errors


@pytest.mark.slow
def test_tables_are_texts_to_compare_and_to_time(
    bert: Path, tmp_path: Path, sources: list[str]
) -> None:
    out, plan = tmp_path / "small", tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "kept": {"encoder.self": {"0": [0, 2]}}}))
    for source in sources:
        given = ("--plan", plan, "--data", source, *NAMED, "--out", out, "--overwrite")
        status, output, errors = headcount("compact", bert, *given)
        assert status == 0 and f"Equal on {len(TEXTS)} sentences" in output, errors
    given = ("--modes", "forward", "--rounds", 3, "--data", sources[1], *NAMED)
    status, output, errors = headcount("speed", bert, out, *given)
    assert status == 0 and "forward" in output, errors


@pytest.mark.parametrize(
    "given", [("reviews",), ("reviews", "more reviews"), ("reviews", PARALLEL)]
)
@pytest.mark.parametrize("command", ["analyze", "cluster", "align", "evolve", "prune --corpus"])
def test_a_name_that_is_mistyped_is_no_text(
    bert: Path, tmp_path: Path, command: str, given: tuple[object, ...]
) -> None:
    """A list of strings in Python may hold texts; arguments of a command are files."""
    out = ("--out", tmp_path / "out")
    if command == "prune --corpus":
        task = ("--task", "masked-lm", "--data", PARALLEL, "--dev", PARALLEL)
        task += ("--columns", "text=0", "--keep", 2)
        arguments = ("prune", bert, *task, *out, "--analysis", tmp_path, "--corpus", *given)
    elif command == "align":
        gold = PARALLEL.with_suffix(".links")
        arguments = (command, bert, *given, "--gold", gold, *out)
    elif command == "evolve":
        arguments = (command, bert, given[0], *out)
    else:
        arguments = (command, bert, *given, *out)
    status, _, errors = headcount(*arguments)
    assert status == 2 and "reviews" in errors
    assert "exist" in errors or "got nothing" in errors
    assert not (tmp_path / "out").exists()


def test_cells_that_python_cannot_hold_are_refused(bert: Path, tmp_path: Path) -> None:
    """A date of the year 10000, as databases write "infinity"."""
    late = pa.array([253402300800]).cast(pa.timestamp("s"))
    pq.write_table(pa.table({"text": ["a dog"], "until": late}), tmp_path / "a.parquet")
    status, _, errors = headcount(
        "analyze", bert, tmp_path / "a.parquet", "--columns", "text=until", "--out", tmp_path / "o",
    )  # fmt: skip
    assert status == 2 and "expected a Parquet file" in errors


@pytest.mark.parametrize("name", ["hf://[x?split=t", "hf://\u2100x?split=t"])
def test_an_address_that_is_none_is_refused(bert: Path, tmp_path: Path, name: str) -> None:
    status, _, errors = headcount("analyze", bert, name, "--out", tmp_path / "out")
    assert status == 2 and "Expected hf://dataset/config?split=validation" in errors


HUB = "hf://owner/name?split=train"


def on_hub(place: Path) -> Path:
    """A folder laid out like a hub data set of 16 files."""
    folder = place / "owner" / "name"
    folder.mkdir(parents=True)
    for number in range(16):
        lines = [json.dumps({"text": f"The dog {number} barks {row} times"}) for row in range(3)]
        (folder / f"train-{number:05}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_stream_of_the_hub(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real library; what it refuses is said."""
    folder, url = on_hub(tmp_path), HUB
    monkeypatch.chdir(tmp_path)
    status, _, errors = headcount(
        "analyze", bert, url, "--stream", "--limit-tokens", 90, "--out", "out"
    )
    assert status == 0, errors
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["corpora"] == [url] and 60 < record["counts"]["tokens"] <= 90
    (folder / "train-00015.jsonl").write_text('{"review": "a"}')
    with pytest.raises(CorpusError, match=r"train row 45: expected another row .*column"):
        assert [*Corpus(url, stream=True)]


STREAMING = """
import os, sys
from headcount.commands import main

os.chdir(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("limited", [(), ("--limit-tokens", 200)])
def test_processes_share_a_stream_of_the_hub(
    limited: tuple[object, ...], bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its files, or by its texts if there is a limit: tables are those of one process."""
    on_hub(tmp_path)
    monkeypatch.chdir(tmp_path)
    analyze = ("analyze", bert, HUB, "--stream", *limited, "--max-tokens", 32, "--out")
    status, _, errors = headcount(*analyze, "one")
    assert status == 0, errors
    for process in ranks("-c", STREAMING, tmp_path, *analyze, last=["0", "1"]):
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    tables = {path.name for path in Path("one").glob("*.parquet")}
    assert {"heads.parquet", "profiles.parquet"} <= tables
    for name in tables:
        alone, shared = (pd.read_parquet(Path(out) / name) for out in ("one", "0"))
        pd.testing.assert_frame_equal(alone, shared, rtol=0, atol=0)
    assert Path("one", "examples.json").read_text() == Path("0", "examples.json").read_text()
    states = [{each.name for each in Path(out, "state").glob("*")} for out in ("0", "1")]
    assert states[0] and states[1] and not states[0] & states[1], "each did units of its own"
    records = [json.loads(Path(out, "run.json").read_text()) for out in ("one", "0")]
    assert records[0]["signature"] == records[1]["signature"]
    assert records[0]["counts"] == records[1]["counts"]
