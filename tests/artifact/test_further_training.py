"""A pruned model that was trained further gets its certificate, whatever compensated it."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.artifact.comparing import Data
from headcount.artifact.further_training import choice_of, dense_twin, origin_of
from headcount.artifact.making import save_compact
from headcount.compaction import compact
from headcount.core import ModelError
from headcount.models import Loaded, load, plan_for
from headcount.pruning.reconstruction import fold, output_moments
from headcount.results import CeilingRecord, ChoiceRecord, PruneRecord
from headcount.tap import difference
from tests import tiny
from tests.compaction.plans import some_heads
from tests.compaction.test_compact import run
from tests.tasks import loaded as small


def folded(name: str) -> tuple[Loaded, Loaded, Data]:
    """The model, its pruned version with mean outputs folded into biases, and batches."""
    loaded, task = small.TASKS[name]()
    plan = some_heads(loaded.anatomy, None)
    sums = output_moments(loaded.model, task, loaded.anatomy)
    compensated = fold(loaded, plan, sums)
    smaller = compact(compensated, plan_for(compensated, plan.kept_heads(loaded.heads)))
    return loaded, Loaded(smaller, loaded.tokenizer, "small"), Data.of_task(task, smaller, ("x",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal-llama", "causal-gpt2"])
def test_folding_gave_it_biases_that_the_whole_model_lacks(name: str, tmp_path: Path) -> None:
    dense, smaller, data = folded(name)
    before = copy.deepcopy(dense.model.state_dict())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in smaller.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    origin_of(smaller, dense).write(tmp_path, smaller, data)
    found = json.loads((tmp_path / "certificate.json").read_text())["comparisons"]
    assert [each["what"] for each in found] == ["compact and gated", "reloaded and gated"]
    assert all(each["share"] <= each["tolerance"] for each in found)
    assert (tmp_path / "README.md").exists()
    assert dense.model.state_dict().keys() == before.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
def test_a_compact_model_has_a_dense_twin(name: str, tmp_path: Path) -> None:
    """It has all heads and computes the same."""
    loaded = Loaded(tiny.MODELS[name](), None, name)
    save_compact(loaded, some_heads(loaded.anatomy, 1), tmp_path / "small")
    smaller = load(tmp_path / "small")
    assert len(smaller.heads) < len(loaded.heads)
    twin, batch = dense_twin(smaller), tiny.inputs(loaded.model)
    assert twin.heads == loaded.heads and type(twin.model) is type(loaded.model)
    assert difference(run(twin.model, batch), run(smaller.model, batch)) < 1e-6


def test_sentences_on_other_numbers_are_not_repeated(tmp_path: Path) -> None:
    """A model pruned twice: its heads were renumbered before the second time."""
    dense, smaller, data = folded("causal-llama")
    choice = ChoiceRecord(
        method="l0",
        options="L0()",
        limit={"keep": 2},
        keep=2,
        scores={"dec.0.0": 1.0},
        open={"decoder.self": 2},
        history=({"step": 1},),
    )
    origin = origin_of(smaller, dense)
    known = replace(choice_of(tmp_path, origin), choice=choice, ceiling=CeilingRecord(9, 1.2))
    origin.write(tmp_path, smaller, data, known)
    found = choice_of(tmp_path, origin)
    assert (found.choice, found.ceiling) == (known.choice, known.ceiling)
    record = PruneRecord.read(tmp_path)
    replace(record, heads={"decoder.self": (2, 2)}).write(tmp_path)
    found = choice_of(tmp_path, origin)
    assert found.ceiling is None and found.choice == ChoiceRecord("l0", "L0()", {"keep": 2}, 2)


@pytest.mark.slow
def test_of_another_size() -> None:
    _, smaller, _ = folded("causal-llama")
    wider = small.loaded("LlamaForCausalLM", intermediate_size=40)
    with pytest.raises(ModelError, match="Expected a teacher of the size that small was cut out"):
        origin_of(smaller, wider)
