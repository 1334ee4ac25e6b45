"""Multiple choice against the textbook, one choice at a time, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from headcount.core import CorpusError, InputError, ModelError
from headcount.models import Loaded
from headcount.tasks import Choice, TaskSplits, build, drawn, evaluate
from tests.tasks import loaded as small
from tests.textbook import tasks as textbook

SAME = {role: cells[:1] + cells[5:] for role, cells in small.CHOICES.items()}
"""Examples with two choices each."""


def logits_of(loaded: Loaded, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return loaded.model(torch.tensor([ids])).logits[0].double().numpy()


def slow(loaded: Loaded, per: str, data: dict = small.CHOICES) -> list[list[float]]:
    """Log-likelihood of every choice of every example."""
    tokenizer: Any = loaded.tokenizer
    found = []
    for prompt, choices, _ in zip(*data.values(), strict=True):
        context = tokenizer(prompt)["input_ids"]
        scores = []
        for choice in choices:
            ids = tokenizer(f"{prompt} {choice}")["input_ids"]
            assert ids[: len(context)] == context
            total = textbook.continuation(logits_of(loaded, ids), ids, len(context))
            divisors = {"choice": 1, "token": len(ids) - len(context), "character": len(choice)}
            scores.append(total / divisors[per])
        found.append(scores)
    return found


@pytest.mark.parametrize("model", ["GPT2LMHeadModel", "LlamaForCausalLM"])
@pytest.mark.parametrize("per", ["choice", "token", "character"])
def test_choices_are_the_textbook(model: str, per: Any) -> None:
    loaded = small.loaded(model)
    task = build("choice", loaded, small.CHOICES, likelihood_per=per)
    assert isinstance(task, Choice)
    scores = slow(loaded, per)
    found = evaluate(loaded.model, task)
    right = small.CHOICES["answer"]
    losses = [
        textbook.surprise(np.array(each), gold) for each, gold in zip(scores, right, strict=True)
    ]
    np.testing.assert_allclose(found.loss_N, losses, rtol=1e-4, atol=1e-5)
    chosen = [max(range(len(each)), key=each.__getitem__) for each in scores]
    assert found.outcome_N.tolist() == chosen
    hits = [one == other for one, other in zip(chosen, right, strict=True)]
    assert task.score(found) == pytest.approx(sum(hits) / 7)
    assert len(set(chosen)) > 1
    expected = "accuracy" if per == "choice" else f"accuracy|per:{per}"
    assert task.signature == expected
    plain = build("choice", loaded, small.CHOICES)
    assert (task.sha256 == plain.sha256) == (per == "choice")


def test_choices_of_one_token_share_a_row() -> None:
    loaded = small.loaded("GPT2LMHeadModel")
    tokenizer: Any = loaded.tokenizer
    words = small.CHOICES["choices"][2]
    num_tokens = [len(tokenizer(f"A {word}")["input_ids"]) - 1 for word in words]
    assert num_tokens.count(1) > 1 and max(num_tokens) == 2
    task = build("choice", loaded, {"prompt": ["A"], "choices": [words], "answer": [0]})
    (batch,) = task.batches(100)
    assert len(batch.inputs["input_ids"]) == 1 + num_tokens.count(2)
    assert batch.inputs["input_ids"][0, 0] == tokenizer("A")["input_ids"][0]


def test_answers_are_texts_or_numbers() -> None:
    loaded = small.loaded("GPT2LMHeadModel")
    texts = [
        choices[number]
        for choices, number in zip(small.CHOICES["choices"], small.CHOICES["answer"], strict=True)
    ]
    task = build("choice", loaded, small.CHOICES | {"answer": texts})
    assert isinstance(task, Choice) and task.gold_N.tolist() == small.CHOICES["answer"]
    numbers = {"prompt": ["2 and 0 is"], "choices": [["0", "2", "1"]], "answer": ["2"]}
    task = build("choice", loaded, numbers)  # both fit: texts
    assert isinstance(task, Choice) and task.gold_N.tolist() == [1]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["b", "d", 1], "row 3: expected the text of a choice .* got '1', the number of one"),
        ([0, "d", 1], "row 2: expected the number of a choice .* got 'd', the text of one"),
    ],
)
def test_answers_of_both_kinds_are_named(answers: list[Any], said: str) -> None:
    data = {"prompt": ["2", "3", "4"], "choices": [["a", "b"], ["c", "d"], ["e", "f"]]}
    with pytest.raises(CorpusError, match=f"{said}. Write all answers as "):
        build("choice", small.loaded("GPT2LMHeadModel"), data | {"answer": answers})


def test_long_prompts_lose_their_beginning() -> None:
    loaded = small.loaded("LlamaForCausalLM")
    tokenizer: Any = loaded.tokenizer
    limit = loaded.max_length
    assert limit is not None
    prompt = " ".join(["the old dog"] * limit)
    data = {
        "prompt": [prompt, "A"],
        "choices": [["ran", "ran away"], ["dog", "the"]],
        "answer": [0, 1],
    }
    task = build("choice", loaded, data)
    assert task.num_truncated == 1
    assert task.warnings() == ["texts longer than the model's limit are truncated: 1 of them"]
    found = evaluate(loaded.model, task)
    context = tokenizer(prompt)["input_ids"]
    rows = [tokenizer(f"{prompt} {choice}")["input_ids"] for choice in data["choices"][0]]
    longest = max(map(len, rows)) - len(context)
    num_kept = limit - longest + 1
    kept = [context[0], *context[len(context) - num_kept + 1 :]]
    scores = []
    for ids in rows:
        read = [*kept, *ids[len(context) :]]
        scores.append(textbook.continuation(logits_of(loaded, read[:-1]), read, num_kept))
    assert found.loss_N[0] == pytest.approx(textbook.surprise(np.array(scores), 0), rel=1e-4)


def test_relevance_starts_at_the_tokens_of_the_chosen_choice() -> None:
    from headcount.importance.lrp.relevance import start_of

    loaded, task = small.TASKS["choice-gpt2"]()
    tokenizer: Any = loaded.tokenizer
    (batch,) = task.batches(10**6)
    starts = start_of(task)(loaded.model, batch)
    chosen = evaluate(loaded.model, task).outcome_N.astype(int)
    for place, index in enumerate(batch.index_E.tolist()):
        prompt = small.CHOICES["prompt"][index]
        choice = small.CHOICES["choices"][index][chosen[index]]
        context = tokenizer(prompt)["input_ids"]
        ids = tokenizer(f"{prompt} {choice}")["input_ids"]
        logits = logits_of(loaded, ids)
        expected = [logits[at - 1][ids[at]] for at in range(len(context), len(ids))]
        found = starts.value_ES[place][starts.is_step_ES[place]].tolist()
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_heads_have_gradients_and_parts_are_parts() -> None:
    from headcount.importance import gradient

    loaded, task = small.TASKS["choice-gpt2"]()
    scores = gradient(loaded.model, task)
    assert all((each > 0).all() for each in scores.values())
    few = drawn(task, 3, seed=1)
    whole = {role: cells[:2] for role, cells in small.CHOICES.items()}
    splits = TaskSplits.build("choice", loaded, train=small.CHOICES, dev=whole)
    assert splits.warnings[0].startswith("2 of 2 examples of dev are in train too")
    assert evaluate(loaded.model, few).loss > 0


def test_students_learn_from_examples_with_as_many_choices_each() -> None:
    from headcount.training import FinetuneConfig
    from headcount.training.distillation import DistillationLoss, check_distillation

    loaded, ragged = small.TASKS["choice-gpt2"]()
    task = build("choice", loaded, SAME, likelihood_per="token")
    tuning = FinetuneConfig(distilled=1.0)
    teacher = small.shaken(loaded.model)
    (batch,) = task.batches(10**6)
    loss = DistillationLoss(loaded.model, task, tuning, teacher)(batch)["loss"]
    taught = Loaded(teacher, loaded.tokenizer, "teacher")
    expected = 0.0
    models = (slow(each, "token", SAME) for each in (loaded, taught))
    for mine, its in zip(*models, strict=True):
        for number in range(2):
            log_p = -textbook.surprise(np.array(its), number)
            log_q = -textbook.surprise(np.array(mine), number)
            expected += np.exp(log_p) * (log_p - log_q) / len(SAME["prompt"])
    assert loss.item() == pytest.approx(expected, rel=1e-3) and expected > 0.01
    with pytest.raises(InputError, match="whose answers can be distilled .* got the task choice"):
        check_distillation(ragged, tuning)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"choices": [["a"]]}, "row 1: expected at least two choices, got 1"),
        ({"choices": ["a"]}, "row 1: expected a list in column 'choices', got the text 'a'"),
        ({"answer": [2]}, "row 1: expected one of the 2 choices as the answer, got '2'. Answers"),
        ({"answer": ["no"]}, "row 1: expected one of the 2 choices as the answer, got 'no'"),
        ({"choices": [["dog " * 80, "a"]]}, "row 1: expected choices that leave room .* within"),
    ],
)
def test_what_is_no_choice_is_refused(changed: dict, message: str) -> None:
    data = {"prompt": ["The"], "choices": [["dog", "cat"]], "answer": [0]} | changed
    with pytest.raises(CorpusError, match=message):
        build("choice", small.loaded("LlamaForCausalLM"), data)


def test_models_that_do_not_continue_texts_are_refused() -> None:
    with pytest.raises(ModelError, match="a decoder with .* for choice, .* fit: masked-lm"):
        build("choice", small.loaded("BertForMaskedLM"), small.CHOICES)
