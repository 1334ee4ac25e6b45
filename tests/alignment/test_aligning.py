"""Word alignment: links of heads, layers and norms, against the definitions and planted links."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from headcount.alignment import Alignment, AlignmentOptions, align
from headcount.alignment.link_scores import (
    Found,
    GoldCounts,
    LinkFinder,
    Place,
    pair_batch,
    score,
    share_pieces,
    vector_norms,
    word_maps,
)
from headcount.core import CorpusError, InputError
from headcount.corpora import Corpus, Links, PairTokens, Sentence
from headcount.models import Loaded
from headcount.tap import FunctionListener, Tap
from tests.tasks.loaded import loaded
from tests.textbook import alignment as textbook

PAIRS = Corpus.from_sentences(
    [
        Sentence("The old dog barked at the moon", target="Der alte Hund bellte den Mond an"),
        Sentence("Did you hear the rain last night", target="Hast du gestern den Regen gehört"),
        Sentence("A painter", target="Ein Maler aus Bremen"),
    ]
)
SURE = [{(0, 0), (1, 1), (2, 2), (3, 3)}, {(2, 5), (4, 4)}, {(0, 0), (1, 1)}]
POSSIBLE = [{(4, 6), (4, 3)}, set(), {(1, 2)}]
GOLD = [Links(frozenset(s), frozenset(s | p)) for s, p in zip(SURE, POSSIBLE, strict=True)]


def weights(model: Loaded, inputs: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """The weights of every layer, [batch, head, query, key]."""
    found = {}

    def keep(block) -> None:
        layer = block.layer
        found[f"{layer.site}.{layer.layer}"] = block.weights_BHQK.numpy().copy()

    with (
        torch.inference_mode(),
        Tap(model.model, model.anatomy, FunctionListener(keep), block=2**62),
    ):
        model.model.base_model(**inputs)
    return found


def test_cross_attention_by_the_book() -> None:
    model = loaded("MarianMTModel")
    found = align(model, PAIRS, GOLD, AlignmentOptions(samples=50))
    sites = {row.head.partition(".")[0] for row in found.rows}
    assert sites == {"cross"}
    expected = by_the_book(model)
    for row in found.rows:
        if row.quantity == "weights":
            assert row.aer == pytest.approx(expected[row.head, row.direction], abs=1e-12)
            assert row.aer_low <= row.aer <= row.aer_high
    assert len(expected) == sum(row.quantity == "weights" for row in found.rows)


def test_a_treebank_is_aligned_as_it_is_written() -> None:
    """Words that share pieces have the same links: one to any of them is one to all."""
    model = loaded("MarianMTModel")
    words = ["The old dog bark ed at the moon", "Did you he ar the rain last night"]
    pairs = [*zip(PAIRS, map(str.split, words), strict=False)]
    sentences = [replace(pair, words=tuple(its)) for pair, its in pairs]
    corpus = Corpus.from_sentences(sentences)
    found = align(model, corpus, GOLD[:2], AlignmentOptions(samples=50))
    expected = by_the_book(model, corpus)
    for row in found.rows:
        if row.quantity == "weights":
            assert row.aer == pytest.approx(expected[row.head, row.direction], abs=1e-12)
    assert "|treebank:as-written|" in found.record.signature
    joined = align(model, Corpus.from_sentences(sentences, as_words=True), GOLD[:2])
    assert "|treebank:as-words|" in joined.record.signature
    gold_2WV = np.zeros((2, 2, 4), bool)
    gold_2WV[0, 1, 2] = True
    share_pieces(gold_2WV, [0, 1, 1])
    assert gold_2WV[0, 1].tolist() == [False, True, True, False]


@pytest.mark.slow
def test_links_to_the_end_of_the_source_are_dropped() -> None:
    model, options = loaded("MarianMTModel"), AlignmentOptions(end_of_source=True, samples=9)
    found = align(model, PAIRS, GOLD, options)
    expected, without = by_the_book(model, end=True), by_the_book(model)
    for row in found.rows:
        if row.quantity == "weights":
            assert row.aer == pytest.approx(expected[row.head, row.direction], abs=1e-12)
    assert expected != without
    assert "|end:dropped|" in found.record.signature
    one_by_one = align(model, PAIRS, GOLD, replace(options, max_tokens=1))
    assert one_by_one.rows == found.rows
    for other in ("BertForMaskedLM", "LlamaForCausalLM"):
        join = "\\n" if other.startswith("Llama") else None
        with pytest.raises(InputError, match="--end-of-source is for models that read the source"):
            align(loaded(other), PAIRS, GOLD, replace(options, join=join))


def by_the_book(
    model: Loaded, corpus: Corpus = PAIRS, end: bool = False
) -> dict[tuple[str, str], float]:
    """The error rate of every head and layer in both directions, pair by pair.

    With `end`, the last token of the source is one more word, whose links are dropped.
    """
    from headcount.corpora.word_pairs import encode_two_sides, pairs_of_words

    pairs = pairs_of_words(corpus)
    number_of = []
    links: dict[tuple[str, str], set[tuple[int, int, int]]] = {}
    for number, (pair, one) in enumerate(
        zip(pairs, encode_two_sides(model.encoder(), pairs), strict=True)
    ):
        inputs = {
            "input_ids": torch.tensor([one.ids]),
            "decoder_input_ids": torch.tensor([one.decoder_ids]),
        }
        merged = one.merged or [*range(len(pair.source.words))]
        number_of.append(merged)
        sources = range(max(merged) + 1 + end)
        source_of = [*one.source_of[:-1], sources[-1]] if end else one.source_of
        for layer, maps in weights(model, inputs).items():
            if not layer.startswith("decoder.cross"):
                continue
            name = f"cross.{layer.rpartition('.')[2]}"
            named = {f"{name}.{head}": each for head, each in enumerate(maps[0])}
            named[name] = maps[0].mean(0)
            for head, each in named.items():
                for direction, words in (("output", one.output_of), ("input", one.input_of)):
                    by_word = textbook.link_map(each, words or (), source_of)
                    drawn = textbook.links(by_word, sources)
                    kept = [link for link in drawn if not end or link[0] != sources[-1]]
                    of_pair = {(number, source, target) for source, target in kept}
                    links.setdefault((head, direction), set()).update(of_pair)

    def merged_links(all_of: list[frozenset[tuple[int, int]]]) -> set[tuple[int, int, int]]:
        rows = zip(number_of, all_of, strict=True)
        return {(i, its[s], t) for i, (its, links) in enumerate(rows) for s, t in links}

    gold = GOLD[: len(pairs)]
    sure, possible = (
        merged_links([getattr(each, kind) for each in gold]) for kind in ("sure", "possible")
    )
    return {
        key: textbook.alignment_error_rate(drawn, sure, possible) for key, drawn in links.items()
    }


def test_norms_by_the_book() -> None:
    generator = torch.Generator().manual_seed(3)
    attention = torch.rand(2, 3, 5, 7, generator=generator)
    values = torch.randn(2, 3, 7, 4, generator=generator)
    outputs = torch.randn(3, 4, 11, generator=generator)
    heads, layer = vector_norms(attention, values, outputs)
    for query, key in ((0, 0), (4, 6), (2, 5)):
        each_A, each_V = attention[1].numpy(), values[1].numpy()
        expected = textbook.norm_of_sum(each_A, each_V, outputs.numpy(), query, key)
        assert float(layer[1, query, key]) == pytest.approx(expected, rel=1e-5)
        for head in range(3):
            one = slice(head, head + 1)
            expected = textbook.norm_of_sum(
                each_A[one], each_V[one], outputs[one].numpy(), query, key
            )
            assert float(heads[1, head, query, key]) == pytest.approx(expected, rel=1e-5)


def test_self_attention_between_segments_by_the_book() -> None:
    """Keys are summed and queries averaged, whichever side attends; unequal numbers of pieces."""
    generator = torch.Generator().manual_seed(5)
    source_of, target_of = [-1, 0, 0, 1, 2, -1, -1, -1, -1], [-1] * 5 + [-1, 0, 1, 1]
    tokens = PairTokens(list(range(9)), None, source_of, target_of, None)
    batch = pair_batch([tokens], [(True, True, True)], pad_id=0)
    attention = torch.rand(1, 2, 9, 9, generator=generator)
    maps = word_maps(attention, batch)
    for head in range(2):
        each = attention[0, head].numpy()
        row = textbook.link_map(each, target_of, source_of)
        column = textbook.link_map(each, source_of, target_of).T
        found = [maps[direction][0, head].numpy() for direction in batch.directions]
        for ours, book in zip(found, (row, column, row + column), strict=True):
            np.testing.assert_allclose(ours, book, rtol=1e-5)


def planted(number: int, length: int, rng: np.random.Generator) -> tuple[PairTokens, Links]:
    """A pair whose words are permuted, a piece each, between two separators."""
    order = rng.permutation(length)
    links = frozenset((int(source), target) for target, source in enumerate(order))
    source_of = [-1, *range(length), -1, *[-1] * length, -1]
    target_of = [-1] * (length + 2) + [*range(length), -1]
    tokens = PairTokens([number] * (2 * length + 3), None, source_of, target_of, None)
    return tokens, Links(links, links)


def test_planted_links_are_found_and_noise_is_not() -> None:
    """One head looks at the linked word, one is looked at by it, others draw at random."""
    rng, length = np.random.default_rng(0), 11
    made = [planted(number, length, rng) for number in range(40)]
    batch = pair_batch([tokens for tokens, _ in made], [[True] * length] * 40, pad_id=0)
    attention = rng.dirichlet(np.ones(2 * length + 3), size=(40, 4, 2 * length + 3))
    for number, (_, links) in enumerate(made):
        for source, target in links.sure:
            attention[number, 0, length + 2 + target, 1 + source] += 2
            attention[number, 1, 1 + source, length + 2 + target] += 2
    maps = word_maps(torch.tensor(attention), batch)
    found = {}
    for direction, map_BHWV in maps.items():
        drawn = map_BHWV.argmax(-1).numpy()
        for head in range(4):
            hits = [
                sum((int(drawn[n, head, target]), target) in links.sure for target in range(length))
                for n, (_, links) in enumerate(made)
            ]
            each = np.array(hits)
            place = Place(str(head), "head", "weights", direction)
            found[place] = Found(np.full(40, length), each, each)
    gold = GoldCounts.of([links for _, links in made], [[True] * length] * 40)
    aer = {(row.head, row.direction): row for row in score(found, gold, 200, 0)}
    assert aer["0", "target->source"].aer == 0 and aer["1", "target<-source"].aer == 0
    assert aer["0", "target<->source"].aer == aer["1", "target<->source"].aer == 0
    for key in (("0", "target<-source"), ("1", "target->source"), ("2", "target->source")):
        assert aer[key].aer == pytest.approx(1 - 1 / length, abs=0.04)
        assert aer[key].aer_low < 1 - 1 / length < aer[key].aer_high


def test_causal_models_look_back_only() -> None:
    found = align(loaded("LlamaForCausalLM"), PAIRS, GOLD, AlignmentOptions(join="\\n", samples=9))
    assert {row.direction for row in found.rows} == {"target->source"}
    assert {row.quantity for row in found.rows} == {"weights", "norms"}


def test_only_some_words_take_part() -> None:
    """Words that don't match are neither linked nor counted."""
    model, options = loaded("MarianMTModel"), AlignmentOptions(elements="[A-Z]", samples=9)
    found = align(model, PAIRS, GOLD, options)
    assert found.record.cases == 5  # Der, Hund; Regen; Ein, Maler
    assert max(row.precision for row in found.rows) <= 1


