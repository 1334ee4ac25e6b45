"""Translations under ablations: one beam search each, saved so that a killed run can resume."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from headcount.core import read_checkpoint, write_checkpoint
from headcount.importance.ablations.sweep import Swept
from headcount.importance.claiming import TRANSLATIONS
from headcount.models import Loaded
from headcount.tap import Replacement, tapped
from headcount.tasks import Evaluation, Task


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
    """The texts that the model writes under some ablations of a sweep, with their losses.

    Args:
        loaded: The dense model.
        task: Task whose score compares texts.
        swept: Losses under the ablations.
        rows: Numbers of the ablations.
        stand_in: Replacement for an ablated head's output; None for zero.
        max_tokens: Number of padded tokens in a batch.
        state: Folder for finished texts, which are not made again.
        key: Key that finished texts must have been made with.
        progress: Callback that receives the number of finished ablations and the total.

    Raises:
        InputError: If the texts are of another run, or damaged.
    """
    file = None if state is None else state / TRANSLATIONS
    texts_of = read_checkpoint(file, key, "the translations of an interrupted run")
    found = []
    for row in rows:
        ablation, evaluation = swept.ablations[row], swept.evaluation(row)
        if ablation.name not in texts_of:
            gates = {str(head): 0.0 for head in ablation.heads}
            with tapped(loaded.model, None, gates, loaded.anatomy, stand_in):
                made = task.with_texts(evaluation, loaded.model, max_tokens)
            texts_of[ablation.name] = made.outcome_N.tolist()
            write_checkpoint(file, key, texts_of)
        texts_N = np.array(texts_of[ablation.name], dtype=object)
        found.append(replace(evaluation, outcome_N=texts_N))
        progress(len(found), len(rows))
    return found
