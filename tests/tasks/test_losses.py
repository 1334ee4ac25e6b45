"""Each loss against the textbook: one example at a time, without padding, log-softmax by hand."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors
from torch import Tensor

from headcount.core import CorpusError, InputError
from headcount.corpora import chat_tokens
from headcount.models import Loaded
from headcount.tasks import (
    CausalLanguageModelling,
    Classification,
    Similarity,
    Task,
    drawn,
    evaluate,
)
from tests import tiny_tokenizers
from tests.tasks import loaded as small
from tests.textbook import tasks as textbook


def run(loaded: Loaded, **inputs: Any) -> Any:
    """A forward of one row, in float64 if numbers are compared closely."""
    with torch.no_grad():
        return loaded.model(**{name: torch.tensor([row]) for name, row in inputs.items()})


def array(tensor: Tensor) -> np.ndarray:
    return tensor[0].double().numpy()


def named(start: str) -> list[str]:
    return [name for name in small.TASKS if name.startswith(start)]


def compare(loaded: Loaded, task: Task, slow: list[tuple[float, int]]) -> None:
    evaluation = evaluate(loaded.model, task)
    np.testing.assert_allclose(evaluation.loss_N, [loss for loss, _ in slow], rtol=3e-5, atol=1e-5)
    assert evaluation.count_N.tolist() == [count for _, count in slow]
    total = textbook.perplexity([loss for loss, _ in slow], [count for _, count in slow])
    assert np.log(total) == pytest.approx(evaluation.loss, rel=1e-4)
    if task.metric == "perplexity":
        assert task.score(evaluation) == pytest.approx(total, rel=1e-3)
        assert not task.higher_is_better and np.isnan(evaluation.outcome_N).all()


def tokenized(loaded: Loaded, *texts: str, **options: Any) -> dict[str, Any]:
    tokenizer: Any = loaded.tokenizer
    encoding = tokenizer(*texts, **options)
    return {name: list(encoding[name]) for name in encoding if name != "attention_mask"}


@pytest.mark.parametrize("name", ["causal-gpt2"])
def test_next_tokens(name: str) -> None:
    loaded, task = small.TASKS[name]()
    slow = []
    for text in small.TEXTS:
        ids = tokenized(loaded, text)["input_ids"]
        slow.append(textbook.next_tokens(array(run(loaded, input_ids=ids).logits), ids))
    compare(loaded, task, slow)


@pytest.mark.parametrize("name", ["causal-gpt2", "causal-llama", *named("masked")])
def test_logits_are_computed_of_predicted_tokens_alone(name: str) -> None:
    """And of all tokens where the map to the vocabulary is given something else."""
    loaded, task = small.TASKS[name]()
    model, read = loaded.model.eval(), list[int]()
    unembedding: Any = model.get_output_embeddings()
    hook = unembedding.register_forward_hook(lambda _, given, out: read.append(out[..., 0].numel()))
    for batch in task.batches(60):
        with torch.no_grad():
            found, whole = (
                task.losses(model, batch),
                task.losses_of(task.output(model, batch), batch),
            )
        num, every = int(found.count_E.sum()), batch.labels["labels"].numel()
        assert read[-2:] == [num, every] and num < every
        np.testing.assert_allclose(found.loss_E, whole.loss_E, rtol=1e-5)
        assert found.count_E.equal(whole.count_E)
    hook.remove()


def test_next_tokens_of_long_texts_are_all_predicted() -> None:
    loaded, task = small.TASKS["causal-llama"]()
    start: Any = loaded.encoder().tokenizer.bos_token_id
    check_pieces(loaded, task, 11, start=[start])


@pytest.mark.once
@pytest.mark.parametrize("start", [(), ("[CLS]",), ("[gMASK]", "<sop>")])
@pytest.mark.parametrize("wanted", [True, False])
def test_every_piece_begins_as_the_tokenizer_begins_a_text(
    start: tuple[str, ...], wanted: bool
) -> None:
    """Unless it is not wanted; a tokenizer that puts nothing in front changes no number."""
    tokenizer = tiny_tokenizers.starting(*start)
    given = small.loaded("GPT2LMHeadModel", vocab_size=len(tokenizer))
    loaded = Loaded(given.model, tokenizer, "tiny")
    data = {"text": small.TEXTS}
    task = CausalLanguageModelling(loaded, data, max_length=7, start=wanted)
    ids = [tokenizer.vocab[token] for token in start] if wanted else []
    check_pieces(loaded, task, 7, ids)
    assert task.signature == "perplexity" + "|start:pieces" * bool(ids)
    assert task.signed_options == ({"start": "pieces"} if ids else {})
    other = CausalLanguageModelling(loaded, data, max_length=7, start=not wanted)
    assert (task.sha256 == other.sha256) == (not start)
    some = drawn(task, 3)
    assert (some.signature, some.signed_options) == (task.signature, task.signed_options)


def check_pieces(loaded: Loaded, task: Task, length: int, start: list[int]) -> None:
    """Check a causal task's losses of all pieces of `small.TEXTS`."""
    slow, total = [], 0
    for text in small.TEXTS:
        ids = tokenized(loaded, text)["input_ids"]
        total += len(ids) - 1
        for piece, first in textbook.pieces(ids, length, start):
            logits = array(run(loaded, input_ids=piece).logits)
            slow.append(textbook.next_tokens(logits, piece, first))
    compare(loaded, task, slow)
    assert sum(count for _, count in slow) == total


