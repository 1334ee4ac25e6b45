"""Relevance of heads and tokens against the textbook, module by module without gradients."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headcount.core import InputError
from headcount.importance import relevance, start_of, token_relevance
from headcount.importance.lrp.relevance import STARTS, Starts
from headcount.tasks import TASKS, Classification, Regression, TaskBatch, drawn
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined, examined_double
from tests.importance.lrp_cases import InDouble, first_two, rows
from tests.tasks import loaded as small
from tests.tasks.tiny_task import TinyTask
from tests.textbook import lrp as textbook

RULES = pytest.mark.parametrize("rules", ["voita2019", "attnlrp"])
MODELS = pytest.mark.parametrize("name", ["bert", "llama"])


def slow(name: str, row: dict[str, Tensor], rules: str, position: int) -> tuple[Any, Any]:
    """Relevance of tokens and of heads [layer][head], of one row without padding."""
    model, _ = examined_double(name)
    is_token = row["attention_mask"].bool()
    with torch.no_grad(), InDouble():
        ids = row["input_ids"][is_token][None]
        hidden = model(ids, output_hidden_states=True).hidden_states[0][0].numpy()
    weights = {name: each.numpy() for name, each in model.state_dict().items()}
    config = model.config
    if name == "bert":
        return textbook.bert(hidden, weights, config.num_attention_heads, rules, position)
    groups = (config.num_attention_heads, config.num_key_value_heads)
    theta = config.rope_parameters["rope_theta"]
    return textbook.llama(hidden, weights, *groups, theta, rules, position)


@pytest.mark.once
@RULES
@MODELS
def test_heads_equal_the_textbook_step_by_step_and_together(name: str, rules: Any) -> None:
    model, anatomy = examined_double(name)
    steps, together = [], []
    for row, positions in rows(name):
        heads = [slow(name, row, rules, position)[1] for position in positions]
        steps += [textbook.normalised(each) for each in heads]
        summed = [np.sum(layers, 0) for layers in zip(*heads, strict=True)]
        together += [textbook.normalised(summed)] * len(positions)
    run = partial(relevance, model, TinyTask(model), rules, anatomy, start=first_two)
    for per_step, expected in ((True, steps), (False, together)):
        with InDouble():
            found = run(per_step=per_step)
        assert (found.num_steps, found.rules) == (8, rules)
        for (_, layer), scores_H in found.scores.items():
            mean = np.mean([step[layer] for step in expected], 0)
            np.testing.assert_allclose(scores_H.numpy(), mean, rtol=1e-6, atol=1e-9)


@RULES
@MODELS
def test_tokens_equal_the_textbook(name: str, rules: Any) -> None:
    model, anatomy = examined_double(name)
    inputs = tiny.inputs(model)
    with InDouble(), torch.no_grad():
        (found_RN,) = token_relevance(
            model, inputs, lambda output: output.logits[:, 1].max(-1).values, rules, anatomy
        ).values()
    assert len(found_RN) == len(inputs["input_ids"])
    for number, found_N in enumerate(found_RN):
        row = {name: each[number] for name, each in inputs.items()}
        tokens, _ = slow(name, row, rules, 1)
        np.testing.assert_allclose(found_N[: len(tokens)].numpy(), tokens, rtol=1e-6, atol=1e-9)
        assert not found_N[len(tokens) :].any()


def test_the_textbook_shares_by_definition() -> None:
    rng = np.random.default_rng(3)
    x, w, b, R = rng.normal(size=5), rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=3)
    z = w @ x + b
    shares = textbook.shares(x, w, z, R)
    np.testing.assert_allclose(shares, textbook.shares_fast(x, w, z, R))
    assert shares.sum() == pytest.approx(sum(R * (z - b) / z))


def test_one_step_of_one_example_is_normalised_over_the_heads_of_each_layer() -> None:
    model, anatomy = examined("m2m_100")
    task = TinyTask(model)
    task.inputs = [{name: tensor[:1] for name, tensor in task.inputs[0].items()}]
    batch = next(TinyTask(model).batches())
    single = TaskBatch(task.inputs[0], {}, batch.example_R[:1], batch.index_E[:1])
    task.batches = lambda max_tokens=4096: iter([single])  # type: ignore[method-assign]

    def start(model: Any, batch: TaskBatch) -> Starts:
        value_ES = model(**batch.inputs).logits[:, -1:].max(-1).values
        return Starts(value_ES, torch.ones_like(value_ES, dtype=torch.bool))

    with torch.no_grad():  # as another caller may have set it
        found = relevance(model, task, "voita2019", anatomy, start=start)
    assert {site for site, _ in found.scores} == {"encoder.self", "decoder.self", "decoder.cross"}
    for scores_H in found.scores.values():
        assert scores_H.dtype == torch.float64
        assert scores_H.abs().sum().item() == pytest.approx(1, rel=1e-9)


# The tap can't be checked on BART's classifier: it needs an end of sentence in every row.
@pytest.mark.once
@pytest.mark.parametrize("name", sorted(set(small.TASKS) - {"classes-bart"}))
def test_every_task_says_where_relevance_starts(name: str) -> None:
    loaded, task = small.TASKS[name]()
    batch = next(task.batches(200))
    inputs = batch.inputs
    with torch.no_grad():
        losses = task.losses(loaded.model, batch)
        starts = start_of(task)(loaded.model, batch)
    if task.name != "choice":  # the tokens of the right choice
        assert torch.equal(starts.is_step_ES.sum(1), losses.count_E)
    if task.name == "similarity":
        torch.testing.assert_close(starts.value_ES[:, 0], losses.outcome_E)
    if task.name == "classification":
        logits_EC = loaded.model(**inputs).logits.detach()
        assert torch.equal(starts.value_ES[:, 0], logits_EC.amax(1))
    with leaving_no_trace(loaded.model, {name: each.clone() for name, each in inputs.items()}):
        found = relevance(loaded.model, task, "voita2019", loaded.anatomy)
    assert found.scores.keys() == {layer.layer_id for layer in loaded.anatomy.layers}
    for scores_H in found.scores.values():
        assert scores_H.isfinite().all() and 0 < scores_H.abs().sum() <= 1 + 1e-9
    steps = [start_of(task)(loaded.model, each).is_step_ES.sum() for each in task.batches()]
    assert found.num_steps == int(sum(steps))


def test_relevance_of_examples_drawn() -> None:
    """`prune` passes such tasks, except translation."""
    loaded, dense = small.TASKS["similarity-bert"]()
    most = dense.num_examples - 2
    found = relevance(loaded.model, drawn(dense, most, seed=3), anatomy=loaded.anatomy)
    index_E = np.sort(np.random.default_rng(3).choice(dense.num_examples, most, replace=False))
    batch, task = dense.batch(index_E), TinyTask(loaded.model)
    task.batches = lambda max_tokens=4096: iter([batch])  # type: ignore[method-assign]
    expected = relevance(loaded.model, task, anatomy=loaded.anatomy, start=start_of(dense))
    assert found.num_steps == most
    for place, scores_H in expected.scores.items():
        torch.testing.assert_close(found.scores[place], scores_H, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_batches_do_not_matter() -> None:
    for name in ("similarity", "translation"):
        loaded, task = next(small.TASKS[key]() for key in small.TASKS if key.startswith(name))
        few, many = (
            relevance(loaded.model, task, anatomy=loaded.anatomy, max_tokens=size)
            for size in (40, 10**6)
        )
        assert few.scores.keys() == {layer.layer_id for layer in loaded.anatomy.layers}
        for place, scores_H in few.scores.items():
            torch.testing.assert_close(scores_H, many.scores[place], rtol=1e-3, atol=1e-4)


def test_a_task_of_another_kind_needs_a_start() -> None:
    model, anatomy = examined("bert")
    with pytest.raises(InputError, match=r"got TinyTask\. Pass .* relevance\(\.\.\., start="):
        relevance(model, TinyTask(model), anatomy=anatomy)
    # Relevance does not go through a convolution, with which models that hear begin
    own = {TASKS[name] for name in TASKS.own} - {TASKS["classification"], TASKS["transcription"]}
    assert set(STARTS) == own | {Classification, Regression}
