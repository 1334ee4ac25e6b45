"""Muon and AdamW: a textbook step, the parameters of each, schedules and states of both."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from transformers.pytorch_utils import Conv1D

from headcount.training.muon import BFLOAT16_UNITS, MuonAdamW
from tests.tasks.loaded import loaded

LR, BETA2 = 1e-2, 0.98


class Tied(nn.Module):
    """A model with a tied embedding, a tall and a wide matrix, a bias, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 12)
        self.tall, self.wide = nn.Linear(12, 20), nn.Linear(20, 12)
        self.norm = nn.LayerNorm(12)
        self.output = nn.Linear(12, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, id_N: Tensor) -> Tensor:
        inner = self.tall(self.embedding(id_N)).relu()
        return self.output(self.norm(self.wide(inner)))


@pytest.fixture
def model() -> Tied:
    torch.manual_seed(0)
    return Tied()


def _backward(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(7, (30,), generator=generator)
    model.zero_grad()
    nn.functional.cross_entropy(model(ids), ids.roll(1)).backward()


def _orthogonal(gradient: Tensor) -> Tensor:
    """U V' of the singular value decomposition, which Newton-Schulz iterations approximate."""
    u, _, vh = torch.linalg.svd(gradient.double(), full_matrices=False)
    return u @ vh


def _newton_schulz(gradient: Tensor) -> Tensor:
    """Five quintic iterations, spelled out."""
    x = gradient / gradient.norm()
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
    return x


def test_a_step_is_orthogonal_and_of_adamws_size(model: Tied) -> None:
    """The first step, whose momentum is a multiple of the gradient."""
    before = deepcopy(model)
    optimizer = MuonAdamW(model, LR, BETA2)
    for weight in model.parameters():
        weight.grad = 100 * torch.randn_like(weight)
    optimizer.step()
    for name in ("tall", "wide"):
        old, layer = getattr(before, name), getattr(model, name)
        step = ((1 - 0.1 * LR) * old.weight - layer.weight).double() / (0.2 * 20**0.5 * LR)
        expected = _orthogonal(layer.weight.grad)
        assert nn.functional.cosine_similarity(step.flatten(), expected.flatten(), 0) > 0.95, name
        found = torch.linalg.svdvals(step)
        assert 0.5 < found.min() and found.max() < 1.3, name


@pytest.mark.parametrize("unit", [None, *BFLOAT16_UNITS])
def test_iterations_take_the_format_that_the_processor_has(
    unit: str | None, model: Tied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 a step has eight bits of mantissa; in float32 it equals the textbook's."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {unit: True})
    weight = model.wide.weight
    gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    before, weight.grad = weight.detach().double(), gradient.clone()
    MuonAdamW(model, LR, BETA2).step()
    step = ((1 - 0.1 * LR) * before - weight.detach()) / (0.2 * 20**0.5 * LR)
    error = (step - _newton_schulz(gradient.double())).abs().max().item()
    assert error < 1e-5 if unit is None else 1e-3 < error < 0.1
    assert torch.equal(weight.grad, gradient)


def test_the_rest_is_adamws(model: Tied) -> None:
    """AdamW trains embeddings (tied or not), biases and norms without weight decay."""
    alone = deepcopy(model)
    rest = [alone.embedding.weight, alone.tall.bias, alone.wide.bias, *alone.norm.parameters()]
    optimizer = MuonAdamW(model, LR, BETA2)
    adamw = AdamW(rest, lr=LR, betas=(0.9, BETA2), weight_decay=0.0)
    for seed in range(3):
        alone.tall.weight.data.copy_(model.tall.weight.data)
        alone.wide.weight.data.copy_(model.wide.weight.data)
        for each, theirs in ((model, optimizer), (alone, adamw)):
            _backward(each, seed)
            theirs.step()
    names = {"embedding.weight", "tall.bias", "wide.bias", "norm.weight", "norm.bias"}
    expected, trained = dict(alone.named_parameters()), dict(model.named_parameters())
    for name in names:
        torch.testing.assert_close(trained[name], expected[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("LlamaForCausalLM", "lm_head.weight"),
        ("T5ForConditionalGeneration", "lm_head.weight"),
        ("BertForSequenceClassification", "classifier.weight"),
        ("GPT2LMHeadModel", "lm_head.weight"),
        ("MarianMTModel", "lm_head.weight"),
    ],
)
def test_of_a_transformer_the_maps_of_its_layers(name: str, output: str) -> None:
    """Conv1D matrices, with inputs in rows, count too; embeddings and outputs do not."""
    model = loaded(name, tie_word_embeddings=False).model
    found = {id(w) for w in MuonAdamW(model, LR, BETA2).param_groups[0]["params"]}
    names = {key for key, each in model.named_parameters() if id(each) in found}
    maps = (nn.Linear, Conv1D)
    every = {f"{key}.weight" for key, each in model.named_modules() if isinstance(each, maps)}
    assert output in every and names == every - {output} and names


def test_every_weight_is_trained_once(model: Tied) -> None:
    model.norm.bias.requires_grad_(False)
    model.tall.weight.requires_grad_(False)
    groups = MuonAdamW(model, LR, BETA2).param_groups
    chosen = [id(weight) for group in groups for weight in group["params"]]
    expected = [id(weight) for weight in model.parameters() if weight.requires_grad]
    assert sorted(chosen) == sorted(expected)
    assert [id(weight) for weight in groups[0]["params"]] == [id(model.wide.weight)]


def test_a_schedule_reaches_both_after_loading_too(model: Tied) -> None:
    first = MuonAdamW(model, LR, BETA2)
    _backward(model, 0)
    first.step()
    copy = deepcopy(model)
    second = MuonAdamW(copy, 1.0, 0.5)
    second.load_state_dict(deepcopy(first.state_dict()))
    for each, optimizer in ((model, first), (copy, second)):
        schedule = LambdaLR(optimizer, lambda step: 0.0 if step else 0.5)
        _backward(each, 1)
        optimizer.step()
        schedule.step()
    for ours, theirs in zip(model.parameters(), copy.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    still = deepcopy(copy)
    _backward(copy, 2)
    second.step()
    for ours, theirs in zip(copy.parameters(), still.parameters(), strict=True):
        assert torch.equal(ours, theirs), "at rate 0"


def test_a_closure_is_called_with_gradients(model: Tied) -> None:
    optimizer = MuonAdamW(model, LR, BETA2)
    before = deepcopy(model)

    def closure() -> float:
        _backward(model, 0)
        return 3.0

    assert optimizer.step(closure) == 3.0
    assert not torch.equal(before.tall.weight, model.tall.weight)
