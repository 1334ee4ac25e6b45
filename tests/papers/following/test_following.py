"""Following: order, architectures, planted changes, resuming; prunability against definitions."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
import torch

from headcount import Corpus, InputError, Loaded, ModelError, load, tasks
from headcount.core import Head
from headcount.papers import Followed, FollowedCheckpoint, FollowOptions, follow, texts_of
from headcount.papers.following.checkpoint_list import checkpoints_of, load_checkpoint, step_of
from headcount.papers.following.document import sentences_of, settled
from headcount.papers.following.following import across_halves, least_first
from headcount.papers.following.prunability import (
    Prunability,
    most_within,
    prunability,
    tried_numbers,
)
from headcount.results import Correlation
from headcount.vocabulary import IMAGES
from tests import pictures, saved
from tests.textbook import prunability as textbook

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_format")]

TEXTS = [
    "the cat sat on the mat .",
    "a dog saw the cat .",
    "the dog sat .",
    "a cat saw a dog .",
] * 3
ALONE = Head("encoder.self", 1, 1)
"""The only head that the planted checkpoints change."""


def build(loaded: Loaded) -> tasks.Task:
    return tasks.build("masked-lm", loaded, {"text": TEXTS}, masking=tasks.Masking(3))


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three checkpoints in which only one head changes; the steps do not follow the names."""
    root = tmp_path_factory.mktemp("training")
    first = saved.bert(root / "checkpoint-7")
    folders = [first]
    for step, scale in ((30, 20.0), (200, 40.0)):
        folder = root / f"checkpoint-{step}"
        copytree(first, folder)
        model = load(folder).model
        size = model.config.hidden_size // model.config.num_attention_heads
        with torch.no_grad():
            output = model.get_submodule("bert.encoder.layer.1.attention.output.dense")
            columns = slice(ALONE.index * size, (ALONE.index + 1) * size)
            output.get_parameter("weight")[:, columns] *= scale
        model.save_pretrained(folder)
        folders.append(folder)
    return folders


@pytest.fixture(scope="module")
def once(training: list[Path]):
    return followed(training[::-1])


def followed(folders: list[Path], out: Path | None = None, **options: object):
    corpus = Corpus.from_sentences(TEXTS)
    options_of_run = FollowOptions(**options)  # type: ignore[arg-type]
    return follow(folders, build, corpus, options=options_of_run, out=out)


def test_only_the_planted_head_changes(once: Followed, tmp_path: Path) -> None:
    found = once
    assert [point.step for point in found.record.checkpoints] == [7, 30, 200]
    rows = {(row.place, row.head): row for row in found.rows}
    heads = [row.head for row in found.rows if row.place == 0]
    assert len(heads) == 6
    for head in heads:
        before, after = (rows[place, head] for place in (0, 2))
        assert before.confidence == after.confidence
    by_place = [{head: rows[place, head].importance for head in heads[3:]} for place in range(3)]
    assert max(by_place[0], key=by_place[0].__getitem__) != str(ALONE)
    assert max(by_place[2], key=by_place[2].__getitem__) == str(ALONE), by_place
    last = found.record.checkpoints[-1]
    assert last.correlation.rho == pytest.approx(1) and len(found.record.sentences) == 3
    found.write(tmp_path)
    assert Followed.read(tmp_path) == found


@pytest.mark.daily
def test_equal_checkpoints_agree_from_the_first_on(tmp_path: Path, training: list[Path]) -> None:
    twin = tmp_path / "checkpoint-99"
    copytree(training[0], twin)
    found = followed([training[0], twin], within=1e-9)
    one, other = found.record.checkpoints
    assert one.correlation.rho == pytest.approx(1)
    assert replace(one, name="", step=0) == replace(other, name="", step=0)
    assert one.across_halves <= 1


