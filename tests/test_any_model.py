"""What takes a model takes a plain one and a loaded one alike, or says what to pass."""

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedModel

import headcount as hc
from headcount.cache import CacheOptions
from headcount.core import InputError, LayerId, ModelError, Plan
from headcount.gates import Fixed, gating
from headcount.models import Loaded
from headcount.tap import AnyModel
from tests.alignment.test_aligning import GOLD, PAIRS
from tests.coreference.test_selecting import DOCUMENTS
from tests.forked import Forked
from tests.tasks.loaded import TEXTS, loaded

LLAMA = "LlamaForCausalLM"
DATA: Any = {"text": TEXTS}
CORPUS = hc.Corpus.from_sentences([hc.Sentence(text) for text in TEXTS])
GATES, PLAN = {"dec.1.1": 0.0}, Plan({"decoder.self": {0: (0, 1, 2)}})
CLOSED = {LayerId("decoder.self", 1): torch.tensor([1.0, 0, 1, 1, 1, 1])}
IDS = torch.arange(9, 16)[None]
STREAM = hc.CachePlan(((True, False),) * 2, 1, 2)
MANY = [f"The {n}th of these dogs slept." for n in range(400)]
Tokenizer = Mapping[str, Any]
"""The argument `tokenizer` for a plain model, nothing for a loaded one."""


def task() -> Any:
    return hc.tasks.build("causal-lm", loaded(LLAMA), DATA)


def splits() -> Any:
    return hc.TaskSplits.build("causal-lm", loaded(LLAMA), train=DATA, dev=DATA)


def logits(model: Any, context: Any) -> Any:
    with torch.no_grad(), context:
        return model(IDS).logits


def streamed(model: Any) -> Any:
    with torch.no_grad(), hc.streaming_cache(model, STREAM) as cache:
        return model(IDS, past_key_values=cache).logits


def plans(model: Any, more: Mapping[str, Any]) -> Any:
    options = CacheOptions(
        score="distance", lengths=(68,), per_length=2, needles=1, sentences=1, recent=10
    )
    return hc.plan_cache(model, hc.Corpus(MANY), options, **more).groups


def saved(model: Any, folder: Path) -> Any:
    """The logits of the compact model that was written, from its folder."""
    return logits(hc.load(folder), torch.no_grad())


def save(model: Any, folder: Path) -> Any:
    smaller = hc.compact(model, PLAN)
    given = smaller if isinstance(model, PreTrainedModel) else Loaded(smaller, None, "smaller")
    hc.save(given, folder)
    return saved(model, folder)


def save_compact(model: Any, folder: Path) -> Any:
    hc.save_compact(model, PLAN, folder)
    return saved(model, folder)


def export(model: Any, folder: Path) -> Any:
    hc.save_compact(model, PLAN, folder)
    smaller = hc.load(folder)
    given = smaller.model if isinstance(model, PreTrainedModel) else smaller
    return [one.what for one in hc.export(given, folder).comparisons]


def explained(model: Any, more: Tokenizer) -> Any:
    """The page of one prediction."""
    found = hc.explain(model, "The old dog", " ran", **more)
    return hc.explanation.show_explained(model, found, **more).html.count("<")


def relevances(model: Any) -> Any:
    found = hc.importance.token_relevance(
        model, {"input_ids": IDS}, lambda output: output.logits.amax((1, 2))
    )
    return found["decoder"]


