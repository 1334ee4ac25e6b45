"""The claims of `reproduce kobayashi2020` follow from the ends of intervals."""

import pytest

from headcount.papers import ContributionRecord, ContributionRow, ContributionTable
from headcount.papers.reproduce.kobayashi2020 import kobayashi2020_document

RECORD = ContributionRecord(
    signature="headcount:0", model="bert", corpora=("a.txt",), sentences=90, heads=6
)


def document(*numbers: tuple[str, str, float], width: float = 0.02) -> str:
    """The document of numbers that are means over layers: metric, kind and value."""
    rows = (
        ContributionRow("encoder.self", -1, metric, kind, each, each - width, each + width, 99)
        for metric, kind, each in numbers
    )
    return kobayashi2020_document(ContributionTable(RECORD, tuple(rows))).markdown()


def verdict(text: str, claim: str) -> bool:
    (line,) = (line for line in text.splitlines() if claim in line)
    return ": holds (" in line


@pytest.mark.parametrize(("norm", "holds"), [(0.3, True), (0.37, False), (0.5, False)])
def test_special_tokens_contribute_less_by_norms_if_intervals_do_not_meet(
    norm: float, holds: bool
) -> None:
    text = document(("weight_share", "first", 0.4), ("weighted_norm_share", "first", norm))
    assert verdict(text, "contribute less by norms than by weights") == holds
    assert f"weights 40.0 (38.0 to 42.0) %, norms {100 * norm:.1f} (" in text


@pytest.mark.parametrize(("rho", "holds"), [(0.1, True), (0.01, False), (-0.2, False)])
def test_frequent_tokens_have_small_norms(rho: float, holds: bool) -> None:
    assert verdict(document(("by_rank", "norm", rho)), "frequent tokens have small norms") == holds


@pytest.mark.parametrize(
    ("without", "beside", "holds"),
    [(0.8, 0.3, True), (0.8, 0.49, False), (0.8, 0.6, False), (0.32, 0.3, False)],
)
def test_a_token_itself_contributes_more_with_the_residual(
    without: float, beside: float, holds: bool
) -> None:
    text = document(("mixing", "attn-n", without), ("mixing", "attnres-n", beside))
    assert verdict(text, "a token itself contributes more than its context") == holds


def test_mixing_ratios_stand_beside_the_published_ones() -> None:
    text = document(("mixing", "attn-w", 0.9), ("mixing", "attnresln-n", 0.2))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["weights", "96.41", "90.00 (88.00 to 92.00)"] in rows
    last = ["norms, with residual and LayerNorm", "18.75", "20.00 (18.00 to 22.00)"]
    assert last in rows and ["norms", "85.28", "–"] in rows
