"""What somebody who decides reads first: smaller, faster, as good, checked, and how to load it."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcount import artifact
from headcount.artifact.verdict import finding, is_measured, load_it, verdict_lines
from headcount.core import DATA
from headcount.pages import document_page
from headcount.results import (
    Comparison,
    DataSetChange,
    MetricChange,
    PruneRecord,
    SizeRecord,
    SpeedCase,
    SpeedRecord,
    Speedup,
)

LOSS = MetricChange("loss", False, 1.0, 1.1, 0.1, 0.0, 0.2, 0.05)


def score(low: float, high: float) -> DataSetChange:
    """An nDCG of 0.5 with the interval of its drop."""
    middle = (low + high) / 2
    return DataSetChange(
        800, MetricChange("ndcg@10", True, 0.5, 0.5 - middle, middle, low, high, 0.5), LOSS
    )


def compared(what: str, share: float) -> Comparison:
    return Comparison(what, share, 1.0, share, 1e-5, "float32", ("dev.tsv",), None, 300, 9)


MEASURED = PruneRecord(
    model="encoder",
    heads={"encoder.self": (2, 3)},
    kept=("enc.0.0", "enc.0.1", "enc.1.1"),
    pruned=("enc.1.0", "enc.1.2"),
    auto_class="AutoModel",
    arguments={"on": {"task": "search"}},
    data_sets={"test": score(-0.011, 0.004)},
    comparisons=(
        compared("compact and gated", 0.0),
        compared("reloaded and gated", 1e-7),
        compared("ONNX and reloaded", 3e-6),
    ),
    size=SizeRecord("float32", 90_900_000, 73_200_000),
    speed=SpeedRecord((SpeedCase("forward", 32, 128, 0, Speedup(1.28, 1.17, 1.39), 1.4),), (), {}),
)


def test_the_first_screen() -> None:
    """The numbers of a model whose every one is known."""
    words = dict(verdict_lines(MEASURED))
    assert words == {
        "Smaller": "90.9 → 73.2 MB of weights in float32, 19\u202f% less",
        "Faster": "1.28 times as fast (95\u202f%: 1.17 to 1.39), one forward pass at batch 32, 128 "
        "tokens",
        "As good": "nDCG@10 0.500 → 0.503 (+0.0035; 95\u202f%: −0.0040 to +0.011), on 800 "
        "held-out test examples",
        "Checked": "certificate: gated = compact = reloaded = ONNX to 3e-06 of the largest output, "
        "on 300 examples",
    }
    page = document_page(artifact.head_card(MEASURED), record=MEASURED)
    places = [page.index(f"<dt>{word}</dt>") for word in words]
    places.append(page.index("Load it with sentence-transformers"))
    assert places == sorted(places) and places[-1] < page.index("Before and after")
    assert f"<h1>{finding(MEASURED)}</h1>".replace("\u202f%", "") in page.replace("\u202f%", "")
    assert page.index("Before and after") < page.index("Pruned heads")


@pytest.mark.parametrize(
    ("low", "high", "word", "end"),
    [
        (-0.011, 0.004, "As good", ", and as good within 1\u202f%."),
        (-0.011, 0.005, "As good", ", and as good within 1\u202f%."),
        (-0.011, 0.0051, "No loss found", ", and no loss was found."),
        (0.001, 0.004, "Worse", ", but worse."),
        (-0.004, -0.001, "Better", ", and better."),
        (float("nan"), float("nan"), "Score", "."),
    ],
)
def test_as_good_needs_an_interval(low: float, high: float, word: str, end: str) -> None:
    """A model is as good only if its interval excludes a drop of 1 % of the dense score, 0.005."""
    record = replace(MEASURED, data_sets={"test": score(low, high)})
    assert word in dict(verdict_lines(record))
    assert finding(record) == f"The pruned model is 19\u202f% smaller and 1.28 times as fast{end}"


def test_what_was_not_measured() -> None:
    """Nothing is claimed of it, and the page of an analysis does not begin with it."""
    assert is_measured(MEASURED)
    for lacking in ({"size": None}, {"speed": None}, {"data_sets": {}}, {"comparisons": ()}):
        assert not is_measured(replace(MEASURED, **lacking)), lacking
    bare = replace(MEASURED, size=None, speed=None, data_sets={}, comparisons=())
    assert finding(bare) == "The pruned model keeps 3 of 5 heads."
    assert not is_measured(PruneRecord.read(Path(DATA) / "en-de-36")), "the demo: heads first"


def test_lines_to_load_it() -> None:
    """Three lines for each package that loads the folder, and none for those that can't."""
    labels = [each.label.removeprefix("Load it with ").split()[0] for each in load_it(MEASURED)]
    assert labels == ["sentence-transformers", "transformers", "ONNX"]
    for each in load_it(MEASURED):
        assert len(each.text.splitlines()) == 3
        compile(each.text, each.label, "exec")
    plain = replace(MEASURED, plain=True, comparisons=MEASURED.comparisons[:2])
    assert [each.text for each in load_it(plain) if "trust" in each.text] == []
    assert len(load_it(plain)) == 2
    picture = replace(plain, arguments={"on": {"task": "image-classification"}})
    (one,) = load_it(picture)
    assert "AutoImageProcessor.from_pretrained(folder)" in one.text
    assert artifact.loading(replace(picture, arguments={})) == ("AutoModel.from_pretrained(folder)")


def test_a_cell_a_layer() -> None:
    """The pruned heads of each layer stand in a cell of their own."""
    card = artifact.head_card(MEASURED).markdown()
    (row,) = (line for line in card.splitlines() if line.startswith("| encoder.self"))
    cells = [each.strip() for each in row.strip("|").split("|")]
    assert cells == ["encoder.self", "1", "1 of 3", "enc.1.0, enc.1.2"]
