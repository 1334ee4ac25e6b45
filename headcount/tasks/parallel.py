"""Reading parallel text: a table with two columns, or two text files with one example per line."""

from collections.abc import Mapping
from pathlib import Path

from headcount.corpora.parallel import read_pair
from headcount.errors import CorpusError
from headcount.tasks.hub import HUB
from headcount.tasks.reading import read_data
from headcount.tasks.table import Columns, Data, Roles, Table

TABLES = (".tsv", ".csv", ".jsonl")


def read_parallel(data: Data, columns: Columns | None, roles: Roles) -> Table:
    """The table with the columns `source` and `target`.

    Raises:
        CorpusError: as in `read_data`; or if two text files differ in their numbers of lines.
    """
    if columns or isinstance(data, Mapping | str | Path) or len(data) != 2:
        return read_data(data, columns, roles)
    if any(str(file).startswith(HUB) or Path(file).suffix in TABLES for file in data):
        return read_data(data, columns, roles)
    pairs = list(read_pair(Path(data[0]), Path(data[1])))
    if not pairs:
        raise CorpusError(f"{data[0]}: expected at least one example, got none")
    sides = {"source": [pair.text for pair in pairs], "target": [str(p.target) for p in pairs]}
    return Table(sides, [pair.origin for pair in pairs])
