"""Direct attribution against the book, and where it adds up to the logit."""

import numpy as np
import pytest
import torch

from headcount.explanation.attribution import attribute, gradients, products
from headcount.explanation.cases import Reading, Row
from headcount.explanation.runs import Run
from headcount.models import Loaded
from tests import tiny
from tests.textbook import explanation as book

IDS = (5, 9, 11, 23, 17, 8, 30)
READINGS = (Reading(-1, 7, 1.0), Reading(-1, 12, -1.0))


def row_of(loaded: Loaded) -> Row:
    decoder = (2, 7, 8, 9) if loaded.config.is_encoder_decoder else None
    return Row(IDS, decoder, READINGS)


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
