"""Causal language modelling on chats with pictures is what a stock model says, one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import headcount
from headcount import CorpusError, Loaded, ModelError, tasks
from headcount.tasks.metrics import IGNORED
from headcount.tasks.supported import fitting
from tests import saved
from tests import tiny_pictures as tiny

KINDS = ["llava", *(pytest.param(each, marks=pytest.mark.slow) for each in ("qwen", "idefics"))]


def rows(folder: Path) -> list[dict[str, Any]]:
    """Chats of unequal length; the last one has no picture."""
    paths = [tiny.picture(folder / f"{n}.png", (20 + 9 * n, 17), seed=n) for n in range(3)]
    found = [
        tiny.chat(paths[0]),
        tiny.chat(paths[1], "what is the red cat by the mat ?", "the cat sat on the mat ."),
        tiny.chat(paths[2], "where is it ?", "on the mat ."),
    ]
    alone = [{"role": "user", "content": "what is a dog ?"}]
    return [*found, {"messages": [*alone, {"role": "assistant", "content": "the dog ."}]}]


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_that_of_one_chat_after_the_other(kind: str, tmp_path: Path) -> None:
    loaded, given = tiny.loaded(kind), rows(tmp_path)
    task = tasks.build("causal-lm", loaded, given, roles=["assistant"])
    losses = []
    for row in given:
        both = tasks.build("causal-lm", loaded, [row, given[0]], roles=["assistant"])
        one = both.batch(np.array([0]))
        with torch.no_grad():
            logits = loaded.model(**one.inputs).logits[0]
        labels, decode = one.labels["labels"][0], processor_of(loaded).decode
        losses.append(cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum").item())
        words = [decode([each]) for each in labels[labels != IGNORED].tolist()]
        assert words == row["messages"][1]["content"].split()
    found = tasks.evaluate(loaded.model, task).loss_N
    np.testing.assert_allclose(found, losses, rtol=1e-4)


def processor_of(loaded: Loaded) -> Any:
    """The processor, which decodes, too."""
    return loaded.processor


def test_parts_of_a_task_keep_their_pictures(tmp_path: Path) -> None:
    loaded = tiny.loaded("llava")
    task = tasks.build("causal-lm", loaded, rows(tmp_path), roles=["assistant"])
    whole, part = task.batch(np.array([2, 0])), task.some(np.array([2, 0])).batch(np.arange(2))
    assert len(whole.inputs["pixel_values"]) == 2
    for name, each in whole.inputs.items():
        assert torch.equal(each, part.inputs[name])


def test_pictures_count_in_the_hash(tmp_path: Path) -> None:
    loaded, path = tiny.loaded("llava"), tmp_path / "0.png"
    hashes = []
    for seed in (0, 1):
        row = tiny.chat(tiny.picture(path, seed=seed))
        hashes.append(tasks.build("causal-lm", loaded, [row]).sha256)
    assert hashes[0] != hashes[1]


def test_a_prompt_that_sees_all_of_itself_is_no_causal_model() -> None:
    assert "causal-lm" in fitting(tiny.loaded("llava").model)
    assert "causal-lm" not in fitting(tiny.loaded("paligemma").model)


def test_bad_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="none.png: expected an image"):
        tasks.build("causal-lm", tiny.loaded("llava"), [tiny.chat(str(tmp_path / "none.png"))])
    with pytest.raises(ModelError, match="for causal-lm, got .* PaliGemma"):
        tasks.build("causal-lm", tiny.loaded("paligemma"), rows(tmp_path))


CHOICES = (["the dog .", "the cat sat .", "it"], ["red", "the mat"], ["the dog .", "the cat ."])


def choices(folder: Path) -> list[dict[str, Any]]:
    """Questions with choices: a picture in a column, two in a chat, and none."""
    paths = [tiny.picture(folder / f"{n}.png", (20 + 9 * n, 17), seed=n) for n in range(3)]
    chat = [{"type": "image", "image": each} for each in paths[1:]]
    text = {"type": "text", "text": "where is it ?"}
    prompts: list[Any] = ["what is it ?", [{"role": "user", "content": [*chat, text]}], "a dog ?"]
    images = [paths[0], None, None]
    rows = zip(prompts, images, CHOICES, (1, 0, 0), strict=True)
    names = ("prompt", "image", "choices", "answer")
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", KINDS)
def test_choices_are_judged_as_replies(kind: str, tmp_path: Path) -> None:
    """By the stock model, one reply at a time, from what the processor makes of the chat."""
    loaded, rows = tiny.loaded(kind), choices(tmp_path)
    scores, processor = list[list[float]](), processor_of(loaded)
    for row in rows:
        turns = row["prompt"]
        if isinstance(turns, str):
            shown = [{"type": "image", "image": row["image"]}] * (row["image"] is not None)
            turns = [{"role": "user", "content": [*shown, {"type": "text", "text": turns}]}]
        images = [tiny.opened(part["image"]) for part in turns[0]["content"] if "image" in part]
        given: dict[str, Any] = {"images": [images]} if images else {}
        prompt = processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        scores.append([])
        for choice in row["choices"]:
            inputs = processor(text=[f"{prompt} {choice}"], return_tensors="pt", **given)
            with torch.no_grad():
                logits = loaded.model(**inputs).logits[0].double().log_softmax(-1)
            ids, said = inputs["input_ids"][0], len(choice.split())
            places = range(len(ids) - said, len(ids))
            scores[-1].append(sum(float(logits[place - 1, ids[place]]) for place in places))
    task = tasks.build("choice", loaded, rows)
    found = tasks.evaluate(loaded.model, task)
    losses = [
        -torch.tensor(each).log_softmax(-1)[row["answer"]].item()
        for each, row in zip(scores, rows, strict=True)
    ]
    np.testing.assert_allclose(found.loss_N, losses, rtol=1e-4)
    assert found.outcome_N.tolist() == [int(np.argmax(each)) for each in scores]
    means = [
        [score / len(choice.split()) for score, choice in zip(each, row["choices"], strict=True)]
        for each, row in zip(scores, rows, strict=True)
    ]
    by_token = tasks.evaluate(
        loaded.model, tasks.build("choice", loaded, rows, likelihood_per="token")
    )
    expected = [
        -torch.tensor(each).log_softmax(-1)[row["answer"]].item()
        for each, row in zip(means, rows, strict=True)
    ]
    np.testing.assert_allclose(by_token.loss_N, expected, rtol=1e-4)
    part = tasks.evaluate(loaded.model, task.some(np.array([1])))
    np.testing.assert_allclose(part.loss_N, losses[1:2], rtol=1e-4)


def test_pictures_of_choices_count(tmp_path: Path) -> None:
    loaded, rows = tiny.loaded("llava"), choices(tmp_path)[:1]
    first = tasks.build("choice", loaded, rows).sha256
    tiny.picture(tmp_path / "0.png", seed=9)
    assert tasks.build("choice", loaded, rows).sha256 != first
    missing = [rows[0] | {"image": str(tmp_path / "none.png")}]
    with pytest.raises(CorpusError, match="none.png: expected an image"):
        tasks.build("choice", loaded, missing)
    with pytest.raises(CorpusError, match="at least two choices, got 1"):
        tasks.build("choice", loaded, [rows[0] | {"choices": ["a"], "answer": 0}])


def test_choices_with_pictures_need_a_model_that_reads_some(tmp_path: Path) -> None:
    """Rows whose pictures are all missing are those of a text, with the same hash."""
    text, rows = headcount.load(saved.llama(tmp_path / "llama")), choices(tmp_path)
    with pytest.raises(ModelError, match="a model that reads pictures beside texts"):
        tasks.build("choice", text, rows[:1])
    empty = {name: each for name, each in rows[2].items() if name != "image"}
    hashes = {tasks.build("choice", text, [each]).sha256 for each in (empty, rows[2])}
    assert len(hashes) == 1
