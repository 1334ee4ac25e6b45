"""Figures of a curve: nothing is cut off, for any number of methods."""

import pytest

from headcount.core import Heads, styled
from headcount.pruning import METHODS
from headcount.reports.figures.curves import curve_figures
from headcount.reports.role_names import KNOWN
from headcount.results import ALL, CONTROL, CurvePoint, CurvePoints
from tests.reports.drawn import assert_whole

HEADS = Heads({site: (8,) * 6 for site in ("encoder.self", "decoder.self", "decoder.cross")})
NAMES = list(map(str, HEADS))


def point(method: str, keep: int) -> CurvePoint:
    left = NAMES[:: len(NAMES) // keep][:keep]
    kept = {f"kept_{site}": float(keep // 3) for site in HEADS.counts}
    return CurvePoint(
        method, 0, keep, {"loss": 1 + 9 / keep, "score": keep / 3} | kept, tuple(left)
    )


@pytest.mark.parametrize("count", [1, 2, len(METHODS)])
def test_nothing_is_cut_off(count: int) -> None:
    methods = list(METHODS)[:count]
    points = [point(method, keep) for method in methods for keep in (36, 12)]
    points += [point(CONTROL + method, 144) for method in methods[-3:]]
    roles = {name: [list(KNOWN)[i % len(KNOWN)]] for i, name in enumerate(NAMES)}
    figures = curve_figures(CurvePoints((point(ALL, 144), *points)), HEADS, "bleu", roles)
    for name, draw in figures.items():
        with styled():
            assert_whole(draw(), name)
