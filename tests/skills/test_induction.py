"""Induction, duplicate-token and previous-token heads on repeated random tokens."""

from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import headcount
from headcount.core import InputError, LayerId, ModelError
from headcount.measures.induction import (
    PATTERNS,
    PatternMeans,
    RepeatedTokens,
    induction_scores,
    pattern_means,
)
from headcount.models import Loaded
from headcount.tap import AttentionLayer, Block
from tests import saved, tiny, tiny_tokenizers

LENGTH, SEQUENCES = 9, 5


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


def test_tokens_are_repeated_in_one_half_and_never_in_the_other(loaded: Loaded) -> None:
    tokens = RepeatedTokens.draw(loaded, LENGTH, SEQUENCES, seed=3)
    assert tokens.ids_BN.shape == (2 * SEQUENCES, 1 + 2 * LENGTH) and loaded.tokenizer is not None
    for repeated, other in zip(*tokens.ids_BN.split(SEQUENCES), strict=True):
        first, second = repeated[1:].split(LENGTH)
        assert first.tolist() == second.tolist() == other[1 : 1 + LENGTH].tolist()
        assert len(set(other.tolist())) == 1 + 2 * LENGTH
        assert not {*other[1:].tolist()} & {*loaded.tokenizer.all_special_ids}
    assert not torch.equal(tokens.ids_BN, RepeatedTokens.draw(loaded, LENGTH, SEQUENCES, 4).ids_BN)


@pytest.mark.slow
@pytest.mark.parametrize("start", [(), ("[CLS]",), ("[gMASK]", "<sop>")])
def test_texts_begin_as_the_tokenizer_begins_them(loaded: Loaded, start: tuple[str, ...]) -> None:
    """Where it puts nothing in front, they begin with its BOS token, if it has one."""
    tokenizer = tiny_tokenizers.starting(*start)
    ids = tuple(map(tokenizer.vocab.__getitem__, start)) or (tokenizer.bos_token_id,)
    config = copy(loaded.model.config)
    config.update({"vocab_size": len(tokenizer)})
    other = Loaded(tiny.seeded(type(loaded.model)(config)), tokenizer, "tiny")
    tokens = RepeatedTokens.draw(other, LENGTH, SEQUENCES, seed=3)
    starts, copies = tokens.ids_BN.split([len(ids), 2 * LENGTH], dim=1)
    assert starts.tolist() == [[*ids]] * (2 * SEQUENCES)
    assert torch.equal(copies[:SEQUENCES, :LENGTH], copies[:SEQUENCES, LENGTH:])
    other.model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = other.model(input_ids=tokens.ids_BN, output_attentions=True).attentions
    other.model.set_attn_implementation("sdpa")
    frame = induction_scores(other, LENGTH, SEQUENCES, seed=3).frame
    places = len(ids) + LENGTH + torch.arange(LENGTH)
    slow = maps[0][:SEQUENCES, 0, places, places - LENGTH].mean()
    assert abs(frame["duplicate_token"].to_numpy()[0] - slow) < 1e-6


