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

LLAMA = "LlamaForCausalLM"
SAME = {
    **{"measure": 1e-6, "induction_scores": 1e-6, "importance.norm": 1e-6},
    **{"gated": 1e-5, "gates.gating": 1e-5, "explain": 1e-5},
    **{"importance.ablation": 2e-5, "importance.gradient": 1e-5, "skills": 1e-5},
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


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the largest number."""
    return np.nanmax(np.abs(found - expected)) / np.nanmax(np.abs(expected))


def said(out: Path, number: int, *arguments: object) -> list[dict[str, Any]]:
    """What each of some processes says of a split model."""
    for process in ranks("tests.models.split_over", *arguments, number=number):
        output, errors = process.communicate()
        assert process.returncode == 0, output + errors
    return [pickle.loads((out / f"{each}.pickle").read_bytes()) for each in range(number)]


@pytest.mark.slow
def test_numbers_of_a_split_model(folder: Path, tmp_path: Path) -> None:
    """Every process has all numbers; what needs whole weights says so."""
    from tests.models.split_over import MORE
    from tests.test_any_model import CASES

    names = (*SAME, *REFUSED)
    one, other = said(tmp_path, 2, folder, "tp", tmp_path, *names)
    for name, tolerance in SAME.items():
        held, case = loaded(LLAMA), MORE.get(name)
        expected = numbers(CASES[name](held, {}, tmp_path) if case is None else case(held))
        assert np.array_equal(numbers(one[name]), numbers(other[name]), equal_nan=True), name
        assert apart(numbers(one[name]), expected) <= tolerance, name
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


ALIKE = ("importance.ablation", "importance.gradient")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process says of the whole model."""
    from tests.models.split_over import shared
    from tests.test_any_model import CASES

    held, out = loaded(LLAMA), tmp_path_factory.mktemp("alone")
    return {name: CASES[name](held, {}, out) for name in ALIKE} | {"shared": shared(held)}


@pytest.mark.slow
@pytest.mark.parametrize(("device", "number"), [("tp:2", 4), ("tp", 2), ("plan", 2)])
def test_copies_of_a_split_model_share_work(
    device: str, number: int, folder: Path, alone: dict[str, Any], tmp_path: Path
) -> None:
    """Two processes have one model; two such pairs do other batches, and all get all numbers."""
    every = said(tmp_path, number, folder, device, tmp_path, "shared", *ALIKE)
    passes = [each["shared"]["passes"] for each in every]
    assert passes[0::2] == passes[1::2] and sum(passes[0::2]) == alone["shared"]["passes"] > 20
    assert min(passes) > 0.3 * sum(passes[0::2]), "each pair has its share"
    expected = alone | {"shared": alone["shared"]["heads"]}
    for found in (each | {"shared": each["shared"]["heads"]} for each in every):
        for name in expected:
            assert apart(numbers(found[name]), numbers(expected[name])) <= SAME.get(name, 1e-6)


REFUSING = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.distributed.configuration_utils import DistributedConfig
from headcount import Corpus, load, measure
from headcount.core import InputError, processes

processes()
place = sys.argv[1]
copies = DistributedConfig(tp_size=2, dp_replicate_size=2)
split = AutoModelForCausalLM.from_pretrained(place, distributed_config=copies)
tokenizer = AutoTokenizer.from_pretrained(place)
for do in (
    lambda: load(place, device="tp:3"),
    lambda: measure(split, Corpus(["a"]), None, tokenizer),
):
    try:
        do()
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_copies_that_are_refused(folder: Path) -> None:
    """A number that divides no number of processes, and transformers' own copies by FSDP."""
    for process in ranks("-c", REFUSING, folder, number=4):
        output, errors = process.communicate()
        assert output.count("\n") == 2, errors
        assert "divides the 4 processes of this run, got tp:3. Name another" in output
        assert "got a FSDPLlamaForCausalLM sharded by FSDP" in output
