"""Scores by name: the same numbers to show, to follow and to prune by."""

import numpy as np
import pytest

from headcount.importance import METHODS, READ_BY, SCORE_COLUMNS, SCORES, Options, assess, score_of
from headcount.pruning import METHOD_OPTIONS, RankingMethod, method
from headcount.results.importance import COLUMNS
from tests.pruning.context import context


@pytest.mark.parametrize("name", SCORES)
def test_what_is_shown_is_what_prunes(name: str) -> None:
    given = context("masked-bert")
    found = assess(given.loaded, given.sample, Options((name,)))  # type: ignore[arg-type]
    kind = SCORES[name]
    assert [*found.columns] == [kind.column] and kind.column in SCORE_COLUMNS
    chosen = method(name)
    assert isinstance(chosen, RankingMethod)
    pruned = chosen.ranking.order(given).scores
    shown = dict(zip(given.loaded.heads, found.columns[kind.column], strict=True))
    assert {*pruned} == {*shown}
    np.testing.assert_allclose([pruned[head] for head in shown], [*shown.values()], rtol=1e-6)


def test_every_score_has_options_of_its_own_and_words() -> None:
    assert {*METHODS} == {*SCORES, "ablation"} <= {*METHOD_OPTIONS}
    for name, kind in SCORES.items():
        assert issubclass(METHOD_OPTIONS[name], kind)
        assert kind.name == name and kind.label and kind.says
        assert kind.column in COLUMNS, "an assessment that is repeated deletes the old column"
        assert READ_BY[name] == kind.__match_args__
        assert score_of(name, Options()) == kind(), "an assessment's defaults are the score's"
