"""Queries and the passages that answer them: tables, or the folders of BEIR.

A row of a table is a query and a passage that answers it, maybe with a passage that does not
(`negative`) and a grade. A row without a query is a passage that is searched, too. BEIR's folders
hold `corpus.jsonl`, `queries.jsonl` and judgements in `qrels/*.tsv`; the data are one of these.
Reference: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset
"""

from pathlib import Path

from headcount.core import CorpusError
from headcount.corpora.held import is_held, named_files
from headcount.corpora.reading import read_data
from headcount.corpora.table import Column, Columns, ColumnSpec, Data, Table

QUERY, PASSAGE, NEGATIVE, GRADE = "query", "passage", "negative", "grade"
"""Columns of the data."""

_TEXT = {"_id": Column(("_id",)), "text": Column(("text",))}
_PASSAGE = _TEXT | {"title": Column(("title",), needed=False, may_be_empty=True)}
_QRELS = {
    "query": Column(("query-id",)),
    "passage": Column(("corpus-id",)),
    "score": Column(("score",)),
}


def read_search(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table of queries and passages.

    Args:
        data: tables, one file `FOLDER/qrels/NAME.tsv` of a folder of BEIR's form, or columns in
            memory.
        columns: the task's name of a column, mapped to its name or number in a table.
        roles: the columns that the task reads.

    Raises:
        CorpusError: for data that can't be read, or judgements of a query or passage that is not
            there.
    """
    places = [] if is_held(data) else list(map(Path, named_files(data)))
    if len(places) == 1 and is_beir(places[0]):
        return _of_beir(places[0])
    return read_data(data, columns, roles)


def is_beir(place: Path) -> bool:
    """Whether a file holds the judgements of a folder of BEIR's form."""
    return place.parent.name == "qrels" and (place.parent.parent / "corpus.jsonl").is_file()


def check_names_judgements(place: Path) -> None:
    """Check that the judgements are named, and not BEIR's folder itself.

    Raises:
        CorpusError: For such a folder; names its judgements.
    """
    if place.is_dir() and (found := sorted(map(str, place.glob("qrels/*.tsv")))):
        raise CorpusError(
            f"Expected the judgements in the folder {place}, got the folder. Name "
            f"{' or '.join(found)}."
        )


def _of_beir(qrels: Path) -> Table:
    """Every judgement above 0 as a row, then every other passage without a query."""
    folder = qrels.parent.parent
    passages, queries = read_data(folder / "corpus.jsonl", None, _PASSAGE), {}
    titles = passages.columns.get("title", [""] * len(passages))
    texts = {
        number: f"{title} {text}".strip()
        for number, title, text in zip(passages["_id"], titles, passages["text"], strict=True)
    }
    asked = read_data(folder / "queries.jsonl", None, _TEXT)
    queries = dict(zip(asked["_id"], asked["text"], strict=True))
    judged, rows = read_data(qrels, None, _QRELS), list[tuple[str, str, str, str]]()
    left = dict(texts)
    for number, row in enumerate(zip(*(judged[name] for name in _QRELS), strict=True)):
        query, passage, score = row
        origin = judged.origins[number]
        _check_known(query, queries, origin, "queries.jsonl")
        _check_known(passage, texts, origin, "corpus.jsonl")
        if float(score) > 0:
            rows.append((queries[query], texts[passage], score, origin))
            left.pop(passage, None)
    if not rows:
        raise CorpusError(f"{qrels}: expected a judgement above 0, got none")
    rows += [
        ("", text, "0", f"{folder / 'corpus.jsonl'}: {number}") for number, text in left.items()
    ]
    query, passage, grade, origins = map(list, zip(*rows, strict=True))
    return Table({QUERY: query, PASSAGE: passage, GRADE: grade}, origins)


def _check_known(number: str, known: dict[str, str], origin: str, file: str) -> None:
    if number not in known:
        raise CorpusError(
            f"{origin}: expected the id of a line of {file}, got {number!r}. Add the line, or "
            "remove the judgement."
        )
