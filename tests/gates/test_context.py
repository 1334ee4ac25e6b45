"""Gates in a model: one draw per forward, gradients, no trace, and the model's own training."""

import copy
from contextlib import suppress

import pytest
import torch
from transformers import PreTrainedModel

from headcount.compaction import compact
from headcount.core import Heads, InputError, LayerId, ModelError
from headcount.gates import Fixed, HardConcrete, L0Penalty, Layout, gating
from headcount.models import GATES, Loaded
from headcount.tap import gated
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined

EVERY = pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian", "albert"])


def hard_concrete(layout: Layout, **options) -> HardConcrete:
    return HardConcrete(layout, L0Penalty(layout, 0.1), **options)


def said(model: PreTrainedModel) -> torch.Tensor:
    return model(**tiny.inputs(model)).logits


@EVERY
def test_gates_leave_no_trace(name: str) -> None:
    """It holds after an error and after training the gates, too."""
    model, anatomy = examined(name)
    gates = hard_concrete(Layout.each(anatomy.heads), start=0.0)
    with leaving_no_trace(model, tiny.inputs(model)), suppress(ZeroDivisionError):
        with gating(model, gates, anatomy):
            assert model.get_submodule(GATES) is gates
            gates.train()
            said(model).sum().backward()
            raise ZeroDivisionError
    assert gates.log_a.grad is not None and (gates.log_a.grad != 0).any()
    for parameter in model.parameters():
        parameter.grad = None


@pytest.mark.once
@EVERY
def test_gates_of_one_change_nothing_in_training(name: str) -> None:
    """Dropout, also of attention weights, equals the stock model's number by number."""
    model = copy.deepcopy(examined(name)[0]).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.2
        for attribute in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.2)
    ones = Fixed(
        {
            LayerId(site, layer): torch.ones(count)
            for site, counts in examined(name)[1].heads.counts.items()
            for layer, count in enumerate(counts)
        }
    )
    torch.manual_seed(3)
    stock = said(model)
    with gating(model, ones):
        torch.manual_seed(3)
        torch.testing.assert_close(said(model), stock, rtol=1e-4, atol=1e-4)
        torch.manual_seed(4)
        assert not torch.allclose(said(model), stock, atol=1e-2), "there is dropout"


def test_a_draw_for_every_forward() -> None:
    """One draw for all layers, in the model or its body; none in evaluation or inside a draw."""
    model, anatomy = examined("marian")
    gates = hard_concrete(Layout.each(anatomy.heads), start=0.0)
    with gating(model, gates, anatomy), torch.no_grad():
        evaluated = said(model)
        assert int(gates.num_draws) == 0
        gates.train()
        first, second = said(model), said(model)
        assert int(gates.num_draws) == 2 and not torch.equal(first, second)
        model.base_model(**tiny.inputs(model))
        assert int(gates.num_draws) == 3
        gates.eval()
        encoder = model.get_encoder()
        inputs = {key: tiny.inputs(model)[key] for key in ("input_ids", "attention_mask")}
        alone = encoder(**inputs).last_hidden_state
        torch.testing.assert_close(said(model), evaluated)
        torch.testing.assert_close(alone, encoder(**inputs).last_hidden_state)


def test_a_side_alone_has_a_draw_of_its_own() -> None:
    """A training may call the encoder first, then the model with the encoder's output."""
    model, anatomy = examined("marian")
    gates = hard_concrete(Layout.each(anatomy.heads), start=0.0)
    inputs = tiny.inputs(model)
    source = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    with gating(model, gates, anatomy):
        gates.train()
        for step in range(2):
            states = model.get_encoder()(**source)
            model(**inputs | {"encoder_outputs": states}).logits.sum().backward()
            assert int(gates.num_draws) == 2 * (step + 1)
        gates.eval()
        before = model.get_encoder()(**source).last_hidden_state
        gates.log_a.data.fill_(5.0)
        assert not torch.equal(model.get_encoder()(**source).last_hidden_state, before)
    for parameter in model.parameters():
        parameter.grad = None


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian"])
def test_layers_that_run_again_have_the_same_draw(name: str) -> None:
    """Gradient checkpointing does not change the gradients of gates."""
    model = copy.deepcopy(examined(name)[0]).train()
    slopes = []
    for again in (False, True):
        if again:
            tiny.recomputing(model)
        gates = hard_concrete(Layout.each(examined(name)[1].heads), start=0.0)
        with gating(model, gates):
            torch.manual_seed(3)
            said(model).square().mean().backward()
        slopes.append(gates.log_a.grad)
    assert any(getattr(each, "gradient_checkpointing", False) for each in model.modules())
    assert slopes[0].any()
    torch.testing.assert_close(slopes[0], slopes[1])


def test_gates_multiply_heads() -> None:
    """A gate's gradient equals that of a factor on the head's output, by finite differences."""
    model, anatomy = examined("llama")
    gates = hard_concrete(Layout.each(anatomy.heads), evaluation="mean", start=0.0)
    with gating(model, gates, anatomy):
        said(model)[0, -1, 3].backward()
        assert gates.log_a.grad is not None
        slope = gates.log_a.grad[2].item()
        values = []
        for step in (-0.02, 0.02):
            with torch.no_grad():
                gates.log_a[2] = step
                values.append(said(model)[0, -1, 3].item())
    assert (values[1] - values[0]) / 0.04 == pytest.approx(slope, rel=2e-2)
    for parameter in model.parameters():
        parameter.grad = None


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_gates_that_are_no_numbers_are_refused(number: float) -> None:
    with pytest.raises(ModelError, match="Expected finite gates, got .* for layer 1 of enc"):
        Fixed({LayerId("encoder.self", 1): torch.tensor([1.0, number])})
    model, _ = examined("bert")
    with pytest.raises(ModelError, match=r"Expected a finite number as the gate of enc\.1\.0"):
        with gated(model, {"enc.1.0": number}):
            pass


@pytest.mark.slow
def test_a_plan_made_in_the_block_fits_after_it() -> None:
    """Gates are not part of the model's revision; nothing is pruned while they are attached."""
    from headcount.pruning import Units, plan_of

    model, anatomy = examined("bert")
    loaded = Loaded(model, None, "bert")
    units = Units.of(anatomy)
    gates = hard_concrete(Layout(units.heads, units.units))
    with gating(model, gates, anatomy):
        plan = plan_of(gates, loaded, units, 6)
        with pytest.raises(InputError, match="this one is in a gating block"):
            compact(model, plan)
    assert len(plan.kept_heads(anatomy.heads)) == 6
    compact(model, plan)
    gates.log_a.data[3] = torch.nan
    with pytest.raises(ModelError, match=r"got nan for enc\.\d\.\d"):
        plan_of(gates, loaded, units, 6)


def test_gates_of_another_model_are_refused() -> None:
    model, anatomy = examined("bert")
    with leaving_no_trace(model, tiny.inputs(model)):
        for number in (2, 7):
            gates = hard_concrete(Layout.each(Heads({"encoder.self": (number,)})))
            with pytest.raises(ModelError, match=f"got {number} for layer 0 of encoder.self"):
                with gating(model, gates, anatomy):
                    pass
        good = hard_concrete(Layout.each(anatomy.heads))
        with gating(model, good, anatomy), pytest.raises(ModelError, match="is in a gating block"):
            with gating(model, good, anatomy):
                pass
