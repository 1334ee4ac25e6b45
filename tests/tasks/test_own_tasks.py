"""A task of one's own is built by name, signed, and tried on a few examples first."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from headcount import register
from headcount.commands import TaskArguments
from headcount.core import ChangedModelError, InputError, PluginError
from headcount.corpora import Column
from headcount.tasks import (
    TASKS,
    Losses,
    Task,
    TaskBatch,
    TaskSplits,
    build,
    evaluate,
    pad_id,
    score,
    text_inputs,
)
from tests.tasks.loaded import TASKS as TINY

DATA = {"first": ["a dog runs", "the cat", "old dogs bark loudly"], "wanted": ["3", "2", "4"]}


class Length(Task):
    """Loss: distance of the model's largest state from the number of words."""

    name, metric, higher_is_better = "length", "distance", False
    by_example = ("rows", "wanted_N")
    reads = {"first": Column(("first",)), "wanted": Column(("wanted",))}

    def __init__(
        self, loaded: Any, data: Any, columns: Any = None, limit: Any = None, scale: float = 1
    ) -> None:
        self.scale = scale
        table = self.read(loaded, data, columns, limit)
        self.pad = pad_id(loaded)
        self.rows = [text.ids for text in loaded.encoder().sources(table.sentences("first"))]
        self.wanted_N = np.array([*map(float, table["wanted"])])

    @property
    def length_N(self) -> np.ndarray:
        return np.array([*map(len, self.rows)])

    def batch(self, index_E: np.ndarray) -> TaskBatch:
        inputs = text_inputs([self.rows[n] for n in index_E], self.pad)
        return TaskBatch.of(inputs, {"wanted": torch.from_numpy(self.wanted_N[index_E])}, index_E)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        found_E = output.logits[:, 0].amax(-1)
        loss_E = (found_E - batch.labels["wanted"].to(found_E)).abs()
        return Losses(loss_E, torch.ones_like(batch.index_E), found_E.detach())

    def score(self, evaluation: Any, index_S: Any = None) -> float:
        chosen = slice(None) if index_S is None else index_S
        return float(evaluation.loss_N[chosen].mean())


@pytest.fixture(autouse=True)
def _registered() -> Any:
    register(Length)
    yield
    TASKS.remove("length")


def test_a_task_is_built_signed_and_scored_on() -> None:
    from headcount.importance import Options, assess

    loaded, _ = TINY["masked-bert"]()
    task = build("length", loaded, DATA)
    assert task.signature == f"distance of {__name__}@"
    assert task.sha256 != Length(loaded, DATA).sha256, "its plug-in is part of what is signed"
    record = assess(loaded, task, Options(("norm", "gradient"))).record
    assert (record.task, record.num_examples) == (
        "length",
        3,
    ) and "|task:length|" in record.signature
    assert build("length", loaded, DATA, {"first": "first"}, limit=2).num_examples == 2


def exits(*_: Any) -> Any:
    raise SystemExit(2)


def losses(number: int, loss: float = 1.0) -> Callable[..., Any]:
    ones_E = torch.ones(number)
    return lambda *_: Losses(loss * ones_E, ones_E.long(), ones_E)


def whole(found: Losses) -> Losses:
    """The losses as whole numbers, which only tests refuse to make."""
    object.__setattr__(found, "loss_E", found.loss_E.long())
    return found


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("batch", lambda *_: 3, "Expected a TaskBatch of `batch` from the plug-in .*, got int"),
        ("losses", lambda *_: 3, "Expected Losses of `losses` from the plug-in .*, got int"),
        ("losses_of", losses(5), r"loss_E of shape \(2,\) for 2 exam.*\(5,\)"),
        (
            "losses_of",
            losses(2, torch.nan),
            "finite losses from .*, got .nan",
        ),
        ("score", lambda *_: "good", "a number as the score from the plug-in .*, got str"),
        ("score", exits, "to compute the score of the task length, got SystemExit: 2"),
        ("length_N", np.ones(7), r"length_N of 3 examples from .*, got shape \(7,\)"),
        ("metric", None, "a task with metric from the plug-in .*, got none"),
        ("metric", "", "a task with metric from the plug-in .*, got none"),
    ],
)
def test_a_broken_task_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, found: Any, expected: str
) -> None:
    loaded, _ = TINY["masked-bert"]()
    monkeypatch.setattr(Length, name, found)
    with pytest.raises(PluginError, match=expected):
        build("length", loaded, DATA)


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("losses_of", lambda *_: 1 / 0, "to compute losses of the task length, got ZeroDivision"),
        ("losses_of", losses(5), r"loss_E of shape \(3,\) for 3 exam.*\(5,\)"),
        (
            "losses_of",
            lambda *_: whole(losses(3)()),
            "loss_E in floating point from the plug-in .*, got torch.int64",
        ),
        ("batch", lambda *_: 1 / 0, "to make a batch of the task length, got ZeroDivision"),
        ("score", lambda *_: [1], "a number as the score from the plug-in .*, got list"),
        ("score", lambda *_: {}["enc.9.9"], r"got KeyError: 'enc.9.9' \(test_own_tasks.py, line"),
    ],
)
def test_one_that_breaks_later_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, found: Any, expected: str
) -> None:
    """On examples that were not tried first, in copies and in parts of the task too."""
    loaded, _ = TINY["masked-bert"]()
    task = build("length", loaded, DATA)
    part = task.some(np.arange(3)).watched(lambda *_: None)
    monkeypatch.setattr(Length, name, found)
    with pytest.raises(PluginError, match=expected):
        part.score(evaluate(loaded.model, part))
    assert type(task).__name__ == "Length" and isinstance(part, Length)


