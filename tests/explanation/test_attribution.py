"""Direct attribution against the book, and where it adds up to the logit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from headcount.core import Head
from headcount.explanation.attribution import attribute, written
from headcount.explanation.prompt_runs import gradients, products
from headcount.explanation.runs import Reading, Row, Run
from headcount.models import Loaded
from tests import tiny
from tests.textbook import explanation as book

IDS = (5, 9, 11, 23, 17, 8, 30)
READINGS = (Reading(-1, 7, 1.0), Reading(-1, 12, -1.0))


def row_of(loaded: Loaded) -> Row:
    decoder = (2, 7, 8, 9) if loaded.config.is_encoder_decoder else None
    return Row(IDS, decoder, READINGS)


def scaled() -> Any:
    """A model that divides its logits."""
    config = hf.GraniteConfig(**tiny.GROUPED)
    config.logits_scaling = 3.0
    return tiny.seeded(hf.GraniteForCausalLM(config))


@pytest.fixture(params=["llama", "gpt2", "gemma2"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    return Loaded(tiny.MODELS[request.param](), None, request.param)


def test_every_part_is_that_of_the_book(loaded: Loaded) -> None:
    """Grouped queries; LayerNorms and biases; caps, and norms after attention."""
    found = attribute(loaded, row_of(loaded))
    assert found is not None
    by_name = {
        f"dec.{layer.layer}.{number}": value
        for layer, each_H in found.heads.items()
        for number, value in enumerate(each_H)
    } | dict(found.parts)
    expected = book.attribution(loaded.model, torch.tensor([IDS]), -1, 7, 12)
    assert {*expected} - {*by_name} <= {"attention biases"}
    for name, value in by_name.items():
        assert value == pytest.approx(expected[name], abs=2e-5), name
    assert sum(expected.values()) == pytest.approx(found.logit, abs=1e-4)


@pytest.mark.once
@pytest.mark.parametrize(
    "name", ["gemma2", "gemma3_text", "gpt_neox", "gptj", "falcon", "m2m_100", "t5", "gpt_oss"]
)
def test_parts_add_up_to_the_logit(name: str) -> None:
    """Parallel blocks, softmaxes of their own, experts, and decoders of encoder-decoders."""
    makers = {**tiny.MODELS, **tiny.OWN_SOFTMAX, "gpt_oss": tiny.gpt_oss}
    loaded = Loaded(makers[name](), None, name)
    row = row_of(loaded)
    found = attribute(loaded, row)
    assert found is not None
    total = sum(each.sum() for each in found.heads.values()) + sum(found.parts.values())
    with torch.no_grad():
        logits = loaded.model(**row.inputs(loaded)).logits[0, -1].double()
    cap = getattr(loaded.config, "final_logit_softcapping", None)
    before = logits if cap is None else cap * torch.atanh(logits / cap)
    assert total == pytest.approx(float(before[7] - before[12]), abs=1e-4)
    if loaded.config.is_encoder_decoder:
        encoder = [each for layer, each in found.heads.items() if layer.site == "encoder.self"]
        assert encoder and not np.concatenate(encoder).any(), "they reach no logit directly"


@pytest.mark.parametrize("name", ["bert", "modernbert", "bart", "marian"])
def test_elsewhere_there_is_no_direct_attribution(name: str) -> None:
    """Norms behind the sum, or a transformation in front of the unembedding."""
    loaded = Loaded(tiny.MODELS[name](), None, name)
    assert attribute(loaded, row_of(loaded)) is None


@pytest.mark.once
@pytest.mark.parametrize("name", ["llama", "bert", "t5"])
def test_gradient_times_output_is_the_slope_at_a_gate(name: str) -> None:
    """One head at a time, on the stock model."""
    loaded = Loaded(tiny.MODELS[name](), None, name)
    row, model = row_of(loaded), loaded.model
    found = products(gradients(loaded, row), Run(loaded, row).outputs)
    for (site, layer), values in found.items():
        for head, value in enumerate(values):
            expected = book.slope(model, row.inputs(loaded), (site, layer, head), 7, 12)
            assert value == pytest.approx(expected, abs=2e-5)


@pytest.mark.once
@pytest.mark.parametrize("name", ["llama", "gemma2", "t5", "granite"])
def test_promoted_and_demoted_tokens_are_those_of_every_attribution(name: str) -> None:
    """What a head adds to a token's logit is its direct attribution to that token alone."""
    model = scaled() if name == "granite" else tiny.MODELS[name]()
    loaded = Loaded(model, None, name)
    row = row_of(loaded)
    found, vocabulary = written(loaded, row, 3, 29), range(29)
    added: dict[Head, list[float]] = {}
    for token in vocabulary:
        each = attribute(loaded, replace(row, readings=(Reading(-1, token, 1.0),)))
        assert each is not None
        for layer, values in each.heads.items():
            for index, value in enumerate(values):
                head = Head(layer.site, layer.layer, index)
                added.setdefault(head, []).append(float(value))
    assert found is not None
    assert {*found} == {head for head in added if head.site != "encoder.self"}
    for head, here in found.items():
        mean = np.mean(added[head])
        best = np.argsort(np.negative(added[head]), kind="stable").tolist()
        for side, tokens in [(here[:3], best[:3]), (here[3:], best[:-4:-1])]:
            assert [token for token, _ in side] == tokens
            expected = [added[head][token] - mean for token in tokens]
            assert [value for _, value in side] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_elsewhere_no_tokens_are_named() -> None:
    for name in ("bert", "bart"):
        loaded = Loaded(tiny.MODELS[name](), None, name)
        assert written(loaded, row_of(loaded), 3, 29) is None