def test_every_model_of_two_sides_agrees_on_batches() -> None:
    """Padding changes nothing: pairs one by one give the same rows as all at once."""
    model = loaded("MarianMTModel")
    one_by_one = align(model, PAIRS, GOLD, AlignmentOptions(max_tokens=1, samples=9))
    together = align(model, PAIRS, GOLD, AlignmentOptions(samples=9))
    assert one_by_one.rows == together.rows


def test_records_are_read_back(tmp_path: Path) -> None:
    found = align(loaded("BertForMaskedLM"), PAIRS, GOLD, AlignmentOptions(samples=9))
    found.write(tmp_path)
    again = Alignment.read(tmp_path)
    assert again == found and isinstance(again, Alignment)
    ranked = again.ranked()
    assert [row.aer for row in ranked] == sorted(row.aer for row in ranked)
    (tmp_path / "alignment.parquet").write_text("no table")
    with pytest.raises(InputError, match="as alignment.json describes it, got other contents"):
        Alignment.read(tmp_path)


@pytest.mark.parametrize(
    ("gold", "join", "message"),
    [
        (GOLD[:2], None, "Expected gold links for each of 3 pairs, got 2."),
        (
            [*GOLD[:2], GOLD[0]],
            None,
            "the link 2-2 (counted from 0) is out of range, since the source",
        ),
        ([Links(frozenset(), frozenset())] * 3, None, "Expected at least one sure link, got none."),
        (GOLD, " ", "--join is for models that read both texts in one sequence"),
    ],
)
def test_what_can_not_be_aligned_is_refused(
    gold: list[Links], join: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        align(loaded("MarianMTModel"), PAIRS, gold, AlignmentOptions(join=join))


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match=re.escape("Expected a regular expression for elements")):
        AlignmentOptions(elements="[")
    with pytest.raises(InputError, match="Expected max_tokens of at least 1"):
        AlignmentOptions(max_tokens=0)


