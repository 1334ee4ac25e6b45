"""A task: is an anchor nearer to a positive text than to a negative one?"""

import torch
from torch.nn.functional import cosine_similarity, softplus

import headcount
from headcount.corpora import Column
from headcount.tasks import Losses, TextsTask


@headcount.register
class Triplets(TextsTask):
    """Cosines of mean states; the loss is that of a logistic regression on their difference."""

    name, metric, higher_is_better = "triplets", "accuracy", True
    reads = {
        "anchor": Column(("anchor", "query")),
        "positive": Column(("positive",)),
        "negative": Column(("negative",)),
    }

    def losses_of(self, output, batch):
        anchor, positive, negative = self.means(output, batch).unbind(1)
        gap = cosine_similarity(anchor, positive) - cosine_similarity(anchor, negative)
        return Losses(softplus(-gap), torch.ones_like(batch.index_E), (gap > 0).float())

    def score(self, evaluation, index_S=None):
        is_right = evaluation.outcome_N if index_S is None else evaluation.outcome_N[index_S]
        return float(is_right.mean())
