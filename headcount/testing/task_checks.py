"""What must hold for every task: laws of its batches and its loss, learning, words."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast

from headcount.core import amount
from headcount.corpora import Data
from headcount.models import Loaded
from headcount.tap import gated
from headcount.tasks import TASKS, Evaluation, Task, TaskBatch, check_works, evaluate
from headcount.testing.architectures import POSITIONS
from headcount.testing.checks import (
    LeftOut,
    check,
    expect,
    expect_readable,
    expect_same,
    expect_words,
)
from headcount.testing.examples import at_random
from headcount.testing.laws import leaving_no_trace

SENTENCES = (
    *("The old dog barked.", "A cat.", "Three tired children ran home.", "It rained all night."),
    *("She reads a book.", "Who saw the dog?", "They sang.", "The river was deep and cold."),
)
"""Texts in every column, each column from another one on, if no data are given."""
UPDATES, RATE = 30, 1e-3
"""Number of training steps by which a model learns a task, and their learning rate."""
LARGE = 1 << 20
"""Number of tokens of a batch that has room for all examples."""


@dataclass(frozen=True)
class TaskSubject:
    """A task to check, with the model that it is made for."""

    given: type[Task] | Task
    loaded: Loaded
    data: Data | None
    """What the task is made of; by default sentences in every column."""

    @cached_property
    def task(self) -> Task:
        """The task as given, or made of the data."""
        return self.given if isinstance(self.given, Task) else self.made()

    def made(self, **how: Any) -> Task:
        """The task, made of the data with some options.

        Raises:
            LeftOut: If it was given as made, without its data.
        """
        if isinstance(self.given, Task):
            raise LeftOut("the task was given as made, without its data")
        make: Any = self.given
        return make(self.loaded, self.data or _texts(make.reads), None, **how)


def _evaluated(given: TaskSubject, task: Task | None = None, max_tokens: int = LARGE) -> Evaluation:
    return evaluate(given.loaded.model, task or given.task, max_tokens, texts=True)


def _names(numbers: Sequence[int] | np.ndarray) -> list[str]:
    return [f"the loss of example {number}" for number in numbers]


@check("laws")
def numbers(given: TaskSubject) -> str:
    """Every example has a finite loss, a count and an outcome, and all have a score."""
    check_works(given.task, given.loaded, TASKS.origin(given.task))
    found = _evaluated(given)
    score = given.task.score(found)
    expect(np.isfinite(score), f"the score is {score}")
    expect((found.count_N > 0).all(), f"examples without a term of the loss: {found.count_N}")
    number = amount(given.task.num_examples, "example")
    return f"{number}, mean loss {found.loss:.3g}, {given.task.metric} {score:.3g}"


@check("laws")
def once(given: TaskSubject) -> str:
    """Batches have every example once, no more tokens than asked for, and are the same again."""
    longest = int(given.task.length_N.max())
    batches, again = (list(given.task.batches(longest)) for _ in range(2))
    indices = torch.cat([each.index_E for each in batches]).tolist()
    lost = {*range(given.task.num_examples)} ^ {*indices}
    expect(not lost, f"examples {sorted(lost)} are in no batch, or not in the data")
    twice = len(indices) - len({*indices})
    expect(not twice, f"{amount(twice, 'example')} come more than once")
    for number, (one, other) in enumerate(zip(batches, again, strict=True)):
        same = all(torch.equal(each, other.inputs[name]) for name, each in one.inputs.items())
        expect(same, f"batch {number} has other inputs when it is made again")
    return f"{amount(len(indices), 'example')} in {amount(len(batches), 'batch')}"


@check("laws")
def batches(given: TaskSubject) -> str:
    """Which examples share a batch, and their padding, change no loss."""
    found, alone = (_evaluated(given, max_tokens=size) for size in (LARGE, 1))
    names = _names(range(given.task.num_examples))
    return expect_same(alone.loss_N, found.loss_N, "one by one", names)


@check("laws")
def repeated(given: TaskSubject) -> str:
    """A batch that is repeated, as gates need it, has the same losses again."""
    batch = given.task.batch(np.arange(given.task.num_examples))
    found, twice = (_losses(given, each) for each in (batch, batch.repeated(2)))
    return expect_same(twice, np.tile(found, 2), "repeated", _names(np.tile(batch.index_E, 2)))


def _losses(given: TaskSubject, batch: TaskBatch) -> np.ndarray:
    with torch.inference_mode():
        return given.task.losses(given.loaded.model, batch).loss_E.double().numpy()


@check("laws")
def some(given: TaskSubject) -> str:
    """Some of the examples are a task of their own, with another hash and the same losses."""
    index_N = np.arange(0, given.task.num_examples, 2)
    part = given.task.some(index_N)
    expect(part.sha256 != given.task.sha256, "some of the examples have the hash of all of them")
    whole, found = _evaluated(given), _evaluated(given, part)
    return expect_same(found.loss_N, whole.loss_N[index_N], "without the others", _names(index_N))


@check("laws")
def signed(given: TaskSubject) -> str:
    """The hash is the same when the task is made again, and another one of fewer examples."""
    again, fewer = given.made(), given.made(limit=2)
    expect(again.sha256 == given.task.sha256, "the hash changes when the task is made again")
    expect(fewer.num_examples == 2, f"limit=2 leaves {amount(fewer.num_examples, 'example')}")
    expect(fewer.sha256 != again.sha256, "two examples have the hash of all of them")
    return f"{again.sha256[:8]}, of two examples {fewer.sha256[:8]}"


@check("laws")
def order(given: TaskSubject) -> str:
    """The score of all examples is that of every number once, in any order."""
    found = _evaluated(given)
    whole = given.task.score(found)
    backwards = given.task.score(found, np.arange(given.task.num_examples)[::-1].copy())
    expect(np.isclose(whole, backwards), f"{backwards:.6g} in place of {whole:.6g}, backwards")
    return f"{given.task.metric} {whole:.3g}, in both orders"


@check("laws")
def trace(given: TaskSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    inputs = next(iter(given.task.batches())).inputs
    with leaving_no_trace(given.loaded.model, dict(inputs)):
        _evaluated(given)
    return (
        f"{len(given.loaded.model.state_dict())} weights and all outputs are the same bit for bit"
    )


@check("truth")
def gates(given: TaskSubject) -> str:
    """The loss depends on the model's heads: it changes if all of them are gated to 0."""
    dense = _evaluated(given)
    with gated(given.loaded, {str(head): 0.0 for head in given.loaded.heads}):
        without = _evaluated(given)
    apart = float(np.abs(without.loss_N - dense.loss_N).max())
    expect(apart > 1e-6, f"no loss changes by more than {apart:.2g}")
    return f"mean loss {dense.loss:.4g}, without heads {without.loss:.4g}"


