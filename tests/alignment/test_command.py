"""`headcount align` from files to a table."""

from pathlib import Path

import pandas as pd
import pytest

from headcount.alignment import Alignment
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
def test_a_table_and_a_record(marian: Path, tmp_path: Path) -> None:
    pairs, gold, out = tmp_path / "pairs.tsv", tmp_path / "gold", tmp_path / "out"
    pairs.write_text("A dog barked.\tEin Hund bellte.\nHe sleeps.\tEr bellte.\n")
    gold.write_text("0-0 1-1 2-2 3-3\n0-0 1p1\n")
    options = ("--gold", gold, "--split-punctuation", "--out", out)
    status, output, errors = headcount("align", marian, pairs, *options)
    assert status == 0, errors
    assert "2 pairs with 5 sure and 6 possible links" in output
    table = pd.read_parquet(out / "alignment.parquet")
    assert set(table["direction"]) == {"output", "input"}
    assert (out / "figures" / "alignment.svg").exists()
    record = Alignment.read(out).record
    assert record.signature in (out / "alignment.md").read_text(encoding="utf-8")
    assert record.arguments["gold"].endswith("gold")
    assert record.signature[:40] in output
    status, _, errors = headcount("align", marian, pairs, *options)
    assert status == 2 and "Give --overwrite to replace it" in errors


def test_bad_input_is_a_sentence(marian: Path, tmp_path: Path) -> None:
    pairs, gold = tmp_path / "pairs.tsv", tmp_path / "gold"
    pairs.write_text("A dog barked.\tEin Hund bellte.\n")
    gold.write_text("0-7\n")
    status, _, errors = headcount("align", marian, pairs, "--gold", gold, "--out", tmp_path / "a")
    assert status == 2 and f"{gold}:1: the link 0-7 (counted from 0) is out of range" in errors
    status, _, errors = headcount(
        "align", marian, pairs, "--gold", tmp_path / "none", "--out", tmp_path / "b"
    )
    assert status == 2 and "does not exist. Check the path." in errors