CASES: dict[str, Callable[[Any, Tokenizer, Path], Any]] = {
    "align": lambda model, more, out: (
        hc.align(model, PAIRS, GOLD, hc.AlignmentOptions(samples=9, join="\\n"), **more).rows
    ),
    "analyze": lambda model, more, out: hc.analyze(model, CORPUS, **more).profiles,
    "certificate_corpus": lambda model, more, out: hc.certificate_corpus(model, ["a.txt"], 3),
    "choose_heads": lambda model, more, out: hc.choose_heads(model, task(), "gradient", 6),
    "cluster": lambda model, more, out: hc.cluster(model, CORPUS, **more).places,
    "compact": lambda model, more, out: hc.compact(model, PLAN)(IDS).logits,
    "examine": lambda model, more, out: hc.examine(model),
    "explain": lambda model, more, out: (
        hc.explain(model, "A dog", " ran", **more).of("zero")["dec.1.1"].value
    ),
    "export": lambda model, more, out: export(model, out),
    "gated": lambda model, more, out: logits(model, hc.gated(model, GATES)),
    "induction_scores": lambda model, more, out: hc.induction_scores(model, 9, 3, **more).frame,
    "measure": lambda model, more, out: hc.measure(model, CORPUS, **more).frame,
    "plan_cache": lambda model, more, out: plans(model, more),
    "reports.show_explained": lambda model, more, out: explained(model, more),
    "streaming_cache": lambda model, more, out: streamed(model),
    "streaming_masks": lambda model, more, out: logits(model, hc.streaming_masks(model, STREAM)),
    "prune": lambda model, more, out: hc.prune(model, splits(), "gradient", 6).plan,
    "save": lambda model, more, out: save(model, out),
    "save_compact": lambda model, more, out: save_compact(model, out),
    "score": lambda model, more, out: hc.score(model, task()).record.loss,
    "select_antecedents": lambda model, more, out: (
        hc.select_antecedents(model, DOCUMENTS, hc.CoreferenceOptions(samples=9), **more).rows
    ),
    "show": lambda model, more, out: hc.show(model, "The old dog", **more).html.count("<"),
    "tapped": lambda model, more, out: logits(model, hc.tapped(model, gates=GATES)),
    "papers.evolve": lambda model, more, out: hc.papers.evolve([model], CORPUS),
    "gates.gating": lambda model, more, out: logits(model, gating(model, Fixed(CLOSED))),
    "importance.ablation": lambda model, more, out: hc.importance.ablation(model, task()),
    "importance.assess": lambda model, more, out: hc.importance.assess(model, task()).columns,
    "importance.gradient": lambda model, more, out: hc.importance.gradient(model, task()),
    "importance.norm": lambda model, more, out: hc.importance.norm(model, task()),
    "importance.relevance": lambda model, more, out: hc.importance.relevance(model, task()).scores,
    "importance.sink": lambda model, more, out: hc.importance.sink(model, task()),
    "importance.sensitivity": lambda model, more, out: hc.importance.sensitivity(model, task()),
    "importance.token_relevance": lambda model, more, out: relevances(model),
    "speed.ceiling": lambda model, more, out: hc.speed.ceiling(model, PLAN),
    "tasks.evaluate": lambda model, more, out: hc.tasks.evaluate(model, task()).loss,
    "tasks.build": lambda model, more, out: hc.tasks.build("causal-lm", model, DATA),
    "TaskSplits.build": lambda model, more, out: hc.TaskSplits.build(
        "causal-lm", model, train=DATA, dev=DATA
    ),
}
"""Every public function that takes a model; it returns something to compare."""

NEEDS = {
    "papers.evolve": "Expected a tokenizer beside the weights, .* headcount.Loaded",
    "importance.sensitivity": "Expected a tokenizer beside the weights, .* headcount.Loaded",
    "tasks.build": "Expected a tokenizer beside the weights, .* headcount.Loaded",
    "TaskSplits.build": "Expected a tokenizer beside the weights, .* headcount.Loaded",
    "certificate_corpus": "Expected a tokenizer beside the weights, .* headcount.Loaded",
}
"""What functions say of a plain model that need a tokenizer and have no argument for one."""


def test_every_public_function_that_takes_a_model_is_here() -> None:
    takes = (PreTrainedModel, Loaded, PreTrainedModel | Loaded, AnyModel)
    found = {
        name
        for name in hc.__all__
        if inspect.isfunction(each := getattr(hc, name))
        and any(one.annotation in takes for one in inspect.signature(each).parameters.values())
    }
    assert found <= CASES.keys() and len(found) > 15