@check("truth")
def learns(given: TaskSubject) -> str:
    """A model that follows the gradient of the loss has a lower loss, and no worse score."""
    loaded = copy.deepcopy(given.loaded)
    before = evaluate(loaded.model, given.task, LARGE, texts=True)
    batch = given.task.batch(np.arange(given.task.num_examples))
    weights = [each for each in loaded.model.parameters() if each.requires_grad]
    optimiser = torch.optim.Adam(weights, lr=RATE)
    for _ in range(UPDATES):
        optimiser.zero_grad()
        losses = given.task.losses(loaded.model, batch)
        expect(losses.loss_E.requires_grad, "losses have no gradient: detach outcomes only")
        (losses.loss_E.sum() / losses.count_E.sum()).backward()
        optimiser.step()
    after = evaluate(loaded.model, given.task, LARGE, texts=True)
    was, is_ = given.task.score(before), given.task.score(after)
    text = f"loss {before.loss:.4g} to {after.loss:.4g}, {given.task.metric} {was:.4g} to {is_:.4g}"
    expect(after.loss < before.loss, f"the loss does not fall: {text}")
    sign = 1 if given.task.higher_is_better else -1
    direction = "higher" if given.task.higher_is_better else "lower"
    expect(sign * (is_ - was) >= 0, f"the score gets worse, if {direction} is better: {text}")
    return text


@check("words")
def words(given: TaskSubject) -> str:
    """It has a name, a metric, and warnings that read well."""
    task = given.task
    expect_words("the name", task.name)
    expect_words("the metric", task.metric)
    for sentence in task.warnings():
        expect_readable("a warning", sentence)
    columns = f"; columns {', '.join(task.reads)}" if task.reads else ""
    return f"{task.name}: {task.metric}{columns}"


TASK_CHECKS = (
    *(numbers, once, batches, repeated, some, signed, order, trace),
    *(gates, learns, words),
)
"""What is asked of every task."""


@cache
def reader() -> Loaded:
    """A random encoder that reads any text, byte by byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {"<pad>": 0} | {each: 1 + number for number, each in enumerate(alphabet)}
    backend = Tokenizer(tokenizer_models.BPE(ids, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", model_max_length=POSITIONS - 2
    )
    return Loaded(at_random("encoder").model.model, tokenizer, "random encoder")


def task_subject(
    given: type[Task] | Task, data: Data | None = None, model: Loaded | None = None
) -> TaskSubject:
    """A task as given to `check_task`: its class, or made of data for a model."""
    return TaskSubject(given, model or reader(), data)


def _texts(columns: Mapping[str, object]) -> dict[str, list[str]]:
    """Sentences in every column, so that no row has the same one twice."""
    return {name: [*SENTENCES[start:], *SENTENCES[:start]] for start, name in enumerate(columns)}
