"""Figures of a curve: nothing is cut off, for any number of methods."""

import pytest

from headcount.core import Heads, styled
from headcount.pages.curves import curve_charts
from headcount.pruning import METHODS
from headcount.results import ALL, CurvePoint, CurvePoints
from headcount.vocabulary import ROLES
from tests.pages.drawn import assert_whole

HEADS = Heads({site: (8,) * 6 for site in ("encoder.self", "decoder.self", "decoder.cross")})


def point(method: str, keep: int, is_control: bool = False) -> CurvePoint:
    return CurvePoint(
        method=method,
        seed=0,
        keep=keep,
        is_control=is_control,
        kept=dict.fromkeys(HEADS.counts, keep // 3),
        numbers={"loss": 1 + 9 / keep, "score": keep / 3},
        heads=tuple(HEADS)[:: len(HEADS) // keep][:keep],
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, len(METHODS.own)])
def test_nothing_is_cut_off(count: int) -> None:
    methods = list(METHODS)[:count]
    points = [point(method, keep) for method in methods for keep in (36, 12)]
    points += [point(method, 144, is_control=True) for method in methods[-3:]]
    roles = {str(head): [list(ROLES)[i % len(ROLES)]] for i, head in enumerate(HEADS)}
    charts = curve_charts(CurvePoints((point(ALL, 144), *points)), HEADS, "bleu", roles)
    for chart in charts:
        with styled():
            figure = chart.figure
            assert (figure is None) == ("test" in chart.name)
            if figure is not None:
                assert_whole(figure, chart.name)
