"""From sentences to numbers: corpus, tokenizer, batches, model, measures, against the textbook."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, DebertaConfig, DebertaModel, PreTrainedModel

from headcount.corpora import (
    SECOND_HALF,
    Batch,
    Batches,
    Corpus,
    Encoder,
    Sentence,
    Tree,
    take_census,
)
from headcount.measures import Confidence, Patterns, Positional, Surface, Syntactic
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import run
from headcount.tap import examine
from tests import tiny, tiny_tokenizers
from tests.examined import softmax_in_double
from tests.measures.cases import Case, Example, Side
from tests.textbook import confidence, patterns, positional, surface, syntactic


def _sentences() -> list[Sentence]:
    """The tokenizer's own sentences with chains and stars as trees, whatever the grammar.

    Some words are parts of what is written, so that they share pieces with others.
    """
    made = []
    for number, text in enumerate(tiny_tokenizers.SENTENCES):
        written = text.split()
        cut = [
            2 if number % 3 and place % 4 == 1 else len(each) for place, each in enumerate(written)
        ]
        parts = [(each[:at], each[at:]) for each, at in zip(written, cut, strict=True)]
        words = tuple(part for both in parts for part in both if part)
        root = number % len(words)
        chain = [word - 1 if word > root else word + 1 for word in range(len(words))]
        heads = [root] * len(words) if number % 2 else chain
        heads[root] = -1
        relations = ["obj" if word % 3 else "nsubj:pass" for word in range(len(words))]
        relations[root] = "root"
        tree = Tree(tuple(heads), tuple(relations), ("X",) * len(words))
        made.append(Sentence(text, words, tree))
    return made


def _examples(batch: Batch, maps: torch.Tensor) -> list[Example]:
    found = []
    for row, sentence in enumerate(batch.sentences):
        tokens, length = batch.source, int(batch.source.is_token_BN[row].sum())
        special_BN = ~tokens.is_content_BN
        kinds = (tokens.ids_BN, special_BN, tokens.is_sep_BN, tokens.is_punct_BN, tokens.word_BN)
        unit_BN = tokens.unit_BN - tokens.unit_BN[:, :1]
        columns = (*kinds, unit_BN, tokens.half_BN == SECOND_HALF)
        side = Side(*(column[row, :length].tolist() for column in columns))
        assert sentence.tree is not None
        tree = [*sentence.tree.heads], [*sentence.tree.relations]
        A, nothing = maps[row, :, :length, :length].numpy(), np.zeros(0)
        merged = batch.encoded[row].merged
        found.append(Example(A, nothing, nothing, side, side, *tree, merged))
    return found


def _bert(sizes: dict[str, Any]) -> PreTrainedModel:
    return BertModel(BertConfig(**sizes), add_pooling_layer=False)


def _deberta(sizes: dict[str, Any]) -> PreTrainedModel:
    """A softmax of its own, over contents and distances."""
    config = DebertaConfig(**sizes, relative_attention=True, pos_att_type=["c2p", "p2c"])
    return DebertaModel(config)


@pytest.fixture(scope="module", params=[_bert, _deberta])
def layers(request: pytest.FixtureRequest) -> tuple[list[Case], tuple[str, ...]]:
    tokenizer = tiny_tokenizers.wordpiece()
    sizes: dict[str, Any] = tiny.ENCODER | {"vocab_size": len(tokenizer)}
    model = tiny.seeded(request.param(sizes)).double()
    encoder = Encoder(tokenizer, model.config.max_position_embeddings)
    corpus = Corpus.from_sentences(_sentences())
    census = take_census(corpus, encoder)
    made = [*Batches(corpus, encoder, census, max_tokens=120)]
    assert len(made) > 2 and any(len(batch.sentences) > 1 for batch in made)
    assert any(one.merged for batch in made for one in batch.encoded)
    assert census.counts.arcs_inside > 0
    totals = run(model, examine(model), made, MEASURES)
    assert (totals.num_batches, totals.num_sentences) == (len(made), 15)
    with softmax_in_double():
        maps = [tiny.attention_maps(model, batch.inputs)["encoder.self"] for batch in made]
    cases = []
    for layer in range(2):
        pairs = zip(made, maps, strict=True)
        examples = [each for batch, of_batch in pairs for each in _examples(batch, of_batch[layer])]
        place = ("encoder.self", layer)
        cases.append(Case(examples, {m: s for (m, at), s in totals.sums.items() if at == place}))
    return cases, census.relations


def test_measures_of_a_corpus_are_the_textbook(layers: tuple[list[Case], tuple[str, ...]]):
    for case in layers[0]:
        content = case.textbook(
            A=lambda e: e.A,
            query_is_special=lambda e: e.queries.is_special,
            key_is_special=lambda e: e.keys.is_special,
        )
        case.assert_values(Confidence, {"confidence": confidence.over_corpus(content)})
        best = [positional.best(profile) for profile in positional.over_corpus(content)]
        offsets, shares = ([pair[i] for pair in best] for i in range(2))
        case.assert_values(Positional, {"positional_offset": offsets, "positional_share": shares})
        kinds = surface.over_corpus(
            case.textbook(
                A=lambda e: e.A,
                key_is_sep=lambda e: e.keys.is_sep,
                key_is_punct=lambda e: e.keys.is_punct,
            )
        )
        case.assert_values(Surface, {f"attn_{kind}": share for kind, share in kinds.items()})
        shapes = patterns.over_corpus(
            case.textbook(
                A=lambda e: e.A,
                segment_of=lambda e: patterns.segments(e.keys.is_sep, e.keys.is_special),
            )
        )
        names = {f"pattern_{kind}": [head[kind] for head in shapes] for kind in patterns.PATTERNS}
        case.assert_values(Patterns, names)


def test_relations_of_a_treebank_are_the_textbook(layers: tuple[list[Case], tuple[str, ...]]):
    cases, relations = layers
    assert relations == ("nsubj:pass", "obj")
    for case in cases:
        sums = case.sums[Syntactic]
        assert isinstance(sums, Syntactic)
        table = sums.table(relations).set_index(["relation", "direction", "index"]).sort_index()
        expected = syntactic.over_corpus(
            case.textbook(
                A=lambda e: e.A,
                word_of=lambda e: e.keys.word_of,
                heads=lambda e: e.heads,
                relations=lambda e: e.relations,
                number=lambda e: e.number,
            )
        )
        assert len(table) == 5 * len(expected) == 5 * 9
        for key, row in expected.items():
            rows = table.loc[key]
            assert rows["correct"].tolist() == row.correct
            assert rows["cases"].tolist() == [row.cases] * 5
            assert rows["baseline_offset"].tolist() == [row.baseline_offset] * 5
            assert rows["baseline"].tolist() == pytest.approx([row.baseline] * 5)
