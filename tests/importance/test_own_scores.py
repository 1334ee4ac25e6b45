"""Scores of one's own: measured, shown, compared and pruned by like ours, and guarded."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount import InputError, register
from headcount.core import PluginError, PluginWarning
from headcount.importance import SCORES, Options, Score, assess, score_column
from headcount.importance.document import worth_document
from tests.tasks.loaded import TASKS

COLUMN = score_column("place_score", "place", "number of the head", "nobody, 1999")


@dataclass(frozen=True)
class Place(Score):
    """The number of a head in its layer, times a factor."""

    factor: float = 1.0
    name = "place"
    column = COLUMN
    definition = "The number of the head."

    def of(self, loaded: Any, task: Any, max_tokens: int = 4096) -> Any:
        return numbers(loaded, lambda size: self.factor * torch.arange(size))


def numbers(loaded: Any, of: Callable[[int], Any]) -> Mapping[Any, Any]:
    sizes: dict[Any, int] = {}
    for head in loaded.heads:
        sizes[head.layer_id] = sizes.get(head.layer_id, 0) + 1
    return {place: of(size) for place, size in sizes.items()}


@contextmanager
def registered(*scores: type[Score]) -> Iterator[None]:
    for each in scores:
        register(each)
    try:
        yield
    finally:
        for each in scores:
            SCORES.remove(each.name)


def test_a_score_is_measured_shown_and_read_without_it(tmp_path: Path) -> None:
    loaded, task = TASKS["causal-gpt2"]()
    with registered(Place):
        found = assess(loaded, task, Options(("place", "norm", "sink")), tmp_path)
        found.write(tmp_path)
        other = assess(loaded, task, methods=["norm", "sink", Place(2.0)])
    assert found.record.methods == ("norm", "sink", "place")
    expected = [head.index for head in loaded.heads]
    np.testing.assert_array_equal(found.columns["place_score"], expected)
    np.testing.assert_array_equal(other.columns["place_score"], 2 * np.array(expected))
    assert f"|plugins:{__name__}@|" in found.record.signature
    assert "|place:factor=2.0|" in other.record.signature
    read = type(found).read(tmp_path)
    assert read.record.column_entries == {COLUMN.key: COLUMN} and [*read.columns] == [
        *found.columns
    ]
    assert "place" in worth_document(read).markdown()
    again = assess(loaded, task, Options(("norm",)), tmp_path)
    assert "place_score" not in again.heads.frame, "the columns of the earlier assessment go"


def test_a_score_prunes() -> None:
    from headcount.pruning import method
    from tests.pruning.context import context

    given = context("masked-bert")
    with registered(Place):
        chosen = method("place", factor=-1.0, step=0.5)
        order = chosen.order(given)  # type: ignore[attr-defined]
    values = [head.index for head in order]
    assert values == sorted(values, reverse=True)


class Broken(Place):
    name = "broken"
    column = score_column("broken_score", "broken", "nothing", "")


def returning(found: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda self, loaded, task, max_tokens=0: found(loaded)


def changing(loaded: Any) -> Any:
    next(loaded.model.parameters()).data.add_(1)


def exiting(loaded: Any) -> Any:
    raise SystemExit(3)


def hooked(loaded: Any) -> Any:
    loaded.model.register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            lambda _: 1 / 0,
            r"to score heads by broken, got ZeroDivisionError: .*own_scores.py, line",
        ),
        (exiting, "to score heads by broken, got SystemExit: 3"),
        (lambda _: None, "number of each head, in a tensor for each .site, layer., got NoneType"),
        (
            lambda x: numbers(x, lambda n: torch.ones(n + 1)),
            r"got float32 of shape \(6,\) for dec.0",
        ),
        (
            lambda x: numbers(x, lambda n: torch.ones(n).bool()),
            r"got bool of shape \(5,\) for dec.0",
        ),
        (lambda x: {("encoder.self", 9): torch.ones(3)}, "numbers of enc.9, which the model lacks"),
        (lambda x: numbers(x, lambda n: ["a"] * n), "to score heads by broken, got .*Error: "),
        (changing, "to leave the model as it is, got changed parameters, hooks or modes"),
        (hooked, "to leave the model as it is, got changed parameters, hooks or modes"),
    ],
)
def test_a_broken_score_is_a_sentence_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, found: Callable[[Any], Any], expected: str
) -> None:
    loaded, task = TASKS["causal-gpt2"]()
    copied = copy.deepcopy(loaded)
    monkeypatch.setattr(Broken, "of", returning(found))
    kept = assess(copied, task, methods=[Broken, "norm", Place]).record
    (sentence,) = [each for each in kept.warnings if "own_scores" in each]
    assert re.search(expected, sentence)
    if found in (changing, hooked):
        assert kept.methods == ("norm",) and "changed model: place" in kept.warnings[-1]
    else:
        assert kept.methods == ("norm", "place")
        with pytest.raises(PluginError, match=expected):
            assess(copied, task, methods=[Broken])


def test_scores_survive_an_interruption_by_a_later_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A slow score is interrupted: what was measured before it is resumed, bit by bit."""
    loaded, task = TASKS["causal-gpt2"]()
    options = Options(seed=1)
    asked: Any = {"options": options, "out": tmp_path, "methods": ["relevance", Place, Broken]}

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Broken, "of", returning(interrupted))
    with pytest.raises(KeyboardInterrupt):
        assess(loaded, task, **asked)
    fresh = assess(loaded, task, options, methods=["relevance", Place, "norm"])
    for kind in (SCORES["relevance"], Place):
        monkeypatch.setattr(kind, "of", returning(interrupted))
    monkeypatch.setattr(Broken, "of", returning(lambda x: numbers(x, torch.ones)))
    resumed = assess(loaded, task, **asked)
    assert resumed.record.methods == ("relevance", "place", "broken")
    assert resumed.record.average == fresh.record.average == "per-example"
    for key in ("relevance", "place_score"):
        np.testing.assert_array_equal(resumed.columns[key], fresh.columns[key])


