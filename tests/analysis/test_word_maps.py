"""Attention between words is the stock model's: added over keys' pieces, averaged over queries'."""

import numpy as np
import pytest
import torch

from headcount.core import InputError
from headcount.corpora import label_source, label_target
from headcount.measures import model_inputs, word_attention
from headcount.measures.word_maps import MAX_CHARACTERS
from tests import tiny
from tests.tasks.loaded import loaded

TEXT = "She doesn't believe that three chairs jumped!"


def by_hand(weights_QK: torch.Tensor, queries: tuple[int, ...], keys: tuple[int, ...]):
    """The definition, token by token."""
    found = np.zeros((max(queries) + 1, max(keys) + 1))
    for q, u in enumerate(queries):
        for k, v in enumerate(keys):
            found[u, v] += float(weights_QK[q, k]) / queries.count(u)
    return found


@pytest.mark.once
@pytest.mark.parametrize("name", ["BertForMaskedLM", "LlamaForCausalLM", "MarianMTModel"])
def test_maps_are_sums_and_means_of_the_stock_models(name: str) -> None:
    model = loaded(name)
    second = "Der alte Hund bellte." if model.model.config.is_encoder_decoder else None
    found = word_attention(model, TEXT, second)
    source = label_source(model.encoder(), TEXT)
    target = label_target(model.encoder(), second) if second else None
    stock = tiny.attention_maps(model.model, model_inputs(model, source, target))
    assert [site.site for site in found.sites] == list(stock)
    for site in found.sites:
        queries = source if site.site == "encoder.self" or target is None else target
        keys = target if site.site == "decoder.self" and target is not None else source
        assert (site.queries, site.keys) == (queries.words, keys.words)
        for layer, maps_BHQK in enumerate(stock[site.site]):
            for head, map_QK in enumerate(maps_BHQK[0]):
                expected = by_hand(map_QK, queries.word_of, keys.word_of)
                np.testing.assert_allclose(site.maps[layer][head], expected, atol=1e-5)


@pytest.mark.slow
def test_gates_change_later_layers_and_translations_are_its_own() -> None:
    model = loaded("MarianMTModel")
    dense = word_attention(model, TEXT)
    assert dense.second is not None
    again = word_attention(model, TEXT, dense.second)
    gated = word_attention(model, TEXT, dense.second, {"enc.0.1": 0})
    assert np.array_equal(again.map("enc.1.0"), dense.map("enc.1.0"))
    assert np.array_equal(gated.map("enc.0.1"), dense.map("enc.0.1"))
    assert not np.allclose(gated.map("enc.1.0"), dense.map("enc.1.0"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at least one word, got none"),
        (" \n\t ", "at least one word, got none"),
        ("a" * (MAX_CHARACTERS + 1), "at most 2,000 characters, got 2,001"),
        ("dog " * 80, "at most 64 tokens, got"),
    ],
)
def test_empty_and_long_texts_get_a_sentence(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        word_attention(loaded("BertForMaskedLM"), text)


@pytest.mark.parametrize("head", ["enc.9.0", "dec.0.0", "first"])
def test_an_unknown_head_gets_a_sentence(head: str) -> None:
    with pytest.raises(InputError, match="Expected a head"):
        word_attention(loaded("BertForMaskedLM"), TEXT, gates={head: 0.0})
    with pytest.raises(InputError, match="Expected a head"):
        word_attention(loaded("BertForMaskedLM"), TEXT).map(head)
