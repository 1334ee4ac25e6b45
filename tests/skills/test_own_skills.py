"""A skill of one's own stands in tables, documents and records beside ours."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount
from headcount.core import PluginError
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.pages import document_of
from headcount.skills import SKILL_CLASSES, Skill, Skills, skills
from headcount.skills.skill import scored
from tests import saved
from tests.skills.test_skills import OPTIONS, TEXTS


class Last(Skill):
    """The last heads have it most."""

    name, does, least = "last", "is as late as {}", 3.0
    about, source = "number of the head in the model", "this test"

    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        assert len([*texts]) == len(TEXTS)
        return np.tile(np.arange(len(loaded.heads)), (6, 1)) + np.arange(6)[:, None] / 6


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    headcount.register(Last)
    yield
    SKILL_CLASSES.remove("last")


@pytest.mark.slow
def test_it_is_measured_shown_and_read_without_the_class(loaded: Loaded, tmp_path: Path) -> None:
    found = skills(loaded, Corpus(TEXTS), replace(OPTIONS, skills=("last",)))
    number = len(loaded.heads)
    best = found.ranked("last")
    assert [each.head for each in best] == [*map(str, loaded.heads)][::-1]
    assert best[0].mean == pytest.approx(number - 1 + 5 / 12)
    assert best[0].low < best[0].mean < best[0].high and best[0].first < best[0].second
    assert f"|skills:last|plugins:{__name__}@" in found.record.signature
    assert ("last", "last") in {(each.one, each.other) for each in found.record.overlaps}
    found.write(tmp_path)
    again = Skills.read(tmp_path)
    assert again.ranked("last") == best and again.does()[best[0].head] == (best[0].does,)
    text = document_of(again).markdown()
    assert "number of the head in the model" in text and best[0].said in text


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (lambda *_: np.ones((6, 1)), r"finite numbers .case, head. of the skill last .*\(6, 1\)"),
        (lambda self, loaded, *_: np.full((6, len(loaded.heads)), np.nan), "finite numbers"),
        (lambda self, loaded, *_: np.full((6, len(loaded.heads)), "a"), "finite numbers"),
    ],
)
def test_one_that_fails_is_a_sentence_and_the_others_stay(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, scores: Any, expected: str
) -> None:
    monkeypatch.setattr(Last, "scores", scores)
    with pytest.raises(PluginError, match=expected):
        scored(Last, loaded, Corpus(TEXTS), 0)


@pytest.mark.slow
def test_ours_are_kept_if_one_fails(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Last, "does", "")
    found = skills(loaded, Corpus(TEXTS), OPTIONS, own=[Last])
    assert not found.own and found.ranked("induction")
    assert "Expected words of the skill last" in found.record.warnings[-1]


@pytest.mark.slow
def test_what_was_measured_before_it_changed_the_model_is_kept(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = copy.deepcopy(loaded)
    asked = Corpus(TEXTS), replace(OPTIONS, skills=("last",))
    other = type("Other", (Last,), {"name": "other"})
    whole, scores = skills(loaded, *asked, own=[other]), Last.scores

    def changing(self: Any, loaded: Any, *rest: Any) -> Any:
        next(loaded.model.parameters()).data.mul_(1.01)
        return scores(self, loaded, *rest)

    monkeypatch.setattr(Last, "scores", changing)
    found = skills(loaded, *asked, own=[other])
    for each, its in ((found.heads, whole.heads), (found.recalls, whole.recalls)):
        assert str(each) == str(its), "NaN is the same here"
    assert not found.own
    assert found.record.signature == whole.record.signature
    assert f"the plug-in {__name__} to leave the model as it is" in found.record.warnings[-2]
    assert found.record.warnings[-1] == "not measured on the changed model: other"