def test_that_all_scores_fail_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, task = TASKS["causal-gpt2"]()
    monkeypatch.setattr(Broken, "of", returning(exiting))
    monkeypatch.setattr(Place, "of", returning(exiting))
    with pytest.raises(PluginError, match="to score heads by broken, got SystemExit"):
        assess(loaded, task, methods=[Broken, Place])


def test_what_it_prints_and_lacks_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded, task = TASKS["causal-gpt2"]()

    def noisy(loaded: Any) -> Any:
        print("hello")
        return numbers(loaded, lambda size: torch.tensor([torch.nan] + [1] * (size - 1)).half())

    monkeypatch.setattr(Broken, "of", returning(noisy))
    with pytest.warns(PluginWarning, match="own_scores printed 1 line: hello"):
        found = assess(loaded, task, methods=[Broken])
    assert "has no number (NaN) for 2 of" in found.record.warnings[-1]
    assert not capsys.readouterr().out


def test_one_without_a_column_leaves_the_others() -> None:
    loaded, task = TASKS["causal-gpt2"]()
    bare = type("Bare", (Score,), {"name": "bare", "of": Place.of})
    record = assess(loaded, task, methods=["norm", bare]).record
    assert record.methods == ("norm",)
    assert "Expected words of the score bare" in record.warnings[-1]


def test_words_and_names_of_its_own() -> None:
    loaded, task = TASKS["causal-gpt2"]()
    wordless = type("Wordless", (Place,), {"definition": "", "name": "wordless"})
    taken = type("Taken", (Place,), {"column": SCORES["norm"].column, "name": "taken"})
    with pytest.raises(PluginError, match="words of the score wordless .*, got no definition. Say"):
        assess(loaded, task, methods=[wordless])
    with pytest.raises(PluginError, match="new columns of the score taken .*, got norm_score, whi"):
        assess(loaded, task, methods=[taken])
    for methods in ([Place(), Place(2.0)], [type("Norm", (Place,), {"name": "norm"})]):
        with pytest.raises(InputError, match="Expected scores of different names, got"):
            assess(loaded, task, methods=methods)
    with pytest.raises(PluginError, match="a new name for a score .*, got norm, which headcount 0"):
        register(type("Norm", (Place,), {"name": "norm"}))
