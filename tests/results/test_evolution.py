"""Evolution: what is written is read again, and a file of another run is refused."""

import math
from pathlib import Path

import pytest

from headcount.core import InputError
from headcount.results import (
    Evolution,
    EvolutionPoint,
    EvolutionRecord,
    EvolutionRow,
    StoreFacts,
)

RECORD = EvolutionRecord(
    signature="headcount:1|model:bert",
    models=("a", "b"),
    corpora=("c.txt",),
    stores=(StoreFacts("a", "masked-lm", 1, "text", 5, 7, 35, 1234),),
    clusters=6,
    peak_bytes=1234,
    warnings=("one",),
    timings={"a: information": 1.5},
)
ROWS = (
    EvolutionRow("a", "masked-lm", 1, 0, "mi", "input", 1.25, cases=35),
    EvolutionRow("b", "masked-lm", 2, 0, "mi", "input", 1.5, 1.25, 1.75, 35),
    EvolutionRow("b", "masked-lm", 2, 1, "mi", "output", 0.5, cases=35),
)
POINTS = (EvolutionPoint("a", "masked-lm", 1, 2, "is", 3, 0.5, -1.5),)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    Evolution(RECORD, ROWS, POINTS).write(tmp_path)
    found = Evolution.read(tmp_path)
    assert found.record == RECORD and found.points == POINTS
    assert found.rows[1:2] == ROWS[1:2] and math.isnan(found.rows[0].low)
    assert found.curves("mi", "input") == {"masked-lm": {0: [1.25, 1.5]}}
    assert [row.label for row in found.select(layer=1)] == ["masked-lm-2"]
    assert list(found.frame.columns) == (
        "model objective seed layer quantity against value low high cases".split()
    )


def test_a_table_of_another_run_is_refused(tmp_path: Path) -> None:
    Evolution(RECORD, ROWS[:1], ()).write(tmp_path / "other")
    Evolution(RECORD, ROWS, ()).write(tmp_path)
    (tmp_path / "other" / "evolution.parquet").rename(tmp_path / "evolution.parquet")
    with pytest.raises(InputError, match="evolution.parquet"):
        Evolution.read(tmp_path)