@pytest.mark.slow
def test_logits_that_nobody_reads_are_not_computed(loaded: Loaded) -> None:
    tokens, model, shapes = RepeatedTokens.draw(loaded, LENGTH, 2, 3), loaded.model, []
    assert loaded.anatomy  # found by runs of its own
    hook = model.register_forward_hook(lambda *given: shapes.append(given[2].logits.shape[1]))
    found, whole = pattern_means(loaded, tokens), type(model).forward
    try:
        model.forward = lambda input_ids, use_cache: whole(model, input_ids=input_ids)
        expected = pattern_means(loaded, tokens)
    finally:
        hook.remove()
        del model.forward
    assert {*shapes[: len(shapes) // 2]} == {1} and {*shapes[len(shapes) // 2 :]} == {
        1 + 2 * LENGTH
    }
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_scores_are_the_textbook_means(loaded: Loaded) -> None:
    """Each number from the model's own attention maps, one weight at a time."""
    frame = induction_scores(loaded, LENGTH, SEQUENCES, seed=3).frame
    ids = RepeatedTokens.draw(loaded, LENGTH, SEQUENCES, seed=3).ids_BN
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = loaded.model(input_ids=ids, output_attentions=True).attentions
    loaded.model.set_attn_implementation("sdpa")
    keys = {
        "induction": lambda query: query - LENGTH + 1,
        "duplicate_token": lambda query: query - LENGTH,
        "previous_token": lambda query: query - 1,
    }
    numbers = {name: frame[name].to_numpy() for name in frame}
    assert list(frame["head"]) == list(map(str, loaded.heads))
    for head in range(len(frame)):
        layer, index = numbers["layer"][head], numbers["index"][head]
        for pattern in PATTERNS:
            means = []
            for text in range(2 * SEQUENCES):
                weights = maps[layer][text, index]
                second = range(1 + LENGTH, 1 + 2 * LENGTH)
                means.append(np.mean([float(weights[q, keys[pattern](q)]) for q in second]))
            repeated, other = means[:SEQUENCES], means[SEQUENCES:]
            mean, error = float(np.mean(repeated)), float(stats.sem(repeated))
            low, high = stats.t.interval(0.95, SEQUENCES - 1, mean, error)
            for name, expected in (
                (pattern, mean),
                (f"{pattern}_control", np.mean(other)),
                (f"{pattern}_low", max(low, 0)),
                (f"{pattern}_high", min(high, 1)),
            ):
                assert abs(numbers[name][head] - expected) < 1e-6


@pytest.mark.parametrize(("rows", "queries"), [(99, 99), (1, 99), (99, 2), (2, 7)])
def test_a_planted_head_gets_1_for_its_pattern_and_0_for_the_others(
    rows: int, queries: int
) -> None:
    """Whatever blocks the attention arrives in."""
    size, num = 1 + 2 * LENGTH, 3
    weights = torch.zeros(num, len(PATTERNS), size, size)
    for query in range(1 + LENGTH, size):
        for head, offset in enumerate((1 - LENGTH, -LENGTH, -1)):
            weights[:, head, query, query + offset] = 1
    layer = AttentionLayer("decoder.self", 0, "attention", 0, len(PATTERNS), len(PATTERNS), 4, None)
    means = PatternMeans(LENGTH, 1 + LENGTH)
    means.begin(layer, torch.zeros(num, len(PATTERNS), size, 4), size)
    for row in range(0, num, rows):
        for query in range(0, size, queries):
            part = weights[row : row + rows, :, query : query + queries]
            places = slice(row, row + rows), slice(0, 3), slice(query, query + part.shape[2])
            means.block(Block(layer, *places, part, part[..., :0]))
    means.end(layer)
    planted_PBH = means.means[LayerId("decoder.self", 0)]
    torch.testing.assert_close(planted_PBH, torch.eye(3)[:, None].expand(3, num, 3))


def test_random_weights_have_no_induction_heads(loaded: Loaded) -> None:
    """Their weight on the copy's successor is that without a copy."""
    frame = induction_scores(loaded, LENGTH, 40).frame
    weight, control = (frame[name].to_numpy() for name in ("induction", "induction_control"))
    assert abs(weight - control).max() < 0.05 < weight.max()


def test_texts_are_as_long_as_the_model_and_its_vocabulary_allow(
    loaded: Loaded, tmp_path: Path
) -> None:
    assert RepeatedTokens.draw(loaded, 10**6, 2, 0).length == 348  # 697 tokens are not special
    gpt2 = headcount.load(saved.gpt2(tmp_path))
    assert gpt2.max_length is not None
    assert RepeatedTokens.draw(gpt2, 10**6, 2, 0).length == (gpt2.max_length - 1) // 2 < 348


@pytest.mark.slow
def test_what_can_not_be_measured_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    bert = headcount.load(saved.bert(tmp_path))
    with pytest.raises(ModelError, match="Expected a causal language model, .* encoder.self"):
        induction_scores(bert)
    with pytest.raises(InputError, match="Expected at least 2 sequences .* got 1"):
        induction_scores(loaded, sequences=1)
    with pytest.raises(ModelError, match="at least 8 random tokens, .* got a length of 3 "):
        RepeatedTokens.draw(loaded, 3, 2, 0)
