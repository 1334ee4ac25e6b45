"""A linear classifier: multinomial logistic regression with an L2 penalty, trained with Adam."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

RATE, EPOCHS, BATCH, PENALTY = 1e-2, 15, 512, 1e-4


@final
@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """Class scores that are linear in features, which are scaled to variance 1."""

    mean_F: Float[Tensor, " feature"]
    scale_F: Float[Tensor, " feature"]
    weight_FC: Float[Tensor, "feature classes"]
    bias_C: Float[Tensor, " classes"]

    def scores(
        self, features_NF: Float[np.ndarray, "case feature"]
    ) -> Float[np.ndarray, "case classes"]:
        """The score of every class."""
        scaled_NF = (torch.from_numpy(features_NF) - self.mean_F) / self.scale_F
        return (scaled_NF @ self.weight_FC + self.bias_C).numpy()

    def predict(self, features_NF: Float[np.ndarray, "case feature"]) -> Int64[np.ndarray, " case"]:
        """The class with the largest score."""
        return self.scores(features_NF).argmax(1)


def fit_linear(
    features_NF: Float[np.ndarray, "case feature"],
    class_N: Int64[np.ndarray, " case"],
    num_classes: int,
    seed: int,
    epochs: int = EPOCHS,
) -> LinearClassifier:
    """Fit a classifier; the learning rate falls to zero."""
    features, classes = torch.from_numpy(features_NF), torch.from_numpy(class_N)
    mean_F, scale_F = features.mean(0), features.std(0).clamp_min(1e-6)
    weight_FC = torch.zeros(features.shape[1], num_classes, requires_grad=True)
    bias_C = torch.zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.Adam([weight_FC, bias_C], RATE)
    generator = torch.Generator().manual_seed(seed)
    num_steps = epochs * -(-len(features) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, num_steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(features), generator=generator).split(BATCH):
            scores = ((features[chosen] - mean_F) / scale_F) @ weight_FC + bias_C
            penalty = PENALTY * weight_FC.square().sum()
            loss = functional.cross_entropy(scores, classes[chosen]) + penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return LinearClassifier(mean_F, scale_F, weight_FC.detach(), bias_C.detach())