SLOW = ("export",)


@pytest.mark.once
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES],
)
def test_takes_a_plain_and_a_loaded_model(name: str, tmp_path: Path) -> None:
    case, held = CASES[name], loaded(LLAMA)
    if name in NEEDS:
        with pytest.raises(InputError, match=NEEDS[name]):
            case(held.model, {}, tmp_path)
        return
    plain = case(held.model, {"tokenizer": held.tokenizer}, tmp_path / "plain")
    assert_same(case(held, {}, tmp_path / "loaded"), plain)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one == other


def test_a_loaded_model_runs_and_has_its_configuration() -> None:
    held = loaded(LLAMA)
    assert held.config is held.model.config
    with torch.no_grad():
        assert torch.equal(held(IDS).logits, held.model(input_ids=IDS).logits)


def test_a_tokenizer_takes_the_place_of_none() -> None:
    held = loaded(LLAMA)
    bare = Loaded(held.model, None, "bare")
    with pytest.raises(ModelError, match="Expected a tokenizer beside the weights"):
        hc.measure(bare, CORPUS)
    found = hc.measure(bare, CORPUS, tokenizer=held.tokenizer)
    assert_same(found.frame, hc.measure(held, CORPUS).frame)


@pytest.mark.parametrize("name", ["analyze", "show", "tasks.build", "measure"])
def test_a_plain_model_of_a_folder_says_how_to_read_its_tokenizer(
    name: str, tmp_path: Path
) -> None:
    """The folder has one, which transformers does not load with a model."""
    held = loaded(LLAMA)
    assert held.tokenizer is not None
    held.model.save_pretrained(tmp_path)
    held.tokenizer.save_pretrained(tmp_path)
    plain = LlamaForCausalLM.from_pretrained(tmp_path)
    said = f"A model in memory comes without: .*from_pretrained.'{re.escape(str(tmp_path))}'."
    with pytest.raises(ModelError, match=said):
        CASES[name](plain, {}, tmp_path)


KEEPING = """
import sys, headcount
model = headcount.load(sys.argv[1]).model
for kind, others in ((headcount.FurtherTraining, (None, None)), (headcount.serve.LiveModel, ())):
    try:
        kind(model, *others)
    except headcount.InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_classes_that_keep_a_model_say_what_to_pass(tmp_path: Path) -> None:
    """In a process that does not check types, as the tests do."""
    loaded(LLAMA).model.save_pretrained(tmp_path)
    output, _ = Forked("-c", KEEPING, tmp_path).communicate()
    assert output.count("Expected what headcount.load returns, got a LlamaForCausalLM.") == 2


SAVING = """
import sys, headcount
loaded = headcount.load(sys.argv[1])
smaller = headcount.compact(loaded, headcount.Plan({"decoder.self": {0: (0, 1, 2)}}))
for tokenizer in (loaded, "name"):
    try:
        headcount.save(smaller, sys.argv[1] + "/small", tokenizer)
    except headcount.InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    """In a process that does not check types, as the tests do."""
    loaded(LLAMA).model.save_pretrained(tmp_path)
    output, _ = Forked("-c", SAVING, tmp_path).communicate()
    assert "Expected a tokenizer of transformers, got a Loaded. Pass its .tokenizer." in output
    assert "got a str. Leave it out." in output


def test_words_are_taken_where_a_text_is() -> None:
    held = loaded(LLAMA)
    assert hc.show(held, ["The", "old"]).html == hc.show(held, "The old").html
    other = loaded("MarianMTModel")
    pair = hc.show(other, (["The", "old"], "Der alte"))
    assert pair.html == hc.show(other, ("The old", ["Der", "alte"])).html
    with pytest.raises(InputError, match="a list of its words, or a pair .*got 3"):
        inspect.unwrap(hc.show)(held, (3, 4))