@pytest.mark.parametrize("name", named("masked"))
def test_masked_tokens(name: str) -> None:
    loaded, task = small.TASKS[name]()
    slow = []
    for batch in sorted(task.batches(1), key=lambda batch: int(batch.index_E)):
        ids, labels = batch.inputs["input_ids"][0].tolist(), batch.labels["labels"][0].tolist()
        slow.append(textbook.masked_tokens(array(run(loaded, input_ids=ids).logits), labels))
    compare(loaded, task, slow)


@pytest.mark.parametrize("name", named("classes"))
def test_classes(name: str) -> None:
    loaded, task = small.TASKS[name]()
    slow, predicted, num_long = [], [], 0
    for index, (text, label) in enumerate(zip(*small.CLASSES.values(), strict=True)):
        texts = (text, small.PAIRS["sentence2"][index]) if "pairs" in name else (text,)
        row = tokenized(loaded, *texts, truncation=True, max_length=64)
        num_long += len(tokenized(loaded, *texts, verbose=False)["input_ids"]) > 64
        logits = array(run(loaded, **row).logits)
        slow.append((textbook.surprise(logits, label), 1))
        predicted.append(max(range(3), key=lambda number: logits[number]))
    compare(loaded, task, slow)
    assert evaluate(loaded.model, task).outcome_N.tolist() == predicted
    assert len(set(predicted)) > 1 or "pairs" in name
    assert isinstance(task, Classification)
    assert task.num_truncated == num_long


def test_types_tell_the_two_texts_of_a_pair_apart() -> None:
    _, task = small.TASKS["classes-of-pairs"]()
    batch = next(task.batches(1))
    assert batch.inputs["token_type_ids"].unique().tolist() == [0, 1]


@pytest.mark.once
@pytest.mark.parametrize("name", named("translation"))
def test_target_tokens(name: str) -> None:
    loaded, task = small.TASKS[name]()
    start = loaded.model.config.decoder_start_token_id
    slow = []
    for source, target in zip(*small.TRANSLATIONS.values(), strict=True):
        ids = tokenized(loaded, source)["input_ids"]
        labels = tokenized(loaded, text_target=target)["input_ids"]
        read = [start, *labels[:-1]]
        logits = array(run(loaded, input_ids=ids, decoder_input_ids=read).logits)
        slow.append(textbook.target_tokens(logits, labels))
        # The model's own loss, which shifts the labels itself
        own = run(loaded, input_ids=ids, labels=labels).loss.item()
        assert slow[-1][0] / len(labels) == pytest.approx(own, rel=1e-4)
    compare(loaded, task, slow)


def test_cosines() -> None:
    loaded, task = small.TASKS["similarity-bert"]()
    assert isinstance(task, Similarity)
    cosines = []
    for first, second in zip(small.PAIRS["sentence1"], small.PAIRS["sentence2"], strict=True):
        states = [
            array(run(loaded, **tokenized(loaded, text)).last_hidden_state)
            for text in (first, second)
        ]
        cosines.append(textbook.cosine_of_means(*states))
    evaluation = evaluate(loaded.model, task)
    np.testing.assert_allclose(evaluation.outcome_N, cosines, rtol=1e-5, atol=1e-6)
    gold = [number / 5 for number in small.PAIRS["score"]]
    slow = [(cosine - number) ** 2 for cosine, number in zip(cosines, gold, strict=True)]
    np.testing.assert_allclose(evaluation.loss_N, slow, rtol=1e-4, atol=1e-6)
    assert evaluation.count_N.tolist() == [1] * len(slow)


