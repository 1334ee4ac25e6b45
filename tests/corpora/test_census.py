"""The census against counting by hand."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from headcount.corpora import Census, Corpus, Encoder, Sentence, take_census
from tests.forked import ranks
from tests.tiny_tokenizers import SENTENCES

Tokenizers = dict[str, PreTrainedTokenizerBase]


@pytest.fixture
def bank(tmp_path: Path, treebank: str) -> Path:
    """The small treebank in a file."""
    path = tmp_path / "bank.conllu"
    path.write_text(treebank, encoding="utf-8")
    return path


def as_dict(counts_V: np.ndarray) -> dict[int, int]:
    return {int(token): int(counts_V[token]) for token in np.flatnonzero(counts_V)}


def test_counts(bank: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    corpus, encoder = Corpus(bank), Encoder(tokenizer)
    encoded = encoder.sources(list(corpus))
    census = take_census(corpus, encoder)
    assert (census.counts.sentences, census.counts.words) == (3, 17)
    assert census.counts.tokens == sum(len(one.ids) for one in encoded)
    assert census.counts.longest == max(len(one.ids) for one in encoded)
    assert (census.counts.truncated, census.counts.words_cut, census.counts.words_lost) == (0, 0, 0)
    assert census.counts.target_tokens == census.longest_target == 0
    content = Counter(
        token
        for one in encoded
        for token, special in zip(one.ids, one.is_special, strict=True)
        if not special
    )
    assert as_dict(census.source_counts) == content
    assert as_dict(census.target_counts) == {}
    assert census.sha256 == corpus.sha256()


def test_relations_are_sorted_without_the_root(bank: Path, tokenizers: Tokenizers) -> None:
    census = take_census(Corpus(bank), Encoder(tokenizers["wordpiece"]))
    assert census.relations == (
        "advmod:neg",
        "aux",
        "case",
        "det",
        "nsubj",
        "nummod:gov",
        "obj",
        "obl",
        "punct",
    )


def test_running_text_has_no_words_and_no_relations(tokenizers: Tokenizers) -> None:
    census = take_census(Corpus.from_sentences(["a dog", "Hund"]), Encoder(tokenizers["t5"]))
    assert (census.counts.sentences, census.counts.words, census.relations) == (2, 0, ())


def test_targets_are_counted_without_the_start_token(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences(
        [Sentence("The dog.", target="Der Hund."), Sentence("a", target="b")]
    )
    tokenizer = tokenizers["marian"]
    census = take_census(corpus, Encoder(tokenizer, start_id=0))
    labels = [tokenizer(text_target=text)["input_ids"] for text in ("Der Hund.", "b")]
    assert census.counts.target_tokens == sum(map(len, labels))
    assert census.longest_target == max(map(len, labels))
    assert as_dict(census.target_counts) == Counter(labels[0][:-1] + labels[1][:-1])


def test_truncation_and_lost_words_are_counted(tokenizers: Tokenizers) -> None:
    long = ("dog",) * 11
    corpus = Corpus.from_sentences(
        [
            Sentence(" ".join(long), long),
            Sentence("a \u200b", ("a", "\u200b")),
            Sentence("der Hund " * 9),
        ]
    )
    encoder = Encoder(tokenizers["wordpiece"], max_length=7)
    census = take_census(corpus, encoder)
    assert (census.counts.truncated, census.counts.words_cut, census.counts.words_lost) == (2, 6, 1)
    assert census.counts.longest == 7


def test_a_long_target_truncates_a_sentence(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("a", target="der Hund " * 9)])
    census = take_census(corpus, Encoder(tokenizers["t5"], max_length=7, start_id=0))
    assert (census.counts.truncated, census.longest_target) == (1, 7)


def test_the_size_of_chunks_does_not_matter(
    bank: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, encoder = Corpus(bank), Encoder(tokenizers["gpt2"])
    whole = take_census(corpus, encoder)
    monkeypatch.setattr("headcount.corpora.census.SENTENCES_AT_ONCE", 2)
    parts = take_census(corpus, encoder)
    assert np.array_equal(whole.source_counts, parts.source_counts)
    assert (whole.counts, whole.relations) == (parts.counts, parts.relations)


def test_unknown_tokens_are_counted_and_warned_of(tokenizers: Tokenizers) -> None:
    tokenizer = tokenizers["wordpiece"]
    encoder = Encoder(tokenizer)
    known = take_census(Corpus.from_sentences(["a dog"]), encoder)
    assert (known.num_unknown, [*known.warnings(64)]) == (0, [])
    census = take_census(
        Corpus.from_sentences(["a dog", "\N{CJK UNIFIED IDEOGRAPH-4E00} a"]), encoder
    )
    unknown = tokenizer("\N{CJK UNIFIED IDEOGRAPH-4E00}", add_special_tokens=False)["input_ids"]
    assert unknown == [tokenizer.unk_token_id] and census.num_unknown == 1
    content = int(census.source_counts.sum())
    (warning,) = census.warnings(64)
    assert warning.startswith(f"tokens that the model does not know: 1 of {content}. Check ")


def test_few_unknown_tokens_in_a_hundred_are_no_news(tokenizers: Tokenizers) -> None:
    encoder = Encoder(tokenizers["wordpiece"])
    texts = ["a a a a a a a a a a"] * 10 + ["\N{CJK UNIFIED IDEOGRAPH-4E00}"]
    census = take_census(Corpus.from_sentences(texts), encoder)
    assert census.num_unknown == 1 and [*census.warnings(64)] == []
    assert [*take_census(Corpus.from_sentences(texts[1:]), encoder).warnings(64)]


def test_unknown_tokens_of_targets_count(tokenizers: Tokenizers) -> None:
    corpus = Corpus.from_sentences([Sentence("a", target="\N{CJK UNIFIED IDEOGRAPH-4E00}")])
    tokenizer = tokenizers["t5"]
    census = take_census(corpus, Encoder(tokenizer, start_id=0))
    ids = tokenizer(text_target="\N{CJK UNIFIED IDEOGRAPH-4E00}")["input_ids"]
    assert census.num_unknown == ids.count(tokenizer.unk_token_id) > 0


def everything(census: Census) -> dict[str, str]:
    """All that a census says, in words."""
    lists = {name: each.tolist() for name, each in vars(census).items() if hasattr(each, "tolist")}
    return {name: str(each) for name, each in (vars(census) | lists).items()}


SHARING = """
import json, sys
from pathlib import Path
from headcount.core import InputError, leave, processes, work_together
from headcount.corpora import Corpus, Encoder, census, take_census
from tests.corpora.test_census import everything
from tests.tiny_tokenizers import wordpiece

