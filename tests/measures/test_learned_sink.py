"""The weight on no token is its textbook definition, in models that have a learned sink only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headcount import Corpus, load, vocabulary
from headcount.corpora import Batch, Sentence
from headcount.measures import IMAGE_MEASURES, MEASURES, LearnedSink, measures_of
from headcount.measures.streaming import run
from headcount.tap import examine
from headcount.testing import laws
from tests import saved, tiny, tiny_tokenizers
from tests.examined import examined
from tests.measures.cases import NUM_HEADS, Case, Example, attend, batches, random_side, tokens
from tests.textbook import learned_sink

TEXTS = ["The old dog barks at the cat .", "A dog sleeps .", "The cat sees the old dog ."]


def _with_sink(example: Example, rng: np.random.Generator) -> Example:
    """The same scores with a sink of each head's own beside them."""
    A = np.zeros(example.A.shape)
    for head, sink in enumerate(rng.normal(size=len(A))):
        for query, row in enumerate(example.A[head]):
            A[head, query] = learned_sink.weights(np.log(row + 1e-9).tolist(), sink)[0]
    return replace(example, A=A)


@pytest.mark.parametrize("name", ["self", "cross", "long"])
def test_is_the_textbook(name: str, tmp_path: Path):
    rng = np.random.default_rng(1)
    made = [[_with_sink(example, rng) for example in batch] for batch in batches(name)]
    parts = [LearnedSink.of(attend(batch, split=(2, 3, 4), padding=2)) for batch in made]
    whole = reduce(lambda a, b: a + b, parts)
    laws.assert_adds(whole, [LearnedSink.of(attend([each])) for batch in made for each in batch])
    laws.assert_round_trip(whole, tmp_path)
    laws.assert_columns(whole, NUM_HEADS, nats=0.0)
    case = Case([example for batch in made for example in batch], {LearnedSink: whole})
    expected = learned_sink.over_corpus(case.textbook(A=lambda e: e.A))
    assert 0.2 < min(expected) < max(expected) < 0.8
    case.assert_values(LearnedSink, {"attn_none": expected})


def test_rounding_is_not_below_zero():
    whole = LearnedSink.of(attend([example for batch in batches("self") for example in batch]))
    assert (whole.none < 0).any()
    laws.assert_columns(whole, NUM_HEADS, nats=0.0)


@contextmanager
def _sinks_of_softmax(found: list[Tensor]) -> Iterator[None]:
    """Inside, the last weight of every softmax over keys and a sink is remembered."""
    stock = nn.functional.softmax

    def softmax(scores: Tensor, **kwargs: Any) -> Tensor:
        weights = stock(scores, **kwargs)
        if weights.ndim == 4:  # the experts' router has a softmax, too
            found.append(weights[..., -1])
        return weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "softmax", softmax)
        yield


def test_is_what_the_stock_model_gives_its_sinks():
    model, lengths = tiny.gpt_oss(), (11, 7, 2)
    inputs = tiny.inputs(model, lengths)
    sides = [random_side(np.random.default_rng(n), length) for n, length in enumerate(lengths)]
    batch = Batch(inputs, tokens(sides), None, None, tuple(Sentence("") for _ in lengths))
    anatomy, sinks = examine(model), list[Tensor]()
    with torch.no_grad(), _sinks_of_softmax(sinks):
        model(**inputs)
    totals = run(model, anatomy, [batch], measures_of(anatomy, vocabulary.TEXTS))
    found = [
        part.value()["attn_none"] for (kind, _), part in totals.sums.items() if kind is LearnedSink
    ]
    is_token_BQ = inputs["attention_mask"].bool()
    assert len(found) == len(sinks) == 2
    for share_H, sink_BHQ in zip(found, sinks, strict=True):
        slow_H = sink_BHQ.transpose(1, 2)[is_token_BQ].double().mean(0)
        torch.testing.assert_close(share_H, slow_H, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_models_without_a_learned_sink_have_no_such_column(tmp_path: Path):
    from headcount.analysis import measure

    kinds = (("llama", vocabulary.TEXTS, MEASURES), ("vit", vocabulary.IMAGES, IMAGE_MEASURES))
    for name, inputs, every in kinds:
        anatomy = examined(name)[1]
        assert measures_of(anatomy, inputs) == every and LearnedSink not in every
    llama = load(saved.llama(tmp_path))
    assert "attn_none" not in measure(llama, Corpus(TEXTS)).frame


@pytest.mark.slow
def test_layers_without_a_learned_sink_have_no_number():
    from headcount.analysis import measure

    tokenizer = tiny_tokenizers.llama()
    model: Any = tiny.gpt_oss(vocab_size=len(tokenizer))
    model.model.layers[0].self_attn.sinks.data.fill_(-1e4)
    assert [layer.has_learned_sink for layer in examine(model).layers] == [False, True]
    frame = measure(model, Corpus(TEXTS), tokenizer=tokenizer).frame
    assert frame["attn_none"].isna().tolist() == (frame["layer"] == 0).tolist()
    known = frame["attn_none"].dropna().to_numpy()
    assert 0.01 < known.min() < known.max() < 0.9
