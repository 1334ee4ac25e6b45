"""Finish: the better candidate becomes the model, whether high or low scores are better."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from headcount.models import Loaded
from headcount.papers import RECIPES, Rows, causal_model, translation_model
from headcount.papers.pretraining.trainer import (
    Candidate,
    averaged,
    candidates,
    choose,
    set_weights,
)
from headcount.tasks import build


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translation", "causal-lm"])
def test_the_better_one(
    task: str, tokenizer: PreTrainedTokenizerFast, pairs: Rows, tmp_path: Path
) -> None:
    """Four fresh models as checkpoints: chrF should be high, perplexity low."""
    make = translation_model if task == "translation" else causal_model
    for seed in range(4):
        make(RECIPES["tiny"], tokenizer, seed).save_pretrained(tmp_path / str(seed))
        (tmp_path / str(seed) / "whole").write_text("1")  # as versions without hashes wrote it
    model = make(RECIPES["tiny"], tokenizer, 9)
    few = Rows(pairs.sides, pairs.rows[:4]).columns
    data = few if task == "translation" else {"text": few["target"]}
    options = {"metric": "chrf", "num_beams": 1} if task == "translation" else {}
    dev = build(task, Loaded(model, tokenizer, "tiny"), data, **options)
    found = [Candidate(str(seed), (tmp_path / str(seed),)) for seed in range(4)]
    ranked = choose(model, found, dev)
    scores = [candidate.dev[dev.metric] for candidate in ranked]
    assert len(set(scores)) > 1 and scores == sorted(scores, reverse=task == "translation")
    assert [each.dev for each in choose(model, ranked[::-1], dev)] == [c.dev for c in ranked]
    expected = make(RECIPES["tiny"], tokenizer, int(ranked[0].name)).state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in model.state_dict().items())
    assert choose(model, found, None) == found, "without a development set, the first"


def test_average(tmp_path: Path) -> None:
    paths = []
    for step, value in ((1, 1.0), (2, 2.0), (3, 4.5)):
        paths.append(tmp_path / f"checkpoint-{step}")
        paths[-1].mkdir()
        weights = {"a": torch.full((2, 3), value), "b": torch.tensor([value], dtype=torch.float16)}
        save_file(weights, paths[-1] / "model.safetensors")
        (paths[-1] / "whole").write_text("1\n")
    mean = averaged(paths)
    assert mean["a"].tolist() == [[2.5] * 3] * 2 and mean["b"].dtype == torch.float16
    assert averaged(paths[:1])["a"].tolist() == [[1.0] * 3] * 2


def test_candidates(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    for step in (5, 10, 15):
        path = tmp_path / f"checkpoint-{step}"
        translation_model(RECIPES["tiny"], tokenizer, step).save_pretrained(path)
        (path / "whole").write_text("1")
    names = [each.name for each in candidates(tmp_path, 5, 2)]
    assert names == ["average of steps 10, 15", "step 5, the best one"]
    assert [each.name for each in candidates(tmp_path, None, 1)] == ["step 15"]
    assert len(candidates(tmp_path, 15, 1)) == 1, "the best one is the last"
    model = translation_model(RECIPES["tiny"], tokenizer, 0)
    set_weights(model, candidates(tmp_path, None, 2)[0].checkpoints)
    ends = [translation_model(RECIPES["tiny"], tokenizer, step).state_dict() for step in (10, 15)]
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weight, (ends[0][name] + ends[1][name]) / 2)
    assert model.lm_head.weight is model.model.shared.weight, "still tied"
