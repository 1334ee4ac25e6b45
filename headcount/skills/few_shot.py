"""Few-shot tasks: pairs of words, and prompts that ask for the second word behind some examples.

    Q: hot
    A: cold

    Q: early
    A:

A clean prompt shows what the task is. In a shuffled one the examples have changed their answers, so
that none has its own, and the task can't be read off. Both ask for the same word. Prompts are raw
text. A prompt ends before the first token in which the answer differs from a blank.

Reference: Function Vectors in Large Language Models (Todd et al., 2024), section 2,
    https://arxiv.org/abs/2310.15213
Departure: 5 examples, not 10; shuffled answers are all wrong ones.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from headcount.core import DATA, InputError, ModelError, amount
from headcount.corpora import Corpus, parts
from headcount.models import Loaded
from headcount.skills.options import SkillOptions

SHOTS = 5
"""Number of examples in front of a question."""
FEWEST = 2 * SHOTS
"""Least number of pairs of a task."""
OURS = DATA / "few-shot"
"""The tasks that we ship."""
Pair = tuple[str, str]


@final
@dataclass(frozen=True)
class WordTask:
    """Pairs of words: what is asked, and the answer."""

    name: str
    """Its title: the name of its file, with blanks for hyphens."""
    pairs: tuple[Pair, ...]

    @property
    def sha256(self) -> str:
        """A hash of the pairs."""
        return hashlib.sha256(repr(self.pairs).encode()).hexdigest()


@final
@dataclass(frozen=True)
class Prompt:
    """A question behind examples of its task."""

    task: str
    """Name of the task."""
    pair: Pair
    """What it asks, and the answer; it comes back if a task has more prompts than pairs."""
    clean: tuple[int, ...]
    """Token ids of the prompt, whose next token begins the answer."""
    shuffled: tuple[int, ...]
    """The same with the answers of the examples shuffled."""
    answer: int
    """First token of the answer."""


def read_tasks(folder: Path | None = None) -> tuple[WordTask, ...]:
    """Our tasks, and those of a folder of `.tsv` files: a question, a tab and its answer a line.

    Raises:
        CorpusError: for a file that can't be read.
        InputError: for a folder without tasks, a task with too few pairs, or two of one name.
    """
    paths = [path for each in (OURS, folder) if each for path in sorted(each.glob("*.tsv"))]
    if folder is not None and not any(path.parent == folder for path in paths):
        raise InputError(
            f"Expected a folder of .tsv files, each a task of word pairs, got {folder} without "
            "any. Write a question, a tab and its answer on each line."
        )
    tasks = [_read(path) for path in paths]
    names = [task.name for task in tasks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"Expected other names than those of our tasks, got {', '.join(twice)} in {folder}. "
            "Rename the files."
        )
    return tuple(tasks)


def _read(path: Path) -> WordTask:
    pairs = dict[Pair, None]()
    for each in Corpus(path):
        if not (each.target or "").strip():
            raise InputError(
                f"{each.origin}: expected a question, a tab and its answer, got {each.text!r:.80}. "
                "Fix the line."
            )
        pairs[each.text.strip(), str(each.target).strip()] = None
    if len(pairs) < FEWEST:
        raise InputError(
            f"Expected at least {FEWEST} pairs of words in {path}, got {len(pairs)}. Add some."
        )
    return WordTask(path.stem.replace("-", " ").replace("_", " "), tuple(pairs))


@final
class Prompts:
    """Prompts of every task, as many of each.

    Args:
        loaded: a causal language model with its tokenizer.
        tasks: the tasks.
        options: how many prompts.

    Raises:
        ModelError: if the model takes fewer tokens.
    """

    def __init__(self, loaded: Loaded, tasks: Sequence[WordTask], options: SkillOptions) -> None:
        self._encoder = loaded.encoder()
        random = np.random.default_rng(options.seed)
        self.all = tuple(
            prompt for task in tasks for prompt in self._of(task, options.prompts, random)
        )
        """The prompts, those of a task together."""
        longest = max(len(ids) for each in self.all for ids in (each.clean, each.shuffled))
        if loaded.max_length is not None and longest > loaded.max_length:
            raise ModelError(
                f"Expected a model that takes {amount(longest, 'token')}, as many as the longest "
                f"few-shot prompt has, got {loaded.name}, which takes {loaded.max_length}. Use a "
                "larger model."
            )

    def _of(self, task: WordTask, num: int, random: np.random.Generator) -> list[Prompt]:
        """Questions that differ as long as there are pairs, behind random other pairs."""
        order = random.permutation(len(task.pairs))
        asked = np.resize(order, num)
        return [self._prompt(task, int(number), random) for number in asked]

    def _prompt(self, task: WordTask, asked: int, random: np.random.Generator) -> Prompt:
        others = np.delete(np.arange(len(task.pairs)), asked)
        shots = [task.pairs[n] for n in random.choice(others, SHOTS, replace=False)]
        questions, answers = zip(*shots, strict=True)
        turn = int(random.integers(1, SHOTS))
        shuffled = zip(questions, answers[turn:] + answers[:turn], strict=True)
        clean, answer = self._ids(shots, task.pairs[asked])
        pair = task.pairs[asked]
        return Prompt(task.name, pair, clean, self._ids([*shuffled], pair)[0], answer)

    def _ids(self, shots: Sequence[Pair], asked: Pair) -> tuple[tuple[int, ...], int]:
        """The ids of a prompt, and the first token of the answer."""
        question, answer = asked
        text = "".join(f"Q: {each}\nA: {said}\n\n" for each, said in shots) + f"Q: {question}\nA:"
        tokenizer = self._encoder.tokenizer
        prompt, reply = parts(tokenizer, text, f" {answer}")
        while len(reply) > 1 and not str(tokenizer.decode(reply[:1])).strip():
            prompt.append(reply.pop(0))  # a blank that is a token of its own
        return (*self._encoder.start_ids, *prompt), reply[0]
