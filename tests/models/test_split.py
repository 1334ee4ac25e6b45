"""A model that is split over two processes: its numbers are those of the whole model."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import headcount as hc
from headcount.core import InputError
from headcount.models import load
from headcount.tap import check_divides
from tests.forked import ranks
from tests.tasks.loaded import loaded
from tests.test_any_model import CASES

LLAMA = "LlamaForCausalLM"
SAME = {
    **{"measure": 1e-6, "induction_scores": 1e-6, "importance.norm": 1e-6},
    **{"gated": 1e-5, "gates.gating": 1e-5, "explain": 1e-5},
    **{"importance.ablation": 2e-5, "importance.gradient": 1e-5},
}
"""Public functions, with the largest difference as a share of the largest number.

Effects of ablation are small differences of losses, which are rounded in float32.
"""
REFUSED = {
    "compact": "whole in this process for new weights",
    "importance.relevance": "whole in this process for relevance",
    "streaming_masks": "whole in this process for a cache that streams",
    "speed.ceiling": "whole in this process for counts of FLOPs",
    "analyze of a random copy": "whole in this process for a copy with random weights",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    held, folder = loaded(LLAMA), tmp_path_factory.mktemp("model")
    assert held.tokenizer is not None
    held.model.save_pretrained(folder)
    held.tokenizer.save_pretrained(folder)
    return folder


def numbers(found: Any) -> np.ndarray:
    """All numbers of a result, in a row."""
    if isinstance(found, torch.Tensor):
        return found.double().numpy().ravel()
    if isinstance(found, pd.DataFrame):
        return found.select_dtypes("number").to_numpy(float).ravel()
    if isinstance(found, Mapping):
        return np.concatenate([*map(numbers, found.values())])
    return np.asarray(found, dtype=float).ravel()


@pytest.mark.slow
def test_numbers_of_a_split_model(folder: Path, tmp_path: Path) -> None:
    """Every process has all numbers; what needs whole weights says so."""
    names = (*SAME, *REFUSED)
    for process in ranks("tests.models.split_over", folder, tmp_path, *names):
        output, errors = process.communicate()
        assert process.returncode == 0, output + errors
    one, other = (pickle.loads((tmp_path / f"{each}.pickle").read_bytes()) for each in (0, 1))
    for name, tolerance in SAME.items():
        expected = numbers(CASES[name](loaded(LLAMA), {}, tmp_path))
        found = numbers(one[name])
        assert np.array_equal(found, numbers(other[name]), equal_nan=True), name
        apart = np.nanmax(np.abs(found - expected)) / np.nanmax(np.abs(expected))
        assert apart <= tolerance, (name, apart)
    for name, words in REFUSED.items():
        assert words in one[name] and words in other[name]


def test_what_cannot_be_split(folder: Path) -> None:
    with pytest.raises(hc.core.ModelError, match="Expected several processes for --device tp"):
        load(folder, device="tp")
    config = loaded(LLAMA).model.config
    with pytest.raises(InputError, match="attention heads that 4 processes can share .* got 6"):
        check_divides(config, 4)
    with pytest.raises(InputError, match="key/value heads that 3 processes can share .* got 2"):
        check_divides(config, 3)
