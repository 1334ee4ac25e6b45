"""Slices are thirds of a data set; functions are followed, overlap is found, changes are signed."""

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headcount.core import Head, Heads, Plan
from headcount.importance import score_deltas
from headcount.pruning import changes
from headcount.pruning.before_after import drop, evaluate_gated, slices
from headcount.results import (
    ChoiceRecord,
    Comparison,
    DataSetChange,
    MetricChange,
    PipelineRecord,
    PruneRecord,
    SliceChange,
    StageResult,
    StagesRecord,
    Survival,
)
from headcount.statistics import loss_deltas
from headcount.tasks import CausalLanguageModelling, DataSet, evaluate, warning
from tests.tasks.loaded import PAIRS, TASKS, TEXTS

HEADS = Heads({"encoder.self": (2, 2)})


def card_of(**record: Any) -> str:
    """The card of a record that has little else."""
    from headcount.artifact import head_card as card

    return card(PruneRecord(model="m", heads={}, kept=(), pruned=(), **record)).markdown()


def test_the_card_says_whose_heads_are_named() -> None:
    """A model that is pruned twice has other numbers each time."""
    assert "\n\nHeads are numbered as in m, from 0.\n\n" in card_of()


def test_slices() -> None:
    loaded, task = TASKS["causal-gpt2"]()
    found = slices(task, task)
    assert [name.partition(" (")[0] for name in found] == [
        "short",
        "medium",
        "long",
        "rarest tokens",
        "rarer tokens",
        "least rare tokens",
    ]
    thirds = list(found.values())
    for three in (thirds[:3], thirds[3:]):
        assert sorted(np.concatenate(three)) == list(range(task.num_examples))
    assert loaded.tokenizer is not None
    length_N = np.array([len(loaded.tokenizer(text)["input_ids"]) for text in TEXTS])
    assert length_N[thirds[0]].max() <= length_N[thirds[1]].min()
    assert length_N[thirds[1]].max() <= length_N[thirds[2]].min()
    known = CausalLanguageModelling(loaded, {"text": [*TEXTS, *TEXTS, "the dog", "the old dog"]})
    counts = Counter(
        token
        for text in [*TEXTS, *TEXTS, *TEXTS, "the dog", "the old dog"]
        for token in loaded.tokenizer(text)["input_ids"]
    )
    rarest_N = np.array(
        [min(counts[token] for token in loaded.tokenizer(text)["input_ids"]) for text in TEXTS]
    )
    assert len({*rarest_N}) > 1
    for name, part in [*slices(task, known).items()][3:]:
        assert name.endswith(f"({rarest_N[part].min()} to {rarest_N[part].max()})")
    rare, medium, common = [*slices(task, known).values()][3:]
    assert rarest_N[rare].max() <= rarest_N[medium].min()
    assert rarest_N[medium].max() <= rarest_N[common].min()


@pytest.mark.parametrize(("name", "sign"), [("causal-gpt2", -1), ("classes-bert", 1)])
def test_a_drop_is_positive_where_the_pruned_model_is_worse(name: str, sign: int) -> None:
    loaded, task = TASKS[name]()  # perplexity: lower is better; accuracy
    before = evaluate(loaded.model, task)
    plan = Plan.keeping(loaded.heads, [])
    after = evaluate_gated(loaded, plan, task)
    found = changes(task, before, after, slices(task, task))
    assert (found.score.before, found.score.after) == (task.score(before), task.score(after))
    delta = sign * (found.score.before - found.score.after)
    if name == "causal-gpt2":  # a few classes may all be unchanged
        assert delta != 0
    assert found.score.drop == pytest.approx(delta) == pytest.approx(drop(task, before, after))
    assert found.score.higher_is_better == (sign == 1) and not found.loss.higher_is_better
    assert found.loss.drop == pytest.approx(after.loss - before.loss)
    assert found.score.low <= delta <= found.score.high
    for name, index_S in slices(task, task).items():
        part = found.slices[name]
        assert part.examples == len(index_S)
        for when, of in (("before", before), ("after", after)):
            lost = [of.loss_N[index] for index in index_S]
            count = [of.count_N[index] for index in index_S]
            assert getattr(part.loss, when) == pytest.approx(sum(lost) / sum(count))
            assert getattr(part.score, when) == pytest.approx(task.score(of, index_S))

        both = (part.score, part.loss)
        lost_2S = np.stack([after.loss_N[index_S], before.loss_N[index_S]])
        slow = (
            score_deltas(task, [after], before, index_N=index_S)[0],
            loss_deltas(lost_2S[:1], lost_2S[1], before.count_N[index_S])[0],
        )
        for change, one in zip(both, slow, strict=True):
            assert (change.drop, change.p) == pytest.approx((one.delta, one.p))
            assert np.isnan([change.low, change.high]).all(), "three examples have no interval"
    assert len(found.slices) == 6


def test_no_thirds_of_what_is_the_same_in_all() -> None:
    loaded, _ = TASKS["causal-gpt2"]()
    same = CausalLanguageModelling(loaded, {"text": ["the dog", "the dog", "the dog"]})
    assert slices(same, same) == {}


