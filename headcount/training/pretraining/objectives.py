"""Objectives: what a model can be trained to do; each has its data, model, batches and score."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.corpora import Columns, Data
from headcount.models import Loaded
from headcount.tasks import Task, build
from headcount.training.data.examples import (
    CausalExamples,
    Encoded,
    Examples,
    MaskedExamples,
    TranslationExamples,
)
from headcount.training.data.rows import Rows, read_pairs, read_texts
from headcount.training.pretraining.architecture import (
    causal_model,
    masked_model,
    translation_model,
)
from headcount.training.pretraining.recipe import ModelRecipe
from headcount.training.pretraining.trainer import Score

BLEU, PERPLEXITY = Score("bleu", True), Score("perplexity", False)


@final
@dataclass(frozen=True)
class Objective:
    """One way to train the architecture; `name` is the name of its task."""

    name: str
    read: Callable[[Data, Columns | None], Rows]
    """Function that reads files into rows."""
    model: Callable[[ModelRecipe, PreTrainedTokenizerBase, int], PreTrainedModel]
    """Function that makes a fresh model from a recipe, a vocabulary and a seed."""
    examples: Callable[[Encoded, int], Examples]
    """Function that makes batches from encoded rows and a seed."""
    score: Score
    """Score of the task on the development set."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of that task."""

    def dev(self, loaded: Loaded, rows: Rows) -> Task:
        """The task on the development set, which measures how good the model is."""
        return build(self.name, loaded, rows.columns, **self.options)


OBJECTIVES = {
    objective.name: objective
    for objective in (
        # Greedy search: the development set is translated at every checkpoint.
        Objective(
            "translation",
            read_pairs,
            translation_model,
            TranslationExamples,
            BLEU,
            {"num_beams": 1},
        ),
        Objective("masked-lm", read_texts, masked_model, MaskedExamples, PERPLEXITY),
        Objective("causal-lm", read_texts, causal_model, CausalExamples, PERPLEXITY),
    )
}