def test_long_pairs_are_counted() -> None:
    model = loaded("BertForMaskedLM")
    long = Sentence(" ".join(["dog"] * 70), target=" ".join(["Hund"] * 70))
    corpus = Corpus.from_sentences([*PAIRS, long])
    gold = [*GOLD, Links(frozenset({(69, 69)}), frozenset({(69, 69)}))]
    found = align(model, corpus, gold, AlignmentOptions(samples=9)).record
    assert (found.pairs, found.too_long, found.sure) == (3, 1, 8)
    assert "tokens, left out: 1 of 4" in found.warnings[0]
    assert "intervals from 3 pairs are wide or missing" in found.warnings[1]
    with pytest.raises(CorpusError, match="got none that short"):
        align(model, Corpus.from_sentences([long]), gold[3:])


def test_a_listener_needs_complete_layers() -> None:
    model = loaded("BertForMaskedLM")
    tokens = PairTokens([1, 5, 2, 6, 2], None, [-1, 0, -1, -1, -1], [-1, -1, -1, 0, -1], None)
    batch = pair_batch([tokens], [(True,)], pad_id=0)
    finder = LinkFinder(model.model, model.anatomy.layers)
    finder.start(batch)
    with pytest.raises(AssertionError, match="one block"):
        with torch.inference_mode(), Tap(model.model, model.anatomy, finder, block=1):
            model.model(**batch.inputs)


