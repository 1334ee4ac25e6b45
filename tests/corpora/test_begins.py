"""What begins and ends a text: a token that the text has itself is not put there again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headcount.corpora import Corpus, Encoder, Sentence, label_source, take_census
from headcount.corpora.tokenizing import encode_inputs
from headcount.tasks import TASKS
from tests import tiny_tokenizers
from tests.tasks.loaded import loaded

TEXT = "The old dog barked at the moon"
KINDS: dict[str, Callable[[Path], Any]] = {
    "llama": lambda _: tiny_tokenizers.llama(),
    "two": lambda _: tiny_tokenizers.starting("<s>", "<unk>"),
    "wordpiece": lambda _: tiny_tokenizers.wordpiece(),
    "roberta": lambda _: tiny_tokenizers.byte_level("roberta"),
    "t5": lambda _: tiny_tokenizers.t5(),
    "byt5": lambda _: tiny_tokenizers.byt5(),
    "marian": tiny_tokenizers.marian,
}


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_its_start_and_end_is_read_as_one_without(
    tmp_path: Path, kind: str, side: str
) -> None:
    tokenizer = KINDS[kind](tmp_path)
    tokenizer.truncation_side = side
    encoder = Encoder(tokenizer)
    marks = ["".join(tokenizer.convert_ids_to_tokens([*ids])) for ids in _ends(encoder)]
    assert any(marks) and encoder.bare(TEXT.join(marks)) == TEXT
    for begins, ends in ((marks[0], ""), ("", marks[1]), marks):
        sentence = Sentence(begins + TEXT + ends, target=begins + TEXT + ends)
        own = tokenizer(sentence.text, add_special_tokens=False)["input_ids"]
        front, behind = _ends(encoder, not begins, not ends)
        expected = [*front, *own, *behind]
        number = sum(map(len, _ends(encoder, bool(begins), bool(ends))))
        (found,) = encoder.sources([sentence])
        assert (found.ids, found.full_length) == (expected, len(expected)), (begins, ends)
        assert found.num_repeated == number
        assert found.is_special.count(True) == sum(map(len, _ends(encoder)))
        assert label_source(encoder, sentence.text).ids == tuple(expected)
        if tokenizer.is_fast:
            assert [one.ids for one in encode_inputs(tokenizer, [sentence], None)] == [expected]
        (cut,) = Encoder(tokenizer, 5).sources([sentence])
        room = 5 - sum(map(len, _ends(encoder)))
        start, end = map(len, _ends(encoder))
        content = expected[start : len(expected) - end]
        content = content[-room:] if side == "left" else content[:room]
        assert cut.ids == [*expected[:start], *content, *expected[len(expected) - end :]]
        assert cut.truncated


def _ends(encoder: Encoder, begins: bool = True, ends: bool = True) -> tuple[tuple[int, ...], ...]:
    return encoder.start_ids * begins, encoder.end_ids * ends


def test_words_keep_their_places_and_pairs_their_types() -> None:
    tokenizer = tiny_tokenizers.wordpiece()
    encoder = Encoder(tokenizer, token_types=True)
    found, bare = (label_source(encoder, text) for text in (f"[CLS] {TEXT}[SEP]", TEXT))
    assert (found.words, found.word_of) == (bare.words, bare.word_of)
    pairs = [Sentence(f"[CLS] {TEXT}", second="Nobody[SEP]"), Sentence(TEXT, second="Nobody")]
    one, other = encoder.sources(pairs)
    assert (one.ids, one.type_ids, one.num_repeated) == (other.ids, other.type_ids, 2)


def test_such_texts_are_counted() -> None:
    corpus = Corpus([f"<s>{TEXT}", TEXT, f"{TEXT} <s>"])
    census = take_census(corpus, Encoder(tiny_tokenizers.llama()))
    (said,) = [each for each in census.warnings(None) if "read once" in each]
    assert said.endswith("which is read once: 1")
    assert not [each for each in census.warnings(None) if "twice" in each]


@pytest.mark.parametrize("task", ["causal-lm", "choice", "masked-lm", "classification"])
def test_tasks_read_the_start_once(task: str) -> None:
    from tests.explanation.test_reader import BERT, LLAMA

    models = {"masked-lm": BERT, "classification": "BertForSequenceClassification"}
    held = loaded(models.get(task, LLAMA))
    begins = "[CLS]" if task in models else "<s>"
    start = held.encoder().start_ids
    more = {
        "choice": {"choices": [["moon", "river"]], "answer": [0]},
        "classification": {"label": [0]},
    }.get(task, {})
    column = "prompt" if task == "choice" else "text"
    found, bare = (
        TASKS[task](held, {column: [text], **more}) for text in (f"{begins}{TEXT}", TEXT)
    )
    (batch,) = found.batches()
    ids = batch.inputs["input_ids"][0].tolist()
    assert ids[0] == start[0] and ids.count(start[0]) == 1
    (said,) = set(found.warnings()) - set(bare.warnings())
    assert said.endswith("which is read once: 1")


def test_a_prompt_has_one_start_raw_and_in_a_chat() -> None:
    from headcount.skills import Hay
    from tests.explanation.test_reader import LLAMA, case

    held = loaded(LLAMA)
    assert held.tokenizer is not None
    own = tuple(held.tokenizer(f"<s>{TEXT}", add_special_tokens=False)["input_ids"])
    (row,) = case(held, f"<s>{TEXT}", " moon").rows
    assert row.ids[: len(own)] == own and row.ids.count(own[0]) == 1
    hay = Hay(held, [f"<s>{TEXT}", TEXT])
    assert hay.lines[0] == hay.lines[1]
    assert own[0] not in hay.lines[0] and hay.noted.repeated == 1
