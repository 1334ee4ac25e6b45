r"""Function vectors: which heads carry, at the last token, what the task is.

$$\mathrm{effect}_h = \overline{P(y \mid \tilde p, o_h \leftarrow \bar o_h) - P(y \mid \tilde p)}$$

over shuffled prompts \tilde p, whose answers begin with y, and over tasks with as many prompts
each. o_h is the head's output at the last token, before the output projection, and \bar o_h its
mean over clean prompts of the same task. The range is [-1, 1]; it is the average indirect effect.

All heads take one step: the shuffled prompt fills the cache once, up to its last token, which is
then read in a batch with a row for every head, whose output is replaced in that row alone.

Reference: Function Vectors in Large Language Models (Todd et al., 2024), section 2.3,
    https://arxiv.org/abs/2310.15213
Departure: the mean is over the clean prompts of the same half that ask for other words, so that no
prompt's answer is in its own mean, and the halves share no prompt.

Few-shot tasks are pairs of words. Prompts ask for the second word behind some examples:

    Q: hot
    A: cold

    Q: early
    A:

A clean prompt shows what the task is. In a shuffled one the examples have changed their answers, so
that none has its own, and the task can't be read off. Both ask for the same word. Prompts are raw
text. A prompt ends before the first token in which the answer differs from a blank.

Departure: 5 examples, not 10; shuffled answers are all wrong ones.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcount.core import (
    DATA,
    Head,
    InputError,
    LayerId,
    ModelError,
    Steps,
    amount,
    paced,
    silent_steps,
    spread,
)
from headcount.corpora import Corpus, parts
from headcount.models import Loaded, Outputs, Past, Removal, last_logits, running
from headcount.skills.options import SkillOptions
from headcount.tap import AttentionLayer, input_device

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
        drawn = (self._prompt(task, int(asked), random) for asked in islice(cycle(order), num))
        return [*paced(drawn, num, "few-shot prompts", held=True)]

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


STEP_BYTES = 2**30
"""Most bytes of a cache that is repeated for a batch with a row for every head."""


@final
@dataclass(frozen=True)
class Answered:
    """What a model says to clean prompts."""

    right_N: Bool[np.ndarray, " prompt"]
    """Whether the likeliest token begins the answer."""
    probability_N: Float[np.ndarray, " prompt"]
    """Probability of the token that begins the answer."""
    outputs: tuple[Outputs, ...]
    """The heads' outputs at the last token of each prompt."""


def answer(
    loaded: Loaded,
    prompts: Sequence[Prompt],
    removal: Removal | None = None,
    steps: Steps = silent_steps,
) -> Answered:
    """Read clean prompts, and see whether the likeliest next token is the right one.

    Args:
        loaded: a causal language model.
        prompts: the prompts.
        removal: heads that are removed.
        steps: called with the number of prompts so far, and of all.
    """
    model = loaded.model

    def of_prompt(prompt: Prompt) -> tuple[bool, float, Outputs]:
        kept = dict[LayerId, Tensor]()

        def hear(layer: AttentionLayer, output_BQHD: Tensor) -> None:
            kept[layer.layer_id] = output_BQHD[0, -1].clone()

        with running(loaded, removal=removal, returned=hear):
            ids_BT = torch.tensor([prompt.clean], device=input_device(model))
            logits_V = model(input_ids=ids_BT, use_cache=False, **last_logits(model)).logits[0, -1]
        probability = float(logits_V.float().softmax(-1)[prompt.answer])
        return int(logits_V.argmax()) == prompt.answer, probability, kept

    found = [*spread(of_prompt, prompts, "prompts", steps)]
    right_N, probability_N = (np.array([each[part] for each in found]) for part in (0, 1))
    return Answered(right_N, probability_N, tuple(kept for *_, kept in found))


@final
@dataclass(frozen=True)
class Effects:
    """What putting in the mean output of each head does to shuffled prompts."""

    effect_NH: Float[np.ndarray, "prompt head"]
    """Change of the probability of the answer."""
    probability_N: Float[np.ndarray, " prompt"]
    """Probability of the answer in the shuffled prompt."""


def indirect_effects(
    loaded: Loaded,
    prompts: Sequence[Prompt],
    outputs: Sequence[Outputs],
    steps: Steps = silent_steps,
) -> Effects:
    """The indirect effects of all heads on some prompts.

    Args:
        loaded: a causal language model.
        prompts: the prompts, at least 4 of each task; those of either half take turns.
        outputs: of each prompt, the heads' outputs at the last token of the clean one.
        steps: called with the number of prompts so far, and of all.
    """

    def of_prompt(n: int) -> np.ndarray:
        prompt, half = prompts[n], range(n % 2, len(prompts), 2)
        others = [
            outputs[m]
            for m in half
            if prompts[m].task == prompt.task and prompts[m].pair != prompt.pair
        ]
        means = {
            layer: torch.stack([each[layer] for each in others]).mean(0) for layer in outputs[n]
        }
        return _probabilities(loaded, prompt, means)

    found = [*spread(of_prompt, range(len(prompts)), "prompts", steps)]
    probability_NR = np.stack(found) if found else np.zeros((0, 1 + len(loaded.heads)))
    return Effects(probability_NR[:, 1:] - probability_NR[:, :1], probability_NR[:, 0])


def _probabilities(loaded: Loaded, prompt: Prompt, means: Outputs) -> Float[np.ndarray, " row"]:
    """Probabilities of the answer as it is, and with each head's output at the last token."""
    model: Any = loaded.model
    ids_BT = torch.tensor([prompt.shuffled], device=input_device(model))
    past, rows = Past(loaded, ids_BT[:, :-1]), [None, *loaded.heads]
    size, found = past.most(STEP_BYTES), []
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        cache = past.copies(len(part))
        last_R1 = ids_BT[:, -1:].expand(len(part), 1)
        with running(loaded, returned=_Replaced(part, means)):
            logits_RV = model(input_ids=last_R1, past_key_values=cache, use_cache=True).logits
        found.append(logits_RV[:, -1].float().softmax(-1)[:, prompt.answer].cpu())
    return torch.cat(found).double().numpy()


@final
class _Replaced:
    """Replaces in each row of a batch the output of one head, or of none."""

    def __init__(self, rows: Sequence[Head | None], means: Outputs) -> None:
        self._means = means
        self._places = dict[LayerId, tuple[list[int], list[int]]]()
        for row, head in enumerate(rows):
            if head is not None:
                places, heads = self._places.setdefault(head.layer_id, ([], []))
                places.append(row)
                heads.append(head.index)

    def __call__(self, layer: AttentionLayer, output_RQHD: Tensor) -> Tensor | None:
        if layer.layer_id not in self._places:
            return None
        rows, heads = self._places[layer.layer_id]
        replaced_RQHD = output_RQHD.clone()
        replaced_RQHD[rows, -1, heads] = self._means[layer.layer_id][heads].to(output_RQHD)
        return replaced_RQHD
