"""The claims of `reproduce kovaleva2019` follow from its numbers."""

import pytest

from headcount.papers import TunedMaps, TunedRecord, TunedRow
from headcount.papers.reproduce.kovaleva2019 import kovaleva2019_document

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
    text = kovaleva2019_document(TunedMaps(RECORD, tuple(rows))).markdown()
    (line,) = (line for line in text.splitlines() if "raises the score" in line)
    assert (": holds (" in line) == holds
    assert f"intervals above 0: {better}, where chance expects 2.0" in line


def test_gains_within_noise_prove_nothing() -> None:
    """Half of the heads seem to help, but every interval holds 0."""
    rows = [row(0, f"enc.0.{n}", "disabled", -0.01 if n < 40 else 0.01) for n in range(80)]
    text = kovaleva2019_document(TunedMaps(RECORD, tuple(rows))).markdown()
    assert not holds(text, "raises the score") and "40 of 80 heads" in text


def row(layer: int, head: str, metric: str, value: float, kind: str = "") -> TunedRow:
    low, high = value - 0.03, value + 0.03
    return TunedRow("encoder.self", layer, head, metric, kind, value, low, high, 99)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def holds(text: str, claim: str) -> bool:
    (line,) = (line for line in text.splitlines() if claim in line)
    return ": holds (" in line


HEADS = (row(0, "enc.0.0", "disabled", 0.02), row(0, "enc.0.1", "disabled", -0.04))


@pytest.mark.parametrize(("mixed", "claimed"), [(0.31, False), (0.5, True), (0.62, False)])
def test_shares_of_patterns(mixed: float, claimed: bool) -> None:
    """Before fine-tuning, after it, and by the classifier."""
    shares = {"before": 0.2, "after": mixed, "trained": 0.7}
    rows = [row(-1, "all", name, each, "heterogeneous") for name, each in shares.items()]
    text = kovaleva2019_document(TunedMaps(RECORD, (*rows, *HEADS))).markdown()
    assert holds(text, "32 to 61 % of the maps are heterogeneous") == claimed
    (found,) = [line for line in cells(text) if line[1:2] == ["heterogeneous"]]
    assert [each.partition(" (")[0] for each in found[2:]] == [
        "32 to 61",
        "20.0",
        f"{100 * mixed:.1f}",
        "70.0",
    ]


@pytest.mark.parametrize(
    ("cosines", "claimed"), [((0.9, 0.8, 0.4), True), ((0.4, 0.8, 0.9), False)]
)
def test_the_last_layers_change_most(cosines: tuple[float, ...], claimed: bool) -> None:
    rows = [row(layer, "all", "cosine", each) for layer, each in enumerate(cosines)]
    heads = [
        row(layer, f"enc.{layer}.{n}", "cosine", each + 0.05 * (n - 1))
        for layer, each in enumerate(cosines)
        for n in range(3)
    ]
    text = kovaleva2019_document(TunedMaps(RECORD, (*rows, *heads, *HEADS))).markdown()
    assert holds(text, "the last two layers change most") == claimed
    value = f"{cosines[0]:.2f} ({cosines[0] - 0.03:.2f} to {cosines[0] + 0.03:.2f})"
    ends = [f"enc.0.0 {cosines[0] - 0.05:.2f}", f"enc.0.2 {cosines[0] + 0.05:.2f}"]
    assert ["enc.0", value, *ends] in cells(text)


def test_the_gain_without_a_head_is_positive() -> None:
    text = kovaleva2019_document(TunedMaps(RECORD, HEADS)).markdown()
    assert "1 of 2 heads, most enc.0.1: +4.00, uncorrected 95 % interval +1.00 to +7.00" in text
