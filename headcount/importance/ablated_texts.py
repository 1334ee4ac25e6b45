"""Translations under ablations: a beam search for each, kept so that a killed run goes on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from headcount.importance.sweep import Swept
from headcount.keyed import read_keyed, write_keyed
from headcount.models.load import Loaded
from headcount.models.selfcheck import tapped
from headcount.tap import Replacement
from headcount.tasks import Evaluation, Task

FILE = "translations.json"
"""In the state of a run."""


def ablated_texts(
    loaded: Loaded,
    task: Task,
    swept: Swept,
    rows: Sequence[int],
    stand_in: Replacement | None = None,
    max_tokens: int = 4096,
    state: Path | None = None,
    key: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Evaluation]:
    """What the model writes under some of the ablations of a sweep, beside their losses.

    Args:
        loaded: the whole model.
        task: whose score is of texts.
        swept: losses under the ablations.
        rows: which of them.
        stand_in: what stands in for an ablated head; None for zero.
        max_tokens: padded tokens of a batch.
        state: a folder for what has been written so far; texts that are there are not made again.
        key: what they must have been made with.
        progress: is told how many are done, of how many.

    Raises:
        InputError: if the texts are of another run, or damaged.
    """
    file = None if state is None else state / FILE
    texts_of = read_keyed(file, key, "the translations of an interrupted run")
    found = []
    for row in rows:
        ablation, evaluation = swept.ablations[row], swept.evaluation(row)
        if ablation.name not in texts_of:
            gates = {str(head): 0.0 for head in ablation.heads}
            with tapped(loaded.model, None, gates, loaded.anatomy, stand_in):
                made = task.with_texts(evaluation, loaded.model, max_tokens)
            texts_of[ablation.name] = made.outcome_N.tolist()
            write_keyed(file, key, texts_of)
        texts_N = np.array(texts_of[ablation.name], dtype=object)
        found.append(replace(evaluation, outcome_N=texts_N))
        progress(len(found), len(rows))
    return found
