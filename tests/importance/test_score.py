"""Scores by name: the same numbers to show, to follow and to prune by, and one row of words."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import headcount
from headcount.importance import COLUMNS, READ_BY, SCORE_COLUMNS, SCORES, Options, assess, score_of
from headcount.importance.ablation_score import AblationScore
from headcount.importance.page import WORTH_NOTES
from headcount.pages.names import MEASURES
from headcount.vocabulary import WORTH

KINDS = {name: SCORES[name] for name in SCORES.own}
TESTS = get_args(get_type_hints(AblationScore)["score_test"])
SCORED = [name for name in SCORES if name != "ablation"]
DOCS = Path(headcount.__file__).parents[1] / "docs" / "importance.md"


@pytest.mark.once
@pytest.mark.parametrize("name", SCORED)
def test_what_is_shown_is_what_prunes(name: str) -> None:
    from headcount.pruning import Ranking, method
    from tests.pruning.context import TRAINED, context

    given = context("masked-bert")
    quick = TRAINED.get(name, {})
    found = assess(given.loaded, given.sample, Options((name,), **quick))  # type: ignore[arg-type]
    column = SCORES[name].column.key
    assert [*found.columns] == [each.key for each in SCORES[name].columns()]
    assert column in SCORE_COLUMNS
    chosen = method(name, **quick)
    assert isinstance(chosen, Ranking)
    pruned = chosen.order(given)
    shown = dict(zip(given.loaded.heads, found.columns[column], strict=True))
    assert {*pruned} == {*shown}
    np.testing.assert_allclose([pruned[head] for head in shown], [*shown.values()], rtol=1e-6)


def test_every_score_has_options_of_its_own_and_words() -> None:
    from headcount.pruning import BY_SCORE, METHOD_OPTIONS

    assert {*SCORES} <= {*METHOD_OPTIONS} and {*BY_SCORE} == {*SCORES} - {"ablation"}
    notes = {each.what.lower(): each for each in WORTH_NOTES}
    for name, kind in KINDS.items():
        entry = kind.column
        if name in SCORED:
            assert issubclass(METHOD_OPTIONS[name], kind) and issubclass(BY_SCORE[name], kind)
        assert kind.name == name and entry.label and entry.about and entry.group == WORTH
        for column in kind.columns():
            assert column.key in COLUMNS, "an assessment that is repeated deletes the old column"
            assert MEASURES[column.key] is column
        assert notes[entry.label.lower()].how == kind.definition
        assert READ_BY[name] == tuple(each for each in kind.__match_args__ if each != "seed")
        assert score_of(name, Options()) == kind(), "an assessment's defaults are the score's"


def test_options_of_scores_have_names_of_their_own_and_are_signed() -> None:
    """An option that two scores shared would be set for both; one unsigned would not be resumed."""
    names = [each for kind in KINDS.values() for each in kind.__match_args__]
    assert len({*names}) == len(names) and "methods" not in names
    for name in SCORED:
        kind = KINDS[name]
        for option, hint in get_type_hints(kind).items():
            if option in kind.__match_args__:
                usual = getattr(kind(), option)
                others = get_args(hint) or (usual + 1 if hint in (int, float) else not usual,)
                other = next(each for each in others if each != usual)
                assert kind(**{option: other}).signed(7) != kind().signed(7), (name, option)


def test_only_ablations_of_a_score_sign_the_test_of_its_drops() -> None:
    """The test of the loss is always the same, so that its option can't hinder a resumed run."""
    by_loss, by_score = AblationScore(quantity="loss"), AblationScore(quantity="score")
    for kind, is_signed in ((by_loss, False), (by_score, True)):
        tests = {str(replace(kind, score_test=test).signed(7)) for test in TESTS}
        assert (len(tests) > 1) == is_signed


def documented(key: str) -> str:
    """The row of a table that begins with the name of a column."""
    found = re.findall(rf"^\| `{key}` \|.*$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == 1, f"{key} begins {len(found)} rows of {DOCS.name}"
    return found[0]


@pytest.mark.parametrize("name", SCORED)
def test_docs_have_a_row_with_the_paper(name: str) -> None:
    entry = SCORES[name].column
    row = documented(entry.key)
    for paper in re.findall(r"arXiv:(\S+?)(?:,|$)", entry.source):
        assert f"https://arxiv.org/abs/{paper}" in row
    options = [each.replace("_", "-") for each in SCORES[name].__match_args__]
    assert [
        each for each in options if f"`--{each}" not in row and f"`--no-{each}" not in row
    ] == []
