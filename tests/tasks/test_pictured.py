"""Causal language modelling on chats with pictures is what a stock model says, one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from headcount import CorpusError, Loaded, ModelError, tasks
from headcount.tasks.metrics import IGNORED
from headcount.tasks.supported import fitting
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
