"""Evolution: what is written is read again, and a file of another run is refused."""

import math
from pathlib import Path

import pytest

from headcount.core import InputError
from headcount.results import (
    EVOLUTION_ROWS,
    Evolution,
    EvolutionPoint,
    EvolutionRecord,
    EvolutionRow,
    StoreFacts,
    read_evolution,
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
    Evolution(ROWS, POINTS, RECORD).write(tmp_path)
    found = read_evolution(tmp_path)
    assert found.record == RECORD and found.points == POINTS
    assert found.rows[1:2] == ROWS[1:2] and math.isnan(found.rows[0].low)
    assert found.curves("mi", "input") == {"masked-lm": {0: [1.25, 1.5]}}
    assert [row.label for row in found.select(layer=1)] == ["masked-lm-2"]
    assert list(found.frame().columns) == (
        "model objective seed layer quantity against value low high cases".split()
    )


def test_a_table_of_another_run_is_refused(tmp_path: Path) -> None:
    Evolution(ROWS[:1], (), RECORD).write(tmp_path / "other")
    Evolution(ROWS, (), RECORD).write(tmp_path)
    (tmp_path / "other" / EVOLUTION_ROWS).rename(tmp_path / EVOLUTION_ROWS)
    with pytest.raises(InputError, match=EVOLUTION_ROWS):
        read_evolution(tmp_path)
