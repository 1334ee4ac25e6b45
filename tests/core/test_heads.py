"""Names, the grid, and the table of heads."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.core import SITES, Head, Heads, HeadTable, InputError

HEADS = Heads({"decoder.cross": (2,), "encoder.self": (3, 1)})
"""Sites in the wrong order, layers with different numbers of heads."""
NAMES = ["enc.0.0", "enc.0.1", "enc.0.2", "enc.1.0", "cross.0.0", "cross.0.1"]


@given(st.sampled_from(sorted(SITES)), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_name_and_its_head(site: str, layer: int, index: int):
    head = Head(site, layer, index)
    assert Head.parse(str(head)) == head
    assert str(head) == f"{SITES[site]}.{layer}.{index}"


@pytest.mark.parametrize(
    "name",
    ["", "enc", "enc.1", "enc.1.2.3", "encoder.1.2", "enc.-1.2", "enc.a.2", "Enc.1.2", "enc.1.2 "],
)
def test_what_is_no_name_of_a_head(name: str):
    with pytest.raises(InputError) as refusal:
        Head.parse(name)
    assert str(refusal.value) == (
        "Expected a head such as enc.3.7, dec.0.1, cross.5.0 or vision.2.4 (site, layer, index), "
        f"got {name!r}."
    )


@given(st.sampled_from(sorted(SITES)), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_head_of_the_only_site_by_its_layer_and_index(site: str, layer: int, index: int):
    name, head = f"L{layer}H{index}", Head(site, layer, index)
    heads = Heads({site: (3,)})
    assert heads.named(name) == heads.named(str(head)) == head
    table = HeadTable.of(Heads({site: (2, 2)}), {})
    assert str(table.row("L1H0")["head"]) == str(Head(site, 1, 0))


@pytest.mark.parametrize("name", ["L3H", "L-1H2", "l3h2", "L3H2 ", "L٣H2", "dec.L3H2", None])
def test_what_names_no_head_without_its_site(name: object):
    with pytest.raises(InputError, match="Expected a head such as"):
        Heads({"decoder.self": (3,)}).named(name)


def test_of_several_sites_one_is_named():
    with pytest.raises(
        InputError, match=r"Expected one of cross\.1\.2, enc\.1\.2, got L1H2\. Name"
    ):
        HEADS.named("L1H2")


def test_heads_come_by_site_layer_and_index():
    assert [str(head) for head in HEADS] == NAMES
    assert len(HEADS) == 6
    assert all(head in HEADS for head in HEADS)
    for name in ("enc.0.3", "enc.1.1", "enc.2.0", "dec.0.0", "cross.1.0"):
        assert Head.parse(name) not in HEADS


def test_a_grid_in_words():
    assert str(HEADS) == "decoder.cross 1 layer x 2 heads, encoder.self 2 layers x 3/1 heads"
    assert str(Heads({"encoder.self": (5, 5)})) == "encoder.self 2 layers x 5 heads"


def _table() -> HeadTable:
    return HeadTable.of(HEADS, {"confidence": [0.1, 0.2, 0.3, 0.4, 0.5, np.nan], "count": range(6)})


def test_a_table_has_one_row_per_head_in_order():
    frame = _table().frame
    assert [*frame.columns] == ["head", "site", "layer", "index", "confidence", "count"]
    assert [*frame["head"]] == NAMES
    assert [*frame["layer"]] == [0, 0, 0, 1, 0, 0] and [*frame["index"]] == [0, 1, 2, 0, 0, 1]
    assert {*frame["site"]} == {"encoder.self", "decoder.cross"}


def test_a_row_by_name_and_by_head():
    table = _table()
    assert table.row("enc.1.0").to_dict()["confidence"] == 0.4
    assert table.row(Head("decoder.cross", 0, 0)).to_dict()["count"] == 4
    with pytest.raises(
        InputError, match="Expected a head of this table .enc.0.0 to cross.0.1., got dec.0.0"
    ):
        table.row("dec.0.0")


def test_a_grid_of_one_column():
    grid = _table().grid("encoder.self", "confidence")
    np.testing.assert_array_equal(grid, [[0.1, 0.2, 0.3], [0.4, np.nan, np.nan]])
    np.testing.assert_array_equal(_table().grid("decoder.cross", "count"), [[4, 5]])


def test_a_file_gives_the_table_back(tmp_path: Path):
    table = _table()
    table.write(tmp_path / "deep" / "heads.parquet")
    again = HeadTable.read(tmp_path / "deep" / "heads.parquet")
    pd.testing.assert_frame_equal(again.frame, table.frame)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["heads.parquet"]


def test_a_table_is_shown_by_its_heads_and_first_columns():
    assert repr(_table()) == "HeadTable(6 heads: confidence, count)"
    assert repr(HeadTable.of(HEADS, {})) == "HeadTable(6 heads: no numbers)"
    assert repr(HeadTable.of(HEADS, {each: range(6) for each in "abcdef"})).endswith("d, e, ...)")
