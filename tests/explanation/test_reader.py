"""Prompts as a model reads them: targets, rivals, masks, labels, second prompts; and refusals."""

from dataclasses import replace

import pytest
import torch

from headcount.core import InputError, ModelError
from headcount.explanation import ExplainOptions, Prompt
from headcount.explanation.changes import Look
from headcount.explanation.reader import Reader
from headcount.explanation.runs import Case, Reading
from headcount.models import Loaded
from tests import tiny, tiny_tokenizers
from tests.tasks.loaded import loaded

LLAMA, GPT2, BERT = "LlamaForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM"
T5, LABELS = "T5ForConditionalGeneration", "BertForSequenceClassification"


def case(
    held: Loaded,
    prompt: str,
    target: str,
    against: str | None = None,
    corrupt: str | None = None,
    first: bool = False,
    chat: bool = False,
) -> Case:
    return Reader(held, ExplainOptions(first=first, chat=chat)).case(
        Prompt(prompt, target, against, corrupt)
    )


def ids(held: Loaded, text: str) -> tuple[int, ...]:
    assert held.tokenizer is not None
    return tuple(held.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_a_continuation_is_what_follows_when_both_are_tokenized() -> None:
    held = loaded(GPT2)
    found = case(held, "The old dog", " barked at", " moon")
    prompt, target = ids(held, "The old dog"), ids(held, " barked at")
    against = ids(held, " moon")
    assert len(target) > len(against)
    first, second = found.rows
    assert first.ids == (*prompt, *target[:-1]) and second.ids == (*prompt, *against[:-1])
    for row, tokens, sign in [(first, target, 1.0), (second, against, -1.0)]:
        places = range(-len(tokens), 0)
        assert row.readings == tuple(map(Reading, places, tokens, [sign] * len(tokens)))
    assert "".join(found.tokens) == " barked at" and len(found.tokens) == len(target)
    (only,) = case(held, "The old dog", " barked at", " moon", first=True).rows
    assert only.ids == prompt and only.last == 1
    assert [each.token for each in only.readings] == [target[0], against[0]]


def test_a_blank_at_the_end_of_a_prompt_belongs_to_the_target() -> None:
    held = loaded(GPT2)
    with_blank = case(held, "The old dog ", "barked", "moon", "The old moon ")
    without = case(held, "The old dog", " barked", " moon", "The old moon")
    assert with_blank.rows == without.rows and with_blank.corrupt == without.corrupt


def test_a_piece_of_a_word_is_not_taken_from_a_prompt() -> None:
    held = loaded(GPT2)
    (row,) = case(held, "The old d", "o").rows
    assert row.ids == ids(held, "The old d") and row.readings[0].token == ids(held, "o")[0]


def test_what_a_tokenizer_puts_in_front_stays_and_at_the_end_does_not() -> None:
    held = loaded(LLAMA)
    (row,) = case(held, "The old dog", " barked").rows[:1]
    assert row.ids[: 1 + len(ids(held, "The old dog"))] == (1, *ids(held, "The old dog"))


def test_an_encoder_decoder_answers_a_source() -> None:
    held = loaded(T5)
    assert held.tokenizer is not None
    found = case(held, "The old dog", "Hund bellte", "Mond")
    source = tuple(held.tokenizer("The old dog")["input_ids"])
    target, against = ids(held, "Hund bellte"), ids(held, "Mond")
    start = held.config.decoder_start_token_id
    assert [row.ids for row in found.rows] == [source] * len(found.rows)
    assert found.rows[0].decoder_ids == (start, *target[:-1])
    assert [each.token for each in found.rows[0].readings] == [*target]
    assert [each.place for each in found.rows[0].readings] == [*range(-len(target), 0)]
    assert found.rows[1].decoder_ids == (start, *against[:-1])


def test_a_masked_model_gets_a_mask_for_each_token() -> None:
    held = loaded(BERT)
    assert held.tokenizer is not None
    mask = held.tokenizer.mask_token_id
    target, against = ids(held, "barked at"), ids(held, "moon")
    found = case(held, "The old dog [MASK] the river.", "barked at", "moon")
    two, one = found.rows
    assert [two.ids.count(mask), one.ids.count(mask)] == [len(target), len(against)]
    for row, tokens in [(two, target), (one, against)]:
        places = [len(row.ids) + int(each.place or 0) for each in row.readings]
        assert [row.ids[place] for place in places] == [mask] * len(tokens)
        assert [each.token for each in row.readings] == [*tokens]


def test_a_label_by_its_name_or_number(monkeypatch: pytest.MonkeyPatch) -> None:
    held = loaded(LABELS)  # other tests read it, too
    monkeypatch.setattr(held.config, "id2label", {0: "bad", 1: "fair", 2: "2"})
    for target, label in [("fair", 1), ("0", 0), ("2", 2)]:
        (row,) = case(held, "The old dog", target, "bad" if label else "fair").rows
        assert row.readings[0] == Reading(None, label, 1.0) and row.last == 0
    with pytest.raises(InputError, match="Expected a label out of bad, fair, 2, 0, 1, got 'fare'"):
        case(held, "The old dog", "fare")


def test_log_probabilities_are_those_of_the_logits() -> None:
    held = loaded(GPT2)
    row = case(held, "The old dog", " barked at", " moon").rows[0]
    with torch.no_grad():
        logits = held.model(**row.inputs(held)).logits
    log = logits[0].double().log_softmax(-1)
    expected = [log[each.place, each.token] for each in row.readings]
    found = row.log_probabilities(logits[:, -row.last :])
    torch.testing.assert_close(found[0], torch.stack(expected))


def test_second_prompts_are_aligned() -> None:
    held = loaded(GPT2)
    same = case(held, "The old dog", " and", None, "The old moon")
    assert same.rows[0].in_other == tuple(range(len(same.rows[0].ids)))
    found = case(held, "The old dog barked", " and the", None, "The old xyzzy barked")
    assert found.corrupt is not None
    clean, corrupt = found.rows[0], found.corrupt[0]
    more = len(ids(held, " xyzzy")) - len(ids(held, " dog"))
    assert more > 0 and len(corrupt.ids) == len(clean.ids) + more
    word = len(ids(held, "The old"))
    assert clean.in_other == tuple(
        place if place < word else place + more for place in range(len(clean.ids))
    )
    assert corrupt.in_other == tuple(
        place if place < word else max(word, place - more) for place in range(len(corrupt.ids))
    )
    with pytest.raises(
        InputError, match=r"got \d+ tokens \(The.*\| .*\) and \d+ tokens \("
    ) as error:
        case(held, "The old dog barked", " and", None, "The old dog barked and")
    assert "Change other words of it" in str(error.value)


def test_a_second_masked_prompt_keeps_its_mask_in_place() -> None:
    held = loaded(BERT)
    found = case(held, "The old [MASK] barked", "dog and", None, "The river [MASK] barked")
    assert found.corrupt is not None
    clean, corrupt = found.rows[0], found.corrupt[0]
    assert len(clean.ids) != len(corrupt.ids)
    for one, other in [(clean, corrupt), (corrupt, clean)]:
        for place, token in enumerate(one.ids):
            if token in set(other.ids):
                assert other.ids[one.in_other[place]] == token


def test_refusals() -> None:
    held = loaded(GPT2)
    for given, says in [
        ((" ", " barked"), "expected a prompt of at least one word, got ' '"),
        (("The old dog", ""), "expected a target of at least one word, got ''"),
        (("The old dog", " moon", " moon"), r"got ' moon' and ' moon', which are both read as"),
        (("dog " * 200, " moon"), "expected at most 128 tokens, which tiny GPT2LMHeadModel takes"),
    ]:
        with pytest.raises(InputError, match=says):
            case(held, *given)
    with pytest.raises(InputError, match="Leave --first out to read all of their tokens"):
        case(held, "The old dog", " barked at", " barked moon", first=True)
    with pytest.raises(InputError, match=r"with one \[MASK\], which tiny BertForMaskedLM fills"):
        case(loaded(BERT), "The old dog", "moon")
    with pytest.raises(ModelError, match="Expected a model that predicts tokens or labels"):
        Reader(loaded("BertModel"), ExplainOptions())


def test_which_looks_are_knocked_out() -> None:
    """The target's word, or another, from the tokens that predict, or a word."""
    held = loaded(GPT2)
    prompt = "The moon, the old dog barked at the"
    row = case(held, prompt, " moon", " dog").rows[0]
    moon = len(ids(held, "The"))
    places = tuple(range(moon, len(ids(held, "The moon"))))
    prompt_length, length = len(ids(held, prompt)), len(row.ids)
    assert row.look == Look("decoder.self", tuple(range(prompt_length - 1, length)), places)
    assert case(held, prompt, " river").rows[0].look is None
    reader = Reader(held, ExplainOptions(query="dog", key="The moon"))
    look = reader.case(Prompt(prompt, " river")).rows[0].look
    dog = len(ids(held, "The moon, the old"))
    assert look == Look(
        "decoder.self",
        tuple(range(dog, len(ids(held, "The moon, the old dog")))),
        tuple(range(len(ids(held, "The moon")))),
    )
    twice = Reader(held, ExplainOptions(key="the")).case(Prompt(f"{prompt} cat, the", " river"))
    look, the = twice.rows[0].look, ids(held, " the")
    assert look is not None and len(look.keys) == 3 * len(the), "blocked wherever it stands"
    with pytest.raises(InputError, match=r"expected 'cat' among the words .* got The \| moon \|"):
        Reader(held, ExplainOptions(key="cat")).case(Prompt(prompt, " river"))
    cross = case(loaded(T5), "The old dog", "dog").rows[0].look
    assert cross is not None and cross.site == "decoder.cross"
    masked = case(loaded(BERT), "The dog [MASK] barked at the dog.", "dog").rows[0]
    assert masked.look is not None and masked.look.site == "encoder.self"
    assert [masked.ids[place] for place in masked.look.queries] == [
        loaded(BERT).encoder().tokenizer.mask_token_id
    ] * len(masked.readings)
    assert {masked.ids[place] for place in masked.look.keys} == {*ids(loaded(BERT), "dog")}
    labels = Reader(loaded(LABELS), ExplainOptions(key="dog")).case(Prompt("The dog", "1"))
    assert labels.rows[0].look == Look("encoder.self", (), labels.rows[0].look.keys)  # type: ignore[union-attr]


def test_chat_templates_are_applied_if_asked_for() -> None:
    tokenizer = tiny_tokenizers.chatting(tiny_tokenizers.CHATML)
    model = tiny.MODELS["gpt2"]()
    model.resize_token_embeddings(len(tokenizer))
    held = Loaded(model, tokenizer, "tiny")
    plain, chat = (case(held, "The old dog", "barked", chat=each) for each in (False, True))
    message = [{"role": "user", "content": "The old dog"}]
    written = str(
        tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    )
    assert chat.rows[0].ids[: len(ids(held, written))] == ids(held, written)
    assert plain.rows[0].ids[: len(ids(held, "The old dog"))] == ids(held, "The old dog")
    with pytest.raises(InputError, match="Expected a tokenizer with a chat template, got"):
        case(replace(held, tokenizer=tiny_tokenizers.byte_level("gpt2")), "The", "dog", chat=True)
