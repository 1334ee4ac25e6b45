"""Where two models keep heads: counts and correlations by hand, no head paired with another."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from headcount.compare import compare, comparison_document, pruning_orders, write_comparison
from headcount.core import Head
from headcount.results import (
    ALL,
    RANDOM,
    Analysis,
    Curve,
    CurvePoint,
    CurvePoints,
    CurveRecord,
    HeadRow,
    read_run,
)
from tests.pages.changed import changed
from tests.pages.run_folder import Wish, write_run


def told(one: Analysis, other: Analysis, names: tuple[str, str]) -> str:
    """The document as Markdown."""
    return comparison_document(one, other, compare(one, other), names).markdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """A run over 4 layers x 5 heads at two sites."""
    wish = Wish(sites=("encoder.self", "decoder.cross"), layers=4, heads=5, importance=True)
    return read_run(write_run(tmp_path_factory.mktemp("run"), wish))


def scored(run: Analysis, score: Callable[[HeadRow], float]) -> Analysis:
    """The run with another gradient, and no other score."""
    heads = tuple(
        replace(row, values={"confidence": 0.5, "gradient": score(row)}) for row in run.rows
    )
    return changed(run, rows=heads)


def test_heads_are_counted_by_site_at_each_budget(run: Analysis) -> None:
    one = scored(run, lambda row: (row.site == "decoder.cross") + 0.1 * row.layer)
    other = scored(run, lambda row: 4 - row.layer + 0.1 * (row.site == "encoder.self"))
    (order,) = pruning_orders(one, other)
    assert order.name == "gradient"
    half = next(each for each in order.budgets if each.share == 0.5)
    assert half.kept[0] == {"encoder.self": 0, "decoder.cross": 20}
    assert half.kept[1] == {"encoder.self": 10, "decoder.cross": 10}
    kept = [[0] * 4 + [1] * 4, [1, 1, 0, 0] * 2]
    assert (
        half.cells.rho == pytest.approx(spearmanr(kept[0], kept[1])[0])
        and half.cells.num_heads == 8
    )
    assert [each.share for each in order.budgets] == [0.9, 0.75, 0.5, 0.25, 0.1]
    assert sum(order.budgets[-1].kept[0].values()) == 4


def test_shares_and_means_of_importance(run: Analysis) -> None:
    one = scored(run, lambda row: 3.0 if row.site == "decoder.cross" else 1.0 + row.layer)
    other = scored(run, lambda row: -5.0 if row.site == "decoder.cross" else 1.0 + 2 * row.layer)
    (order,) = pruning_orders(one, other)
    assert order.importance["decoder.cross"] == (pytest.approx(60 / 110), 0)
    assert order.importance["encoder.self"] == (pytest.approx(50 / 110), 1)
    means = [[1, 2, 3, 4, 3, 3, 3, 3], [1, 3, 5, 7, -5, -5, -5, -5]]
    assert order.cells is not None
    assert order.cells.rho == pytest.approx(spearmanr(means[0], means[1])[0])


def test_heads_in_another_order_and_more_of_them_change_nothing(run: Analysis) -> None:
    one = scored(run, lambda row: (row.site == "decoder.cross") + 0.1 * row.layer)
    other = scored(run, lambda row: (row.site == "decoder.cross") + 0.1 * row.layer)
    more = tuple(
        replace(row, head=f"{row.head[:-1]}{row.index + 5}", index=row.index + 5)
        for row in one.rows
    )
    larger = changed(other, rows=(*other.rows, *more))
    found = compare(one, larger)
    assert not found.is_paired
    (order,) = found.orders
    for each in order.budgets[1:]:
        assert each.cells.rho == pytest.approx(1, abs=0.05)
        assert list(each.kept[1].values()) == [2 * number for number in each.kept[0].values()]
    text = told(one, larger, ("a", "b"))
    assert "50 %" in text.replace("\u202f", " ") and "0, 20" in text and "0, 40" in text


def test_scores_that_only_one_run_has_order_nothing(run: Analysis) -> None:
    one = scored(run, lambda row: float(row.index))
    bare = changed(one, rows=tuple(replace(row, values={"confidence": 0.5}) for row in one.rows))
    missing = scored(run, lambda row: np.nan if row.index == 2 else 1.0)
    assert pruning_orders(one, bare) == pruning_orders(one, missing) == ()


def test_curves_are_compared_at_budgets_that_both_have(run: Analysis) -> None:
    names = [row.head for row in run.rows]

    def point(method: str, heads: list[str], seed: int = 1, is_control: bool = False) -> CurvePoint:
        kept = tuple(map(Head.parse, heads))
        return CurvePoint(
            method=method,
            seed=seed,
            keep=len(kept),
            is_control=is_control,
            kept={},
            numbers={},
            heads=kept,
        )

    def with_curve(*points: CurvePoint) -> Analysis:
        record = CurveRecord.__new__(CurveRecord)
        curve = CurvePoints((point(ALL, names), *points))
        return replace(scored(run, lambda row: np.nan), curve=Curve(record, curve))

    one = with_curve(
        point("l0", names[30:], is_control=True),
        point("l0", names[:10]),
        point("l0", names[:5]),
        point(RANDOM, names[:10]),
        point("fisher", names[:10]),
    )
    other = with_curve(
        point("l0", names[15:25]), point("l0", names[:30]), point(RANDOM, names[:10])
    )
    (order,) = pruning_orders(one, other)
    assert (order.name, order.cells, len(order.budgets)) == ("curve, l0", None, 1)
    assert order.budgets[0].kept == (
        {"encoder.self": 10, "decoder.cross": 0},
        {"encoder.self": 5, "decoder.cross": 5},
    )
    assert order.budgets[0].share == 0.25


@pytest.mark.slow
def test_the_page_shows_the_order(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / name, Wish(layers=2, heads=5, importance=True, seed=seed))
        for name, seed in (("one", 1), ("other", 2))
    ]
    found = write_comparison(folders[0], folders[1], tmp_path / "out")
    assert [order.name for order in found.orders] == ["ablation_delta", "gradient", "relevance"]
    for name in ("comparison.md", "comparison.html"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "Order of pruning" in text and "Share of the total importance: encoder" in text
