"""An assessment holds the results of the single functions in one table, and their inputs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.core import Head, InputError, forget
from headcount.importance import (
    Options,
    ablation,
    ablation_effects,
    all_but_one,
    assess,
    gradient,
    norm,
    relevance,
    single_heads,
    sink,
    whole_layers,
    whole_sites,
)
from headcount.importance.ablations import halves, replacement
from headcount.models import Loaded
from headcount.statistics import holm, loss_deltas
from headcount.tap import gated, tapped
from headcount.tasks import Classification, Similarity, Task, Translation, evaluate
from tests.tasks import loaded as small
from tests.textbook.cross_fit import cross_fitted

FEW = Options(samples=40)


def similarity() -> tuple[Any, Task]:
    loaded = small.loaded("BertModel")
    return loaded, Similarity(loaded, small.PAIRS)


def test_columns_are_those_of_the_single_functions() -> None:
    loaded, task = similarity()
    found = assess(loaded, task, FEW).columns
    model, anatomy = loaded.model, loaded.anatomy
    expected = {
        "gradient": gradient(model, task, anatomy=anatomy),
        "relevance": relevance(model, task, anatomy=anatomy).scores,
        "ablation_delta": ablation(model, task, anatomy=anatomy),
        "norm_score": norm(model, task, anatomy),
        "sink_score": sink(model, task, anatomy),
    }
    for name, scores in expected.items():
        column = [float(scores[head.layer_id][head.index]) for head in loaded.heads]
        np.testing.assert_allclose(found[name], column, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_options_reach_the_methods() -> None:
    loaded, task = similarity()
    plain = assess(loaded, task, replace(FEW, methods=("gradient", "relevance", "ablation")))
    for change, column in [
        ({"level": "batch"}, "gradient"),
        ({"normalise": False}, "gradient"),
        ({"rules": "attnlrp"}, "relevance"),
        ({"instead": "mean"}, "ablation_delta"),
        ({"quantity": "score"}, "ablation_delta"),
        ({"seed": 1}, "ablation_low"),
        ({"samples": 80}, "ablation_high"),
    ]:
        options: Any = {"methods": plain.record.methods, **change}
        other = assess(loaded, task, replace(FEW, **options))
        assert not np.allclose(plain.columns[column], other.columns[column], rtol=1e-6), change
        assert plain.record.signature != other.record.signature, change


@pytest.mark.slow
def test_relevance_has_the_average_that_was_asked_for() -> None:
    """The steps of an example together, or each alone as published; the record says which."""
    loaded = small.loaded("MarianMTModel", **ONE_LAYER)
    task = short(loaded)
    signatures = set()
    for average in ("per-example", "per-step"):
        options: Any = {"methods": ("relevance",), "average": average}
        found = assess(loaded, task, Options(**options))
        per_step = average == "per-step"
        scores = relevance(loaded.model, task, per_step=per_step).scores
        column = [float(scores[head.layer_id][head.index]) for head in loaded.heads]
        np.testing.assert_allclose(found.columns["relevance"], column, rtol=1e-6)
        assert ("as in Voita et al. (2019)" in found.record.average_words) == per_step
        assert ("target steps are normalised together" in found.record.average_words) != per_step
        signatures.add(found.record.signature)
    assert len(signatures) == 2


def test_both_averages_of_one_step_are_equal() -> None:
    loaded, task = similarity()
    found = [
        assess(loaded, task, Options(methods=("relevance",), average=average))
        for average in ("per-example", "per-step")
    ]
    np.testing.assert_allclose(*(each.columns["relevance"] for each in found), rtol=1e-6)
    words = {each.record.average_words for each in found}
    assert words == {"Relevance is the mean over examples, each of one step (Voita et al., 2019)."}


@pytest.mark.slow
def test_batches_are_signed_where_they_matter() -> None:
    loaded, task = similarity()

    def signed(level: str, max_tokens: int) -> str:
        options: Any = {"methods": ("gradient",), "level": level}
        found = assess(loaded, task, replace(FEW, **options), max_tokens=max_tokens)
        return found.record.signature

    assert signed("batch", 64) != signed("batch", 4096)
    assert signed("sample", 64) == signed("sample", 4096)


@pytest.mark.slow
def test_p_values_before_and_after_holm() -> None:
    loaded, task = similarity()
    found = assess(loaded, task, replace(FEW, methods=("ablation",)))
    base = evaluate(loaded.model, task)
    losses = []
    for each in single_heads(loaded.heads):
        with gated(loaded.model, {each.name: 0}):
            losses.append(evaluate(loaded.model, task).loss_N)
    deltas = loss_deltas(np.array(losses), base.loss_N, base.count_N, 40)
    facts = found.record.ablation
    assert facts is not None
    np.testing.assert_allclose(facts.p_each, deltas.p)
    np.testing.assert_allclose(found.columns["ablation_p"], holm(deltas.p))
    assert any(found.columns["ablation_p"] > deltas.p)
    assert found.record.warnings[0].startswith("intervals and p-values from 7 examples are rough")
    gradients = assess(loaded, task, replace(FEW, methods=("gradient",)))
    assert not gradients.record.warnings


def cross_fitted_delta(loaded: Any, task: Task, heads: list[str], chosen: tuple[str, ...]) -> float:
    """The mean rise of the loss with the head of a layer that the other half chose."""
    half = halves(task.num_examples, 0)[0].tolist()
    losses = []
    for kept in heads:
        with gated(loaded.model, {head: 0 for head in heads if head != kept}):
            losses.append(evaluate(loaded.model, task).loss_N.tolist())
    one, other, mean = cross_fitted(losses, half)
    assert (heads[one], heads[other]) == chosen
    return mean - evaluate(loaded.model, task).loss


@pytest.mark.slow
def test_of_each_layer_the_head_that_does_best_alone() -> None:
    loaded, task = similarity()
    record = assess(loaded, task, replace(FEW, methods=("ablation",))).record
    base = evaluate(loaded.model, task).loss
    expected = {}
    for each in all_but_one(loaded.heads):
        with gated(loaded.model, {str(head): 0 for head in each.heads}):
            expected[str(each.kept)] = evaluate(loaded.model, task).loss - base
    found = {one.head: one.delta for one in record.all_but_one}
    assert found == pytest.approx(expected, abs=1e-6)
    for one in record.single_heads:
        layer = [head for head in expected if Head.parse(head).layer == one.layer]
        assert one.head == min(layer, key=expected.__getitem__)
        crossed = cross_fitted_delta(loaded, task, layer, one.halves)
        assert one.delta == pytest.approx(crossed, abs=1e-6)
    assert len(record.single_heads) == len(record.layers) == 2
    for one in record.sites:
        with gated(loaded.model, {str(head): 0 for head in loaded.heads}):
            without = evaluate(loaded.model, task).loss
        assert one.delta == pytest.approx(without - base, abs=1e-6)
    groups = (*record.sites, *record.layers, *record.all_but_one)
    for family in (groups, record.single_heads):
        each = np.array([one.p_each for one in family])
        corrected = [one.p for one in family]
        assert corrected == pytest.approx(holm(each)) and any(each < corrected)
    fewest = replace(FEW, methods=("ablation",), layers=False, one_left=False)
    short = assess(loaded, task, fewest).record
    assert not {"layers", "sites", "all_but_one"} & set(short.to_json())


ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1, "decoder_attention_heads": 5}


def short(loaded: Loaded, num_beams: int = 1) -> Translation:
    """A random model does not end its output by itself."""
    return Translation(
        loaded,
        small.TRANSLATIONS,
        metric="chrf",
        limit=3,
        num_beams=num_beams,
        generation={"max_new_tokens": 3},
    )


def count_translations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens in a batch, for every translation of the data."""
    calls: list[int] = []
    written = Translation.written

    def counted(self: Translation, model: Any, max_tokens: int = 4096) -> list[str]:
        calls.append(max_tokens)
        return written(self, model, max_tokens)

    monkeypatch.setattr(Translation, "written", counted)
    return calls


