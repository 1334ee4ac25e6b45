"""The claims of `reproduce kovaleva2019` follow from its numbers."""

import pytest

from headcount.reproduce.kovaleva2019 import kovaleva2019_document
from headcount.results import TunedMaps, TunedRecord, TunedRow

RECORD = TunedRecord(
    signature="headcount:0",
    model="bert",
    tuned="tuned",
    data=("dev.tsv",),
    examples=99,
    metric="accuracy",
    score=0.9,
    classifier_accuracy=0.9,
)


@pytest.mark.parametrize(("better", "holds"), [(0, False), (1, False), (3, False), (6, True)])
def test_disabled_heads_help_if_more_do_than_by_chance(better: int, holds: bool) -> None:
    """Of 80 intervals of heads without an effect 2 lie on the better side."""
    rows = [
        TunedRow("encoder.self", 0, f"enc.0.{n}", "disabled", "", value, value - 0.01, high, 99)
        for n in range(80)
        for value, high in [(-0.02, -0.01) if n < better else (0.01, 0.02)]
    ]
    text = kovaleva2019_document(TunedMaps(tuple(rows), RECORD))
    (line,) = (line for line in text.splitlines() if "raises the score" in line)
    assert ("**holds**" in line) == holds
    assert f"intervals above 0: {better}, of which chance explains 2.0" in line
