"""Tables: one row per head, in order; NaN if nothing could be measured."""

import pytest
import torch

from headcount.analysis.profiles import RelationNames
from headcount.analysis.tables import head_table, offset_table, relation_table
from headcount.core import Heads, LayerId
from headcount.measures import Norms, Positional, Sums, Syntactic
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import Totals
from tests.measures.cases import NUM_HEADS, RELATIONS, attend, batches

COLUMNS = (
    "head site layer index confidence entropy positional_offset positional_share "
    "attn_self attn_prev attn_next attn_first attn_sep attn_punct rare_share rare2_share "
    "rare_cases value_norm norm_first norm_sep norm_punct pattern_vertical pattern_diagonal "
    "pattern_vertical_diagonal pattern_block pattern_heterogeneous"
).split()
HEADS = Heads({"decoder.cross": (NUM_HEADS,), "encoder.self": (NUM_HEADS, NUM_HEADS)})
PLACES: dict[LayerId, tuple[str, int]] = {
    LayerId("decoder.cross", 0): ("cross", 0),
    LayerId("encoder.self", 1): ("self", 3),
    LayerId("encoder.self", 0): ("self", 0),
}


def _totals(measures: tuple[type[Sums], ...] = MEASURES) -> Totals:
    """Layers may come in any order."""
    sums = {}
    for place, (name, number) in PLACES.items():
        attention = attend(batches(name)[number])
        for measure in measures:
            if measure.applies(attention):
                sums[measure, place] = measure.of(attention)
    return Totals(sums, 1, 3)


def test_one_row_per_head_with_all_columns_in_order():
    totals = _totals()
    frame = head_table(HEADS, totals, MEASURES).frame
    assert [*frame.columns] == COLUMNS
    assert [*frame["head"]] == [
        f"{site}.{layer}.{index}"
        for site, layer in (("enc", 0), ("enc", 1), ("cross", 0))
        for index in range(NUM_HEADS)
    ]
    for number, place in enumerate(
        [LayerId("encoder.self", 0), LayerId("encoder.self", 1), LayerId("decoder.cross", 0)]
    ):
        rows = frame.iloc[number * NUM_HEADS : (number + 1) * NUM_HEADS]
        for measure in MEASURES:
            if (measure, place) in totals.sums:
                for name, numbers in totals.sums[measure, place].value().items():
                    assert rows[name].to_numpy(float) == pytest.approx(numbers.numpy(), nan_ok=True)


def test_counts_and_offsets_are_whole_numbers():
    frame = head_table(HEADS, _totals(), MEASURES).frame
    assert str(frame["positional_offset"].dtype) == str(frame["rare_cases"].dtype) == "Int64"


def test_not_a_number_where_a_measure_did_not_apply():
    totals = _totals()
    gone = {
        key: sums for key, sums in totals.sums.items() if key != (Norms, LayerId("encoder.self", 1))
    }
    gone = {
        key: sums for key, sums in gone.items() if key != (Positional, LayerId("decoder.cross", 0))
    }
    frame = head_table(HEADS, Totals(gone), MEASURES).frame
    layer = (frame["site"] == "encoder.self") & (frame["layer"] == 1)
    assert frame["value_norm"].isna().tolist() == layer.tolist()
    at_cross = (frame["site"] == "decoder.cross").tolist()
    assert frame["positional_offset"].isna().tolist() == at_cross


def test_some_measures_only():
    frame = head_table(HEADS, _totals((Norms,)), (Norms,)).frame
    assert [*frame.columns] == ["head", "site", "layer", "index", *Norms.names()]


def test_relations_of_the_layers_that_have_trees():
    totals = _totals()
    table = relation_table(HEADS, totals, RelationNames(RELATIONS))
    assert table is not None
    assert [*table.columns] == (
        "head relation direction accuracy correct cases baseline baseline_offset".split()
    )
    assert [*table["head"].unique()] == [f"enc.{layer}.{i}" for layer in (0, 1) for i in range(7)]
    sums = totals.sums[Syntactic, LayerId("encoder.self", 1)]
    assert isinstance(sums, Syntactic)
    expected = sums.table(RELATIONS)
    of_layer = table[table["head"].str.startswith("enc.1.")].reset_index(drop=True)
    assert [*of_layer["head"]] == [f"enc.1.{index}" for index in expected["index"]]
    for name in of_layer.columns[1:]:
        assert of_layer[name].tolist() == expected[name].tolist(), name


def test_no_relations_without_trees():
    kept = {key: sums for key, sums in _totals().sums.items() if key[0] is not Syntactic}
    assert relation_table(HEADS, Totals(kept), RelationNames(RELATIONS)) is None


def test_offsets_that_occur():
    offsets = torch.zeros(NUM_HEADS, 5, dtype=torch.long)
    offsets[0], offsets[3, 4] = torch.tensor([1, 0, 2, 0, 1]), 9
    totals = Totals({(Positional, LayerId("encoder.self", 1)): Positional(offsets)})
    table = offset_table(HEADS, totals)
    expected = [
        ("enc.1.0", -2, 0.25),
        ("enc.1.0", 0, 0.5),
        ("enc.1.0", 2, 0.25),
        ("enc.1.3", 2, 1.0),
    ]
    assert [*table.itertuples(index=False, name=None)] == expected
    whole = offset_table(HEADS, _totals())
    assert [*whole["head"].unique()] == [str(head) for head in HEADS]
    for head in HEADS:
        shares = whole["share"][whole["head"] == str(head)]
        assert sum(shares.tolist()) == pytest.approx(1)
