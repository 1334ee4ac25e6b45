"""Tasks of classes: loss and scores of examples that belong to one of several classes.

Cross-entropy of the correct class, and accuracy, F1 or Matthews' correlation of the predicted ones.
"""

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headcount.core import CorpusError, ModelError, amount
from headcount.models import Loaded
from headcount.tasks.task import Answers, Distils, Evaluation, Losses, Resampled, Task, TaskBatch


class ClassTask(Task, ABC):
    """A task whose examples each have one class, by a model with logits of the classes."""

    distils: ClassVar[Distils | None] = "answers"
    gold_N: Int64[np.ndarray, " example"]
    """Number of the correct class of every example."""
    num_classes: int
    """Number of classes of the model."""

    def check_metric(self) -> None:
        """Check that the metric can be computed.

        Raises:
            CorpusError: if all examples have one class and the metric needs two.
        """
        if self.metric != "accuracy" and len(set(self.gold_N.tolist())) < 2:
            raise CorpusError(
                f"Expected examples of at least two classes for {self.metric}, got "
                f"{amount(len(self.gold_N), 'example')} of class {self.gold_N[0]}. Add others, or "
                "use the metric accuracy."
            )

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Cross-entropy of the correct class."""
        logits_EC = output.logits
        logits_EC = logits_EC.to(torch.promote_types(logits_EC.dtype, torch.float32))
        loss_E = cross_entropy(logits_EC, batch.labels["class"], reduction="none")
        predicted_E = logits_EC.detach().argmax(1).to(loss_E)
        return Losses(loss_E, torch.ones_like(batch.labels["class"]), predicted_E)

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """Logits of the texts and their classes."""
        return Answers(output.logits, batch.labels["class"])

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The metric of the predicted classes, between 0 and 1 (Matthews: -1 and 1).

        If all examples drawn have one class and are predicted as such, Matthews' correlation is 0.
        """
        from sklearn import metrics

        chosen = slice(None) if index_S is None else index_S
        gold_S, predicted_S = self.gold_N[chosen], evaluation.outcome_N[chosen].astype(int)
        if self.metric == "accuracy":
            return float(metrics.accuracy_score(gold_S, predicted_S))
        if self.metric == "matthews":
            return _matthews(gold_S, predicted_S)
        average = "binary" if self.num_classes == 2 else "macro"
        none: Any = 0.0  # for a class that is neither correct nor predicted
        return float(metrics.f1_score(gold_S, predicted_S, average=average, zero_division=none))

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn; accuracy of all draws at once."""
        if self.metric != "accuracy":
            return super().resampled(evaluation)
        is_right_N = evaluation.outcome_N == self.gold_N
        return lambda index_DS: is_right_N[index_DS].mean(1)

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"]:
        """The cell of the confusion matrix (correct, then predicted class) of every example."""
        cells = np.eye(self.num_classes**2)
        return cells[self.gold_N * self.num_classes + evaluation.outcome_N.astype(int)]

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """The metric of many confusion matrices."""
        confused_DGP = sums_DK.reshape(-1, self.num_classes, self.num_classes)
        return CONFUSED[self.metric](confused_DGP)


def check_chooses(loaded: Loaded) -> None:
    """Check that a model chooses one of several classes.

    Raises:
        ModelError: if it does not.
    """
    config = loaded.model.config
    if (config.num_labels or 0) < 2 or config.problem_type in (
        "regression",
        "multi_label_classification",
    ):
        raise ModelError(
            f"Expected a model that chooses one of several classes, got {loaded.name} with "
            f"{amount(config.num_labels or 0, 'label')} and problem_type {config.problem_type!r}."
        )


Confused = Float[np.ndarray, "draw gold predicted"]
"""Numbers of examples by correct and predicted class."""


def _accuracies(confused_DGP: Confused) -> Float[np.ndarray, " draw"]:
    return _ratio(np.trace(confused_DGP, axis1=1, axis2=2), confused_DGP.sum((1, 2)))


def _f1s(confused_DGP: Confused) -> Float[np.ndarray, " draw"]:
    """F1 of class 1 of two classes, or the mean over all classes that occur."""
    hits_DC = np.diagonal(confused_DGP, axis1=1, axis2=2)
    both_DC = confused_DGP.sum(1) + confused_DGP.sum(2)
    f1_DC = _ratio(2 * hits_DC, both_DC)
    return f1_DC[:, 1] if f1_DC.shape[1] == 2 else _ratio(f1_DC.sum(1), (both_DC > 0).sum(1))


def _correlations(confused_DGP: Confused) -> Float[np.ndarray, " draw"]:
    """Matthews' correlation, 0 where all examples have one class or are predicted as one."""
    gold_DC, predicted_DC = confused_DGP.sum(2), confused_DGP.sum(1)
    num_D = confused_DGP.sum((1, 2))
    hits_D = np.trace(confused_DGP, axis1=1, axis2=2)
    together_D = hits_D * num_D - (gold_DC * predicted_DC).sum(1)
    spreads = (num_D**2 - (each_DC**2).sum(1) for each_DC in (gold_DC, predicted_DC))
    return _ratio(together_D, np.sqrt(np.prod([*spreads], axis=0)))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotients; 0 where nothing is divided by."""
    return np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


CONFUSED: Mapping[str, Callable[[Confused], Float[np.ndarray, " draw"]]] = {
    "accuracy": _accuracies,
    "f1": _f1s,
    "matthews": _correlations,
}
"""The metrics of many confusion matrices."""


def _matthews(gold_S: Int[np.ndarray, " sample"], predicted_S: Int[np.ndarray, " sample"]) -> float:
    if len(np.union1d(gold_S, predicted_S)) < 2:  # scikit-learn also gives 0, with a warning
        return 0.0
    from sklearn import metrics

    return float(metrics.matthews_corrcoef(gold_S, predicted_S))
