"""Translations under ablations: one beam search each, saved so that a killed run can resume."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from headcount.core import read_checkpoint, write_checkpoint
from headcount.importance.ablations.sweep import AblationSetting, Swept
from headcount.importance.claiming import TRANSLATIONS
from headcount.tap import tapped
from headcount.tasks import Evaluation


def ablated_texts(
    setting: AblationSetting,
    swept: Swept,
    rows: Sequence[int],
    state: Path | None = None,
    key: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Evaluation]:
    """The texts that the model writes under some ablations of a sweep, with their losses.

    Args:
        setting: Model and a task whose score compares texts.
        swept: Losses under the ablations.
        rows: Numbers of the ablations.
        state: Folder for finished texts, which are not made again.
        key: Key that finished texts must have been made with.
        progress: Callback that receives the number of finished ablations and the total.

    Raises:
        InputError: If the texts are of another run, or damaged.
    """
    model = setting.model
    file = None if state is None else state / TRANSLATIONS
    texts_of = read_checkpoint(file, key, "the translations of an interrupted run")
    found = []
    for row in rows:
        ablation, evaluation = swept.ablations[row], swept.evaluation(row)
        if ablation.name not in texts_of:
            gates = {str(head): 0.0 for head in ablation.heads}
            with tapped(model, None, gates, setting.anatomy, setting.replacement):
                made = setting.task.with_texts(evaluation, model, setting.max_tokens)
            texts_of[ablation.name] = made.outcome_N.tolist()
            write_checkpoint(file, key, texts_of)
        texts_N = np.array(texts_of[ablation.name], dtype=object)
        found.append(replace(evaluation, outcome_N=texts_N))
        progress(len(found), len(rows))
    return found