@pytest.mark.slow
def test_the_whole_model_translates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = small.loaded("MarianMTModel", **ONE_LAYER)
    task, calls = short(loaded), count_translations(monkeypatch)
    methods = Options(("ablation",), quantity="score", samples=10)
    found = assess(loaded, task, methods, max_tokens=64).record
    assert set(calls) == {64}
    layers = whole_layers(loaded.heads)
    groups = [*whole_sites(loaded.heads), *layers, *all_but_one(loaded.heads)]
    assert len(calls) == 1 + len(loaded.heads) + len(groups)
    deltas = [one.delta for one in found.layers]
    assert any(deltas)  # a tiny random model predicts nearly the same for everything
    for layer, delta in zip(layers, deltas, strict=True):
        with gated(loaded.model, {str(head): 0 for head in layer.heads}):
            without = task.score(evaluate(loaded.model, task, texts=True))
        assert delta == pytest.approx(found.score - without)


@pytest.mark.slow
def test_what_was_translated_is_not_translated_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded = small.loaded("MarianMTModel", **ONE_LAYER)
    task, calls = short(loaded), count_translations(monkeypatch)
    methods = Options(("ablation",), quantity="score", samples=10, one_left=False)
    dense = assess(loaded, task, methods)
    made = len(calls)

    def stop(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("translating", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assess(loaded, task, methods, tmp_path, stop)
    assert len(calls) == made + 1 + 3
    again = assess(loaded, task, methods, tmp_path)
    assert len(calls) == 2 * made + 1  # plus the dense model's pass, which is not an ablation
    for name, column in dense.columns.items():
        np.testing.assert_array_equal(again.columns[name], column)
    for part in ("sites", "layers", "ablation"):
        # NaN, the unknown interval of three examples, is not equal to itself
        assert repr(getattr(again.record, part)) == repr(getattr(dense.record, part))
    with pytest.raises(InputError, match="same model, data and options"):
        assess(loaded, short(loaded, num_beams=2), methods, tmp_path)
    forget(tmp_path / "state" / "scores.json")  # the finished score needs no translations
    for file in (tmp_path / "state").glob("translations.json*"):  # and the state before
        file.write_text('{"key": "torn')
    with pytest.raises(InputError, match="Expected the translations of an interrupted run"):
        assess(loaded, task, methods, tmp_path)


@pytest.mark.slow
def test_what_stands_in_for_a_head_does_so_in_translation_too() -> None:
    loaded = small.loaded("MarianMTModel", **ONE_LAYER)
    task = short(loaded)
    methods = Options(("ablation",), quantity="score", samples=10, instead="mean", one_left=False)
    found = assess(loaded, task, methods).record
    zeroed = assess(loaded, task, replace(methods, instead="zero")).record
    stand_in = replacement("mean", loaded.model, task, loaded.anatomy)
    deltas = [one.delta for one in found.layers]
    assert deltas != [one.delta for one in zeroed.layers]
    for layer, delta in zip(whole_layers(loaded.heads), deltas, strict=True):
        gates = {str(head): 0 for head in layer.heads}
        with tapped(loaded.model, None, gates, loaded.anatomy, stand_in):
            without = task.score(evaluate(loaded.model, task, texts=True))
        assert delta == pytest.approx(found.score - without)


def test_heads_are_ablated_on_some_examples_where_all_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a task that has these examples alone; other scores read all."""
    loaded, task = similarity()
    options = replace(FEW, methods=("gradient", "ablation"), one_left=False)
    whole = assess(loaded, task, options)
    assert whole.record.ablation is not None
    assert whole.record.ablation.num_examples == task.num_examples > 3
    order_N = np.random.default_rng(0).permutation(task.num_examples)
    num_sets = len(loaded.heads) + len(whole_layers(loaded.heads)) + len(whole_sites(loaded.heads))
    cost = 2 * num_sets * loaded.model.num_parameters(exclude_embeddings=True)
    monkeypatch.setattr(ablation_effects, "LEAST", 1)
    monkeypatch.setattr(ablation_effects, "OPERATIONS", cost * task.length_N[order_N[:3]].sum())
    found = assess(loaded, task, options)
    alone = assess(loaded, task.some(np.sort(order_N[:3])), options)
    for name in ("ablation_delta", "ablation_low", "ablation_p"):
        np.testing.assert_array_equal(found.columns[name], alone.columns[name])
    np.testing.assert_array_equal(found.columns["gradient"], whole.columns["gradient"])
    layers, same, others = (
        [each.delta for each in one.record.layers] for one in (found, alone, whole)
    )
    assert layers == same != others
    assert found.record.ablation is not None and found.record.ablation.num_examples == 3
    total = task.num_examples
    assert any(f"--ablated-examples {total}" in each for each in found.record.warnings)
    asked = assess(loaded, task, replace(options, ablated_examples=total))
    np.testing.assert_array_equal(asked.columns["ablation_p"], whole.columns["ablation_p"])


def test_bad_input() -> None:
    with pytest.raises(InputError, match="Expected ablated_examples of at least 1, got 0"):
        Options(ablated_examples=0)
    with pytest.raises(InputError, match="at least one example"):
        Classification(small.loaded("BertForSequenceClassification"), {"text": [], "label": []})