@pytest.mark.parametrize(
    ("record", "reported"),
    [
        ({}, "The gated model is the dense model with these heads set to 0."),
        (
            {
                "choice": ChoiceRecord("l0", "L0()", {"keep": 1}, 1, history=({},)),
                "pipeline": PipelineRecord(
                    stages=(
                        StageResult("folding", 2.0, 1.0),
                        StageResult("recovery", 2.0, 3.0, False),
                    ),
                    facts=StagesRecord(),
                    within_limit=None,
                    latency_ms=None,
                    control=None,
                    seconds=1.0,
                ),
            },
            "The gated model is the dense model after training with gates, folding, with",
        ),
        (
            {"compensated_by": ("folding",), "trained_on": 6},
            "the dense model after folding, training, with",
        ),
    ],
)
def test_the_card_says_what_gated_is(record: dict[str, Any], reported: str) -> None:
    compared = Comparison("compact and gated", 0.0, 1.0, 0.0, 1e-5, "float32", (), None, 3, 1)
    text = card_of(**record, comparisons=(compared,))
    assert reported in text and "Warning" not in text
    text = card_of(**record, comparisons=(replace(compared, what="ONNX and reloaded"),))
    assert "Warning: the weights have changed since the heads were removed" in text
    assert "The gated model is" not in text


def test_a_score_that_is_better_where_it_is_lower_rises() -> None:
    change = MetricChange("f1", True, 1.0, 1.0, 0.0, -0.25, 2.0, 0.6)
    assert str(change) == "0; 95 %: −2.00 to +0.250"
    assert str(replace(change, higher_is_better=False, low=math.nan)) == "0"


@pytest.mark.parametrize(
    ("is_better", "after", "shown"),
    [(True, 0.4, "−0.200 to −0.050"), (False, 0.6, "0.050 to 0.200")],
)
def test_the_card_has_changes_after_minus_before(is_better: bool, after: float, shown: str) -> None:
    """A drop of 0.1 means a lower accuracy, or a higher perplexity."""
    score = MetricChange("accuracy", is_better, 0.5, after, 0.1, 0.05, 0.2, 0.01)
    loss = MetricChange("loss", False, 1.0, 1.5, 0.5, 0.4, 0.6, 0.01)
    short = SliceChange(1200, score, loss)
    found = DataSetChange(1200, score, loss, {"short": short})
    text = card_of(data_sets={"test": found})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    change = f"{after - 0.5:+.3f}".replace("-", "−")
    scores = ["0.500", f"{after:.3f}", change, shown]
    assert ["accuracy", *scores, "0.010"] in rows
    losses = ["1.00", "1.50", "+0.500", "0.400 to 0.600"]
    assert ["loss", *losses, "0.010"] in rows
    assert ["short", "1,200", *scores, *losses] in rows


def test_the_card_never_shows_a_p_that_its_interval_contradicts() -> None:
    """Cards were written with sacreBLEU's p beside another test's interval, which held 0."""
    bleu = MetricChange("bleu", True, 30.0, 29.5, 0.5, -0.1, 1.1, 0.04)
    loss = MetricChange("loss", False, 1.0, 1.5, 0.5, 0.4, 0.6, 0.04)
    text = card_of(data_sets={"test": DataSetChange(1200, bleu, loss)})
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    p_of = {cells[1].strip(): cells[-2].strip() for cells in rows}
    assert (p_of["BLEU"], p_of["loss"]) == ("–", "0.040")
    assert "it is below 0.05 where the interval leaves 0 out" in text


def test_functions() -> None:
    from headcount.artifact.surviving_roles import old_names, survivals

    plan = Plan.keeping(HEADS, [Head("encoder.self", 0, 1), Head("encoder.self", 1, 0)])
    dense = {
        "enc.0.0": ["positional"],
        "enc.0.1": ["positional", "sink"],
        "enc.1.0": [],
        "enc.1.1": ["rare"],
    }
    assert survivals(plan, HEADS, dense) == [
        Survival("positional", 2, ("enc.0.1",)),
        Survival("sink", 1, ("enc.0.1",)),
        Survival("rare", 1, ()),
    ]
    pruned = {"enc.0.1": ["positional"], "enc.1.0": ["rare", "block"]}
    assert survivals(plan, HEADS, dense, pruned) == [
        Survival("positional", 2, ("enc.0.1",), ("enc.0.1",), ()),
        Survival("sink", 1, ("enc.0.1",), (), ()),
        Survival("rare", 1, (), (), ("enc.1.0",)),
        Survival("block", 0, (), (), ("enc.1.0",)),
    ]
    reported = card_of(functions=(Survival("rare", 1, (), (), ("enc.1.0",)),))
    assert "took it over" in reported and re.search(r"\| rare .*\| enc\.1\.0 +\|", reported)
    assert old_names(plan, HEADS) == {"enc.0.0": "enc.0.1", "enc.1.0": "enc.1.0"}


def test_overlap() -> None:
    one = DataSet("causal-lm", {"text": TEXTS[:3]})
    assert warning(one, DataSet("causal-lm", {"text": TEXTS[3:]}), ("--data", "--dev")) is None
    other = DataSet("causal-lm", {"text": TEXTS[2:]}, limit=4)
    assert warning(one, other, ("--data", "--dev")) == (
        "1 of 4 examples of --dev are in --data too: results on --dev are better than they would "
        "be on new data"
    )
    scores = DataSet("similarity", PAIRS | {"score": [0] * len(TEXTS)})
    found = warning(DataSet("similarity", PAIRS), scores, ("a", "b"))
    assert found is not None and found.startswith("7 of 7 examples of b")