def test_a_score_that_is_no_number_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from headcount.importance import Options, assess
    from headcount.pruning import Compensation, prune

    loaded, _ = TINY["masked-bert"]()
    task = build("length", loaded, DATA)
    monkeypatch.setattr(Length, "score", lambda *_: float("nan"))
    expected = f"distance of the task length of the plug-in {__name__} has no number (NaN) on 3 ex"
    for record in (assess(loaded, task, Options(("norm",))).record, score(loaded, task).record):
        assert [each for each in record.warnings if each.startswith(expected)]
    splits = TaskSplits(task, task, task)
    found = prune(loaded, splits, "norm", len(loaded.heads) - 1, Compensation(fold=False))
    assert [each for each in found.record.warnings if each.startswith(expected)]


@pytest.mark.parametrize("name", ["batch", "losses_of", "with_texts"])
def test_one_that_changes_the_model_later_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever runs it, also if it was made without its name."""
    loaded, _ = TINY["masked-bert"]()
    loaded = copy.deepcopy(loaded)
    tasks = build("length", loaded, DATA), Length(loaded, DATA)
    does = getattr(Length, name)

    def changing(*given: Any) -> Any:
        next(loaded.model.parameters()).data.mul_(1.01)
        return does(*given)

    monkeypatch.setattr(Length, name, changing)
    for task in tasks:
        with pytest.raises(ChangedModelError, match=f"Expected the plug-in {__name__} to leave"):
            score(loaded, task.watched(lambda *_: None))


def test_draws_of_examples_name_it_and_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from headcount.importance import Options, assess

    loaded, _ = TINY["masked-bert"]()
    task, made = build("length", loaded, DATA), Length.score

    def fails(self: Any, evaluation: Any, index_S: Any = None) -> float:
        return made(self, evaluation) if index_S is None else 1 / 0

    monkeypatch.setattr(Length, "score", fails)
    record = assess(loaded, task, Options(("ablation", "norm"), quantity="score")).record
    assert record.methods == ("norm",)
    expected = "compute the score of the task length, got ZeroDivisionError"
    assert [each for each in record.warnings if expected in each and __name__ in each]


def test_options_from_the_command_line_reach_it_and_are_signed(tmp_path: Any) -> None:
    """`--task-options scale=2` of a task of one's own; ours have options of their own."""
    loaded, _ = TINY["masked-bert"]()
    (tmp_path / "rows.csv").write_text("first,wanted\na dog runs,3\nthe cat,2\n")
    asked: Any = {"task": "length", "data": (str(tmp_path / "rows.csv"),), "model": "tiny"}
    made: Any = (
        TaskArguments(**asked, task_options=given).built(loaded, asked["data"])
        for given in ((), ("scale=2",))
    )
    plain, scaled = made
    assert (plain.scale, scaled.scale) == (1, 2) and plain.sha256 != scaled.sha256
    with pytest.raises(InputError, match="Expected options of the task as NAME=VALUE, got 'scale'"):
        TaskArguments(**asked, task_options=("scale",)).built(loaded, asked["data"])
    with pytest.raises(InputError, match="Expected an option of length .*got 'gain'"):
        TaskArguments(**asked, task_options=("gain=2",)).built(loaded, asked["data"])
    with pytest.raises(InputError, match="of a task of your own, but the task is masked-lm"):
        TaskArguments(**asked | {"task": "masked-lm"}, task_options=("scale=2",)).options()
