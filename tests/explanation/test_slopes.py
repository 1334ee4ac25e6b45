"""Slopes by the book: integrated gradients by hand, and RelP on a model with other parts."""

from typing import Any

import numpy as np
import pytest
import torch

from headcount.explanation import ExplainOptions, Prompt, explain
from headcount.explanation.reader import Reader
from headcount.explanation.runs import Row
from headcount.models import Loaded
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

LLAMA = "LlamaForCausalLM"
PROMPTS = [
    Prompt("The old dog barked at the", " moon", " dog", "The old moon barked at the"),
    Prompt("She doesn't believe that her", " sister", " dog", "She doesn't hear that her"),
]
NAMES = ("integrated-5", "integrated-10", "relp")


def _slopes(held: Loaded, row: Row, embedded_1TW: torch.Tensor, is_logit: bool) -> dict[Any, Any]:
    """The gradient of what is read of a row at what enters every output projection."""
    model, seen = held.model, dict[Any, torch.Tensor]()
    hooks = []
    for layer, module in enumerate(book.projections(model)["decoder.self"]):

        def hear(_: Any, given: Any, layer: int = layer) -> Any:
            seen[layer] = given[0].detach().requires_grad_() if not layer else given[0]
            if layer:
                seen[layer].retain_grad()
            return (seen[layer],)

        hooks.append(module.register_forward_pre_hook(hear))
    logits = model(inputs_embeds=embedded_1TW).logits[0].double()
    for hook in hooks:
        hook.remove()
    if not is_logit:
        logits = logits.log_softmax(-1)
    read = [each.sign * logits[each.place, each.token] for each in row.readings]
    start = torch.stack(read).sum()
    found = torch.autograd.grad(start, [*seen.values()])
    return dict(zip(seen, (each[0] for each in found), strict=True))


def _estimate(held: Loaded, prompt: Prompt, steps: int) -> np.ndarray:
    """Mean slopes times differences, over rows, tokens and dimensions; RelP's for 0 steps."""
    case, dim = Reader(held, ExplainOptions()).case(prompt), book.sizes(held.model)
    total = np.zeros((2, 6))
    embed: Any = held.model.get_input_embeddings()
    for row, other in zip(case.rows, case.corrupt or (), strict=True):
        clean, corrupt = (book.head_inputs(held.model, each.inputs(held)) for each in (row, other))
        here, there = (embed(torch.tensor([each.ids])) for each in (row, other))
        there = there[:, [*row.in_other]]
        for step in range(1, max(steps, 1) + 1):
            at = there + step / steps * (here - there) if steps else here
            slopes = _slopes(held, row, at.detach(), is_logit=not steps)
            for layer in range(2):
                key = ("decoder.self", layer)
                change = clean[key] - corrupt[key][[*row.in_other]]
                product = (slopes[layer] * change).unflatten(1, (-1, dim)).sum((0, 2))
                total[layer] += product.detach().double().numpy() / max(steps, 1)
    return total


@pytest.mark.slow
def test_integrated_gradients_are_those_of_the_book() -> None:
    held = loaded(LLAMA)
    options = ExplainOptions(effects=("integrated-5", "integrated-10"))
    found = explain(held, PROMPTS, options=options)
    for name, steps in [("integrated-5", 5), ("integrated-10", 10)]:
        expected = np.mean([_estimate(held, each, steps) for each in PROMPTS], 0)
        for head in held.heads:
            value = found.of(name)[str(head)].value
            assert value == pytest.approx(expected[head.layer, head.index], abs=2e-5)


def test_relp_is_that_of_a_rewritten_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms by a constant, weights of attention constant, SiLU by its factor, products halved."""
    held = loaded(LLAMA)
    found = explain(held, PROMPTS, options=ExplainOptions(effects=("relp",)))
    model: Any = held.model
    norm, mlp = type(model.model.norm), type(model.model.layers[0].mlp)

    def scaled(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        scale = (hidden.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt().detach()
        return self.weight * hidden * scale

    def halved(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_proj(hidden), self.up_proj(hidden)
        gate = gate * gate.sigmoid().detach()
        product = (gate * up.detach() + gate.detach() * up) / 2
        return self.down_proj(product)

    softmax = torch.nn.functional.softmax
    model.set_attn_implementation("eager")
    monkeypatch.setattr(norm, "forward", scaled)
    monkeypatch.setattr(mlp, "forward", halved)
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda *given, **more: softmax(*given, **more).detach()
    )
    try:
        expected = np.mean([_estimate(held, each, 0) for each in PROMPTS], 0)
    finally:
        model.set_attn_implementation("sdpa")
    for head in held.heads:
        value = found.of("relp")[str(head)].value
        assert value == pytest.approx(expected[head.layer, head.index], abs=2e-5)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "T5ForConditionalGeneration"])
def test_other_kinds_of_models_have_them_too(name: str) -> None:
    """Tokens of a decoder are the same in both prompts, so only what the encoder reads moves."""
    asked = {
        "BertForMaskedLM": ("The old [MASK] barked", "dog", "moon", "The green [MASK] barked"),
        "T5ForConditionalGeneration": ("The old dog", "Hund", "Mond", "The old moon"),
    }[name]
    options = ExplainOptions(effects=(*NAMES, "estimate"), together=())
    found = explain(loaded(name), *asked, options=options)
    assert {*found.measured} == {*NAMES, "estimate"}
    rows = {each: found.of(each) for each in found.measured}
    values = {each: [row.value for row in by.values()] for each, by in rows.items()}
    assert np.isfinite([*values.values()]).all() and any(values["relp"])
    assert values["integrated-5"] != values["estimate"]