def test_a_killed_run_resumes_to_the_same_numbers(
    once: Followed, training: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Any] = []

    def cut(*given: object, **options: object) -> Prunability:
        left.append(given)
        if len(left) == 2:
            raise KeyboardInterrupt
        return prunability(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("headcount.papers.following.following.prunability", cut)
    with pytest.raises(KeyboardInterrupt):
        followed(training, tmp_path)

    def build_other(loaded: Loaded) -> tasks.Task:
        return tasks.build("masked-lm", loaded, {"text": TEXTS[:9]}, masking=tasks.Masking(3))

    with pytest.raises(InputError, match=r"checkpoint-0\.json"):
        follow(training, build_other, Corpus.from_sentences(TEXTS), out=tmp_path)
    again = followed(training, tmp_path)
    assert len(left) == 4  # the first was measured once
    first, second = (list(map(str, order)) for order in left[0][2])
    rows = [row for row in once.rows if row.place == 0]
    assert first == [row.head for row in sorted(rows, key=lambda row: row.first_half)]
    assert second == [row.head for row in sorted(rows, key=lambda row: row.second_half)]
    assert again.rows == once.rows
    assert again.record.checkpoints == once.record.checkpoints


@pytest.mark.daily
def test_folders_without_steps_stay_in_the_order_given(
    training: list[Path], tmp_path: Path
) -> None:
    names = []
    for name, folder in zip(("late", "early"), training, strict=False):
        copytree(folder, tmp_path / name)
        names.append(tmp_path / name)
    assert [each.name for each in checkpoints_of(names)] == ["late", "early"]
    (names[0] / "trainer_state.json").write_text(json.dumps({"global_step": 5}))
    (names[1] / "trainer_state.json").write_text(json.dumps({"global_step": 3}))
    assert [each.step for each in checkpoints_of(names)] == [3, 5]
    assert step_of(Path("step_1000")) == 1000 and step_of(Path("gpt2-0.5")) is None


def test_the_tokenizer_of_the_training_serves_its_checkpoints(
    training: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints" / "checkpoint-7"
    copytree(training[0], folder)
    for file in folder.glob("*token*"):
        file.rename(tmp_path / file.name)
    for file in folder.glob("vocab*"):
        file.rename(tmp_path / file.name)
    found = load_checkpoint(checkpoints_of([folder, training[1]])[0])
    assert found.tokenizer is not None and found.tokenizer("the cat")["input_ids"]
    rmtree(folder)


def test_bad_lists_are_refused(training: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 2 checkpoints to compare, got 1"):
        followed(training[:1])
    with pytest.raises(InputError, match="nowhere, which is no folder"):
        followed([training[0], tmp_path / "nowhere"])
    with pytest.raises(InputError, match="has no config.json"):
        followed([training[0], tmp_path])
    copytree(training[0], tmp_path / "run-7")
    with pytest.raises(InputError, match="two of step 7"):
        followed([training[0], tmp_path / "run-7"])
    with pytest.raises(ModelError, match=r"differs from .* in the class of the model: GPT2LMHead"):
        followed([training[0], saved.gpt2(tmp_path / "gpt2-9")])
    with pytest.raises(InputError, match="a finite rise of the loss above 0"):
        FollowOptions(within=0.0)


def test_another_tokenizer_is_refused(training: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "checkpoint-8"
    copytree(training[0], other)
    file = other / "tokenizer.json"
    rules = json.loads(file.read_text())
    ids = rules["model"]["vocab"]
    first, second = [word for word in ids if word.isalpha()][:2]
    ids[first], ids[second] = ids[second], ids[first]
    file.write_text(json.dumps(rules))
    with pytest.raises(ModelError, match="in the tokenizer"):
        followed([training[0], other])


def test_prunability_is_its_definition(training: list[Path]) -> None:
    loaded = load(training[2])
    task = build(loaded)
    base = tasks.evaluate(loaded.model, task)
    order = least_first(loaded.heads, np.array([3.0, 1.0, 1.0, 5.0, 4.0, 0.0]))
    assert [head.index for head in order] == [2, 1, 2, 0, 1, 0]
    other = order[::-1]
    losses = textbook.losses(loaded, task, order, other)
    for within in (1e-9, 0.002, 0.02, 10.0):
        found = prunability(loaded, task, (order, other), base, within)
        assert found.share == textbook.share(losses, within)
        assert found.low <= found.share + 1e-9 and 0 <= found.low <= found.high <= 1
        for number, loss in found.losses.items():
            assert loss == pytest.approx(losses[number], rel=1e-5)


def test_the_crossing_is_found_to_the_head() -> None:
    def ramp(number: int) -> tasks.Evaluation:
        loss = 1 + max(0, number - 37) * 0.01
        return tasks.Evaluation(np.array([loss]), np.array([1]), np.array([0.0]))

    tried = tried_numbers(100, ramp, 1.0, 0.05)
    assert {10, 40, 42, 43, 100} <= {*tried} and len(tried) < 16
    numbers = np.array([0, *sorted(tried)])
    losses = np.array([[1.0, *(tried[each].loss for each in sorted(tried))]])
    assert most_within(losses, numbers, 0.05).tolist() == [42]
    bump = np.array([[1.0, 1.2, 1.0]])
    assert most_within(bump, np.array([0, 1, 2]), 0.1).tolist() == [0]


def test_noise_does_not_agree_across_halves() -> None:
    draw = np.random.default_rng(5)
    signal_H = draw.normal(size=149)
    here, there = (signal_H + 0.3 * draw.normal(size=(2, 149)) for _ in range(2))
    assert across_halves(here, there) > 0.85
    noise = draw.normal(size=(2, 149))
    assert abs(across_halves(noise, noise)) < 0.2


def point(step: int, across: float) -> FollowedCheckpoint:
    return FollowedCheckpoint(
        name=f"c{step}",
        step=step,
        loss=2.0,
        score=1.0,
        correlation=Correlation(across, across, across, 9),
        across_halves=across,
        confidence=0.5,
        confidence_low=0.4,
        confidence_high=0.6,
        prunable=0.25,
        prunable_low=0.2,
        prunable_high=0.3,
        losses={0: 2.0},
        roles={"rare": 2} if step else {},
        tendencies={},
    )


@pytest.mark.daily
def test_findings_say_when_importance_is_settled() -> None:
    across = (0.1, 0.8, 0.5, 0.74, 0.76, 0.8)
    points = [point(10 * number, each) for number, each in enumerate(across)]
    assert settled(points) == 3
    said = list(sentences_of(points, 0.05))
    assert "from step 30 (60\u202f% of the training) on" in said[0] and "0.80" in said[0]
    assert "25\u202f% can be pruned at step 0 (0\u202f% of the training)" in said[1]
    assert "from none to 2 rare" in said[2]
    assert settled([point(0, 0.1), point(1, 0.9)]) == 1
    assert settled([point(0, 0.1), point(1, -0.1)]) is None


def test_texts_of_a_task_are_its_first_column() -> None:
    pairs = texts_of("translation", {"source": ["a b"], "target": ["c"]})
    assert [(each.text, each.target) for each in pairs] == [("a b", "c")]
    texts = texts_of("classification", {"text": ["x", "y"], "label": ["0", "1"]}, limit=1)
    assert [each.text for each in texts] == ["x"]


def test_images_of_a_task_are_a_corpus_of_images(tmp_path: Path) -> None:
    folder = pictures.write_images(tmp_path, 5, ("cat", "dog"))
    images = texts_of("image-classification", str(folder), limit=3)
    assert images.inputs is IMAGES and [each.origin for each in images] == [
        str(folder / place) for place in ("cat/000.png", "dog/001.png", "cat/002.png")
    ]