def test_other_aligners_are_scored_beside_the_heads(tmp_path: Path) -> None:
    """Of pairs that fit the model, and of words that take part."""
    long = Sentence(" ".join(["dog"] * 70), target=" ".join(["Hund"] * 70))
    pairs = Corpus.from_sentences([long, *PAIRS])
    gold = [Links(frozenset({(0, 0)}), frozenset({(0, 0)})), *GOLD]
    drawn = [{(0, 0)}, {(0, 0), (1, 1), (4, 3), (5, 5)}, set(), {(0, 0), (0, 2), (1, 2), (1, 3)}]
    file = tmp_path / "ibm.links"
    file.write_text("".join(" ".join(f"{s}-{t}" for s, t in sorted(e)) + "\n" for e in drawn))
    options = AlignmentOptions(samples=9, compare=(str(file),))
    model = loaded("BertForMaskedLM")
    found = align(model, pairs, gold, options)
    (row,) = found.ranked("aligner")
    assert (row.head, row.quantity, row.direction) == ("ibm", "file", "file")
    sets = [
        {(n, *link) for n, each in enumerate(some) for link in each}
        for some in (drawn[1:], SURE, [a | b for a, b in zip(SURE, POSSIBLE, strict=True)])
    ]
    assert row.aer == pytest.approx(textbook.alignment_error_rate(*sets))
    assert row.precision == pytest.approx(5 / 8) and row.recall == pytest.approx(3 / 8)
    plain = align(model, pairs, gold, AlignmentOptions(samples=9))
    assert found.rows[1:] == plain.rows and found.record.signature != plain.record.signature
    some = AlignmentOptions(samples=9, compare=(str(file),), elements="[A-Z]")
    (upper,) = align(model, pairs, gold, some).ranked("aligner")
    assert upper.precision == 1, "only The-Der and A-Ein join two words with a capital"


def test_bad_links_of_other_aligners_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ibm.links"
    file.write_text("0-0\n0-0\n0-9\n")
    model, same = loaded("BertForMaskedLM"), tmp_path / "other" / "ibm.links"
    options = AlignmentOptions(compare=(str(file),))
    with pytest.raises(CorpusError, match=re.escape("ibm.links:3: the link 0-9")):
        align(model, PAIRS, GOLD, options)
    with pytest.raises(InputError, match="links with different names, got ibm twice"):
        align(model, PAIRS, GOLD, AlignmentOptions(compare=(str(file), str(same))))
