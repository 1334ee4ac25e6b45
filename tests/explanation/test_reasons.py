"""Why heads look there: scores split by what wrote queries and keys."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headcount.core import Head
from headcount.explanation import (
    Explained,
    ExplainOptions,
    LookRow,
    Prompt,
    ReasonRow,
    explain,
)
from headcount.explanation.reasons import scored
from headcount.explanation.reasons_document import reason
from headcount.explanation.runs import Reading, Row
from headcount.models import Loaded
from headcount.results import find, select
from headcount.testing import (
    Family,
    Planted,
    Program,
    leaving_no_trace,
    planted_model,
)
from headcount.testing.planted import DECIDES
from headcount.testing.tokens import written
from tests import tiny
from tests.tasks.loaded import loaded as of_words
from tests.textbook import reasons as book

IDS = (5, 9, 11, 23, 17, 8, 30)
ROW = Row(IDS, None, (Reading(-1, 7, 1.0), Reading(-1, 12, -1.0)))
QUERY = 5
HEADS = [Head("decoder.self", layer, index) for layer, index in ((0, 1), (1, 3), (1, 4))]


def _largest(head: Head, weights_K: np.ndarray) -> int:
    return int(weights_K[1:].argmax()) + 1


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
def test_terms_are_those_of_the_book(name: str) -> None:
    """Grouped queries and rotations; norms of queries and keys; biases and learned positions."""
    loaded = Loaded(tiny.MODELS[name](), None, name)
    with leaving_no_trace(loaded.model, ROW.inputs(loaded)):
        found = scored(loaded, ROW, HEADS, QUERY, _largest)
    stock = tiny.MODELS[name]()
    for head, look in found.items():
        terms_K, weights = book.terms(stock, torch.tensor([IDS]), (head.layer, head.index), QUERY)
        scores_K = [sum(terms.values()) for terms in terms_K]
        assert look.score == pytest.approx(scores_K[look.key], abs=1e-4)
        assert look.score - look.mean == pytest.approx(
            scores_K[look.key] - np.mean(scores_K), abs=1e-4
        )
        assert look.weight == pytest.approx(float(weights[look.key]), abs=1e-5)
        for one, query in enumerate(look.writers):
            for other, key in enumerate(look.writers):
                expected = [terms.get((query, key), 0.0) for terms in terms_K]
                value = expected[look.key] - np.mean(expected)
                assert look.pair(one, other) == pytest.approx(value, abs=1e-4), (query, key)


@pytest.mark.once
@pytest.mark.parametrize("name", ["gemma2", "gemma3_text", "gpt_oss"])
def test_states_are_sums_of_what_wrote_them(name: str) -> None:
    """Norms behind attention, caps and windows: queries without biases leave nothing over."""
    loaded = Loaded({**tiny.MODELS, "gpt_oss": tiny.gpt_oss}[name](), None, name)
    with torch.no_grad():
        for path, each in loaded.model.named_parameters():
            if path.endswith("_proj.bias"):
                each.zero_()
    found = scored(loaded, ROW, HEADS, QUERY, _largest)
    assert {*found} == {*HEADS}
    for look in found.values():
        for side in ("query", "key"):
            terms_P = look.terms(side)
            assert terms_P[-1] == pytest.approx(0, abs=1e-4), "biases"
            assert terms_P.sum() == pytest.approx(look.score - look.mean, abs=1e-4)


@pytest.mark.parametrize("name", ["bloom", "gptj", "bert", "t5", "modernbert"])
def test_other_models_have_no_reasons(name: str) -> None:
    """Softmaxes of their own, norms behind the sum, and looks in both directions."""
    loaded = Loaded({**tiny.MODELS, **tiny.OWN_SOFTMAX}[name](), None, name)
    site = next(iter(loaded.heads.counts))
    assert scored(loaded, ROW, [Head(site, 0, 1)], QUERY, _largest) == {}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_planted_head_copies_since_another_told_it(family: Family) -> None:
    """Its own token asks, and the head that tells wrote the answer to the key."""
    tell, copy = Head("decoder.self", 0, 2), Head("decoder.self", 2, 1)
    planted = (
        Planted(tell, "tell", "silent"),
        Planted(copy, "copy", "needed", bit=1, label=0, evidence=2.0),
    )
    program = Program(planted)
    model, bits_TK = planted_model(program, family), program.texts(1, 3)[0]
    row = Row(tuple(model.encoder().tokenizer(written(bits_TK))["input_ids"]), None, ROW.readings)
    query = len(row.ids) - 1
    look = scored(model, row, [copy], query, lambda _, weights_K: int(weights_K.argmax()))[copy]
    assert look.key == program.looked_at(planted[1], bits_TK[None], np.array([query]))[0, 0]
    told_TK = bits_TK[np.maximum(np.arange(query + 1) - 1, 0)]
    like_T = DECIDES * told_TK @ bits_TK[query]
    names = [*look.writers]
    pair = look.pair(names.index("embeddings"), names.index(str(tell)))
    assert pair == pytest.approx(like_T[look.key] - like_T.mean(), rel=1e-3)
    by_query, by_key = look.terms("query"), look.terms("key")
    assert names[int(by_query.argmax())] == "embeddings"
    assert names[int(by_key.argmax())] == str(tell)


PROMPTS = [
    Prompt("The old dog barked at the", " moon", " dog"),
    Prompt("A young dog barked at the", " moon", " dog"),
]


def _explained(options: ExplainOptions, prompts: list[Prompt] = PROMPTS) -> Explained:
    options = replace(options, effects=("zero",), together=(1,), draws=1)
    return explain(of_words("LlamaForCausalLM"), prompts, options=options)


@pytest.mark.slow
def test_terms_of_prompts_are_averaged() -> None:
    """Of each prompt's own look; those of a side add up to the score above its mean."""
    found = _explained(ExplainOptions(reasons=3, key="dog"))
    single = [_explained(ExplainOptions(reasons=72, key="dog"), [each]) for each in PROMPTS]
    assert len(found.looks) == 3
    for row in found.looks:
        assert (row.looks_at, row.prompts) == ("rival", 2)
        alone = [find(each.looks, head=row.head) for each in single]
        for name in ("weight", "score", "value"):
            assert getattr(row, name) == pytest.approx(
                np.mean([getattr(each, name) for each in alone])
            )
        for side in ("query", "key"):
            rows = select(found.reasons, head=row.head, **{side: ""})
            assert sum(each.value for each in rows) == pytest.approx(row.value, abs=1e-4)
    assert not _explained(ExplainOptions(reasons=0)).looks