def test_cosines_of_first_tokens_and_another_scale() -> None:
    loaded = small.loaded("BertModel")
    data = small.PAIRS | {"score": [number - 2 for number in small.PAIRS["score"]]}
    task = Similarity(loaded, data, scale=(-2, 3), pooling="cls")
    evaluation = evaluate(loaded.model, task)
    for index, (first, second) in enumerate(zip(*list(small.PAIRS.values())[:2], strict=True)):
        states = [
            array(run(loaded, **tokenized(loaded, text)).last_hidden_state)[:1]
            for text in (first, second)
        ]
        cosine = textbook.cosine_of_means(*states)
        assert evaluation.outcome_N[index] == pytest.approx(cosine, rel=1e-4, abs=1e-5)
        target = small.PAIRS["score"][index] / 5
        assert evaluation.loss_N[index] == pytest.approx((cosine - target) ** 2, rel=1e-4, abs=1e-5)


CHATS = [
    [
        {"role": "user", "content": "The old dog barked."},
        {"role": "assistant", "content": "Nobody could sleep, and three tired children ran home!"},
    ],
    [{"role": "user", "content": "Two green chairs."}, {"role": "tool", "content": "Old."}],
]


@pytest.mark.parametrize("roles", [(), ("assistant",), ("assistant", "tool")])
@pytest.mark.parametrize("length", [None, 20])
def test_messages_of_chats_are_predicted(roles: tuple[str, ...], length: int | None) -> None:
    """Of the roles asked, and nothing of what the template writes around them."""
    tokenizer = tiny_tokenizers.chatting()
    given = small.loaded("GPT2LMHeadModel", vocab_size=len(tokenizer), n_positions=200)
    loaded = Loaded(given.model, tokenizer, "tiny")
    data = [{"messages": chat} for chat in CHATS]
    task = CausalLanguageModelling(loaded, data, max_length=length, roles=roles)
    total, count, skipped = 0.0, 0, 0
    for chat in CHATS:
        found = chat_tokens(tokenizer, json.dumps(chat), "here")
        asked = [role is not None and role in (roles or {role}) for role in found.roles]
        skipped += not any(asked)
        for start in range(0, len(found.ids), (length or 200) - 1):
            piece = found.ids[start : start + (length or 200)]
            logits = array(run(loaded, input_ids=piece).logits)
            for place in range(1, len(piece)):
                if asked[start + place]:
                    total += textbook.surprise(logits[place - 1], piece[place])
                    count += 1
    evaluation = evaluate(loaded.model, task)
    assert evaluation.count_N.sum() == count and evaluation.count_N.all()
    assert evaluation.loss_N.sum() == pytest.approx(total, rel=1e-5)
    assert task.num_unpredictable == skipped == (roles == ("assistant",))
    skip = ["chats without assistant have nothing to predict and are skipped: 1 of 2"]
    assert task.warnings() == skip * skipped
    signed = {"roles": "+".join(roles)} if roles else {}
    assert task.signed_options == signed
    other = CausalLanguageModelling(loaded, data, max_length=length, roles=("user",))
    assert task.sha256 != other.sha256


def test_roles_that_nobody_has_are_refused() -> None:
    tokenizer = tiny_tokenizers.chatting()
    given = small.loaded("GPT2LMHeadModel", vocab_size=len(tokenizer), n_positions=200)
    loaded = Loaded(given.model, tokenizer, "tiny")
    with pytest.raises(CorpusError, match="got no message of the roles bot. Check the names"):
        CausalLanguageModelling(loaded, [{"messages": CHATS[0]}], roles=["bot"])
    with pytest.raises(InputError, match="Expected chats .* for roles=bot, got texts"):
        CausalLanguageModelling(loaded, ["The old dog."], roles=["bot"])


def test_pieces_of_a_chat_begin_as_the_chat_begins() -> None:
    """With the token in front of texts if the template writes it, too."""
    for template in (tiny_tokenizers.CHATML, "<sop>" + tiny_tokenizers.CHATML):
        tokenizer = tiny_tokenizers.chatting(template, "<sop>")
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<sop> $A",
            special_tokens=[("<sop>", tokenizer.convert_tokens_to_ids("<sop>"))],
        )
        given = small.loaded("GPT2LMHeadModel", vocab_size=len(tokenizer), n_positions=200)
        loaded = Loaded(given.model, tokenizer, "tiny")
        task = CausalLanguageModelling(loaded, [{"messages": CHATS[0]}], max_length=20)
        rows = [batch.inputs["input_ids"][0] for batch in task.batches(1)]
        begins = {tokenizer.decode(row[:1]) == "<sop>" for row in rows}
        assert len(rows) > 1 and begins == {template.startswith("<sop>")}
