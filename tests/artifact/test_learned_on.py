"""A pruned model that learned on gets its certificate, whatever mending gave it."""

import copy
import json
from pathlib import Path

import pytest
import torch

from headcount.artifact.batches import Data
from headcount.artifact.learned_on import origin_of
from headcount.compaction import compact
from headcount.errors import ModelError
from headcount.models import Loaded
from headcount.pruning.folding import fold
from headcount.pruning.moments import moments
from headcount.pruning.plan import Plan
from tests.compaction.plans import some_heads
from tests.tasks import loaded as small

CPU = torch.device("cpu")


def folded(name: str) -> tuple[Loaded, Loaded, Data]:
    """The model, what is left of it with the means of the others in biases, and batches."""
    loaded, task = small.TASKS[name]()
    plan = some_heads(loaded.anatomy, None)
    sums = moments(loaded.model, task, loaded.anatomy)
    mended = fold(loaded, plan, sums)
    smaller = compact(mended, Plan.made_for(mended, plan.staying(loaded.heads)))
    return loaded, Loaded(smaller, loaded.tokenizer, "small"), Data.of_task(task, CPU, ("x",))


@pytest.mark.parametrize("name", ["causal-llama", "causal-gpt2"])
def test_folding_gave_it_biases_that_the_whole_model_lacks(name: str, tmp_path: Path) -> None:
    whole, smaller, data = folded(name)
    before = copy.deepcopy(whole.model.state_dict())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in smaller.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    origin_of(smaller, whole).write(tmp_path, smaller, data, {})
    found = json.loads((tmp_path / "certificate.json").read_text())["comparisons"]
    assert [each["what"] for each in found] == ["compact and gated", "reloaded and gated"]
    assert all(each["share"] <= each["tolerance"] for each in found)
    assert (tmp_path / "README.md").exists()
    assert whole.model.state_dict().keys() == before.keys()


def test_of_another_size() -> None:
    _, smaller, _ = folded("causal-llama")
    wider = small.loaded("LlamaForCausalLM", intermediate_size=40)
    with pytest.raises(ModelError, match="its teacher is of another size than small was cut out"):
        origin_of(smaller, wider)