def test_sentences_name_the_largest_writers() -> None:
    looks = (LookRow("dec.3.1", "target, 2nd", 7, 0.5, 9.0, 6.0, 5.0, 7.0),)
    rows = [("dec.1.2", "", 4.0), ("mlp.0", "", 1.5), ("dec.0.0", "", 0.5), ("", "embeddings", 6.0)]
    reasons = tuple(ReasonRow("dec.3.1", *each, 0.0, 0.0) for each in rows)
    found = replace(_explained(ExplainOptions()), looks=looks, reasons=reasons)
    found = replace(found, prompts=found.prompts * 4)
    assert reason(found, looks[0]) == (
        "dec.3.1 looks at the 2nd mention of the target (7 of 8 prompts) since dec.1.2 (+4.00) and "
        "mlp.0 (+1.50) wrote to the query, and embeddings (+6.00) wrote to the key. Its score "
        "there is 6.00 (5.00 to 7.00) above the mean of the keys."
    )
    assert reason(found, replace(looks[0], weight=0.02)).startswith("dec.3.1 hardly looks at any")
    assert "although its score there is 1.50 below" in reason(found, replace(looks[0], value=-1.5))
    word = replace(looks[0], looks_at="dog", prompts=4)
    assert reason(found, word).startswith("dec.3.1 looks at another word in most prompts since")
