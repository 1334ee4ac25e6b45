"""Quantized models are measured and gated, and refused where weights are cut or trained."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import headcount as hc
from headcount.core import ModelError, Plan
from headcount.models import revision
from tests import tiny_tokenizers
from tests.tasks.loaded import TEXTS, loaded, tokenizer

CORPUS = hc.Corpus.from_sentences([hc.Sentence(text) for text in TEXTS])
DATA: Any = {"text": list(tiny_tokenizers.SENTENCES)}


def plain() -> Any:
    return loaded("LlamaForCausalLM").model


def dynamic(folder: Path) -> Any:
    """Torch's own: int8 weights in modules without parameters."""
    return torch.ao.quantization.quantize_dynamic(plain(), {torch.nn.Linear}, torch.qint8)


def torchao(folder: Path) -> Any:
    from torchao.quantization import Int8WeightOnlyConfig  # pyright: ignore[reportMissingImports]

    plain().save_pretrained(folder)
    config = hf.TorchAoConfig(Int8WeightOnlyConfig())
    return hf.LlamaForCausalLM.from_pretrained(folder, quantization_config=config).eval()


def quanto(folder: Path) -> Any:
    plain().save_pretrained(folder)
    config = hf.QuantoConfig(weights="int8")
    return hf.LlamaForCausalLM.from_pretrained(folder, quantization_config=config).eval()


KINDS: dict[Callable[[Path], Any], tuple[str, str]] = {
    dynamic: ("torch", r"q_proj is a torch.ao.nn.quantized.dynamic\S+Linear"),
    torchao: ("torchao", r"quantized by torchao: model\S+q_proj.weight is a Int8Tensor"),
    quanto: ("optimum.quanto", r"quantized by quanto: model\S+q_proj.weight is a WeightQBytes"),
}
"""Makers of quantized models, with the package that each needs and what is said of it."""


def is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def quantized(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    package, _ = KINDS[request.param]
    if not is_there(package):
        pytest.skip(f"needs the package {package}")
    return request.param(tmp_path)


pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:torch.quantize_per:UserWarning"
)


@pytest.mark.slow
def test_it_is_measured_and_gated_as_the_plain_model_nearly_is(quantized: Any) -> None:
    tokens, gates, ids = tokenizer("llama"), {"dec.1.1": 0.0}, torch.arange(9, 16)[None]
    ours, plains = (
        hc.analyze(each, CORPUS, tokenizer=tokens).heads.frame for each in (quantized, plain())
    )
    for column in ("confidence", "entropy"):
        assert abs(ours[column] - plains[column]).max() < 0.1
    with torch.no_grad():
        before = quantized(ids).logits
        with hc.gated(quantized, gates):
            closed = quantized(ids).logits
        with hc.gated(plain(), gates):
            expected = plain()(ids).logits
    assert not torch.equal(before, closed)
    assert (closed - expected).abs().max() < 0.2 * expected.abs().max()


def test_it_is_not_made_smaller_or_trained(
    quantized: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind = request.node.callspec.params["quantized"]
    reported = KINDS[kind][1] + ".* can't be cut or trained, so it can be measured and gated"
    held = hc.Loaded(quantized, tokenizer("llama"), "quantized")
    plan, splits = (
        Plan({"decoder.self": {0: (0, 1, 2)}}),
        hc.TaskSplits.build("causal-lm", held, train=DATA, dev=DATA),
    )
    refused: tuple[Callable[[], Any], ...] = (
        lambda: hc.compact(held, plan),
        lambda: hc.prune(held, splits, "gradient", 6),
        lambda: hc.training.finetune(held, splits.train, hc.FinetuneConfig(updates=1)),
    )
    for work in refused:
        with pytest.raises(ModelError, match=reported):
            work()


NEED_GRADIENTS: dict[str, Callable[[hc.Loaded, Any], Any]] = {
    "gradient": lambda held, task: hc.importance.gradient(held, task),
    "relevance": lambda held, task: hc.importance.relevance(held, task),
    "alpha_beta": lambda held, task: hc.importance.relevance(held, task, "alpha_beta"),
    "sensitivity": lambda held, task: hc.importance.sensitivity(held, task),
    "assess": lambda held, task: hc.importance.assess(held, task),
    "fisher": lambda held, task: hc.choose_heads(held, task, "fisher", 6),
    "auto": lambda held, task: hc.choose_heads(held, task, "auto", 6),
}


@pytest.mark.once
@pytest.mark.parametrize("name", NEED_GRADIENTS)
def test_what_needs_gradients_says_that_torch_passes_none(name: str, tmp_path: Path) -> None:
    held = hc.Loaded(dynamic(tmp_path), tokenizer("llama"), "quantized")
    task = hc.tasks.build("causal-lm", held, DATA)
    with pytest.raises(ModelError, match=rf"quantized: \S+{KINDS[dynamic][1]}"):
        NEED_GRADIENTS[name](held, task)


@pytest.mark.slow
def test_what_needs_no_gradients_works(quantized: Any) -> None:
    held = hc.Loaded(quantized, tokenizer("llama"), "quantized")
    task = hc.tasks.build("causal-lm", held, DATA)
    methods = hc.importance.Options(methods=("ablation", "sink"), samples=100)
    assert len(hc.importance.assess(held, task, methods).columns) == 5
    assert len(hc.choose_heads(held, task, "ablation", 6).kept_heads(held.heads)) == 6


def test_gradients_are_near_those_of_the_plain_model(
    quantized: Any, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["quantized"] is dynamic:
        pytest.skip("torch passes no gradients")
    held = hc.Loaded(quantized, tokenizer("llama"), "quantized")
    task = hc.tasks.build("causal-lm", held, DATA)
    found, expected = hc.importance.gradient(held, task), hc.importance.gradient(plain(), task)
    assert all((found[place] - each).abs().max() < 0.1 for place, each in expected.items())
    with pytest.raises(ModelError, match=r"plain weights for relevance by alpha_beta.* quantized"):
        hc.importance.relevance(held, task, "alpha_beta")


def test_its_revision_is_that_of_its_weights(quantized: Any) -> None:
    found = revision(quantized)
    assert found == revision(quantized) != revision(plain())


def test_other_weights_have_another_revision() -> None:
    """Torch's quantized modules have no parameters."""
    one, other = plain(), loaded("LlamaForCausalLM", seed=3).model
    quantize: Any = torch.ao.quantization.quantize_dynamic
    state = {name: each * 1.5 for name, each in one.model.layers[0].mlp.state_dict().items()}
    other.load_state_dict(one.state_dict())
    other.model.layers[0].mlp.load_state_dict(state)
    kinds = {torch.nn.Linear}
    assert revision(quantize(one, kinds)) != revision(quantize(other, kinds))