census.SHARED_AT_ONCE, encoded = 3, []


class Counting(Encoder):
    def encode(self, sentences):
        encoded.append(len(sentences))
        return super().encode(sentences)


folder = Path(sys.argv[1])
encoders = Counting(wordpiece()), Counting(wordpiece(), max_length=8, windows=True)
corpora = [Corpus(folder / name) for name in ("bank.conllu", "bank.conllu", "texts.txt")]
found = [everything(take_census(*each)) for each in zip(corpora, (*encoders, encoders[0]))]
print(json.dumps([found, sum(encoded)]))
encoded.clear()
work_together(processes().num_processes)
print(json.dumps([everything(take_census(corpora[0], encoders[0])), sum(encoded)]))
work_together(1)
odd = Corpus([f"a dog {processes().process_index}"]), Counting(wordpiece())
for each in (odd, (corpora[2], Counting(wordpiece(), max_length=30, strict=True))):
    try:
        print(len(take_census(*each).parts))
    except InputError as error:
        print(error, flush=True)
leave()
"""


@pytest.mark.slow
def test_processes_share_a_census(tmp_path: Path, treebank: str) -> None:
    """They encode every sentence once, all get what one process counts, and all end with one."""
    other = treebank.replace("# text = The dogs didn't bark.", "# text = The cats did.")
    bank = "\n".join(treebank if number % 3 else other for number in range(1, 14))
    (tmp_path / "bank.conllu").write_text(bank, encoding="utf-8")
    long = f"{' '.join(SENTENCES[:4])}\n"
    (tmp_path / "texts.txt").write_text("".join(f"a dog {n}\n" for n in range(40)) + long)
    said = dict[int, list[list[str]]]()
    for number in (1, 2, 3):
        outputs = [each.communicate() for each in ranks("-c", SHARING, tmp_path, number=number)]
        said[number] = [output.splitlines() for output, _ in outputs]
        assert all(len(lines) == 4 for lines in said[number]), outputs
    every = [json.loads(lines[0]) for lines in said[1]]
    ((alone, num_sentences),) = every
    assert "differing=Named(count=4, origins=('bank.conllu:" in alone[0]["misread"]
    for number in (2, 3):
        found = [json.loads(lines[0]) for lines in said[number]]
        assert [each for each, _ in found] == [alone] * number
        shares = [share for _, share in found]
        assert sum(shares) == num_sentences and 0 < min(shares), shares
        same = "Expected the same corpus in all processes, got "
        assert all(lines[2].startswith(same) for lines in said[number])
        refused = sorted(lines[3] for lines in said[number])
        assert refused[0].startswith(f"{tmp_path}/texts.txt:41: expected a sentence of at most")
        assert all("Another process of this run ended" in each for each in refused[1:])
        assert {lines[1] for lines in said[number]} == {said[1][0][1]}, "of one model"
