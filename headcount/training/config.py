"""Configuration: how a training step is made, and how a trained model is fine-tuned on any data."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, final

from headcount.core import ABOVE_0, BELOW_1, FROM_0, FROM_0_TO_1, Checked, InputError, at_least

Schedule = Literal["linear", "inverse_sqrt", "constant_with_warmup"]
Precision = Literal["float32", "bfloat16"]
Algorithm = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Optimization(Checked):
    """Batches, learning rate and gradients of transformers' Trainer.

    Raises:
        InputError: for an invalid value; the error names the field.
    """

    batch_tokens: Annotated[int, ABOVE_0] = 4096
    """Number of padded tokens on the longer side of a batch, per process."""
    accumulate: Annotated[int, ABOVE_0] = 1
    """Number of batches per process whose gradients add up to one step."""
    peak: Annotated[float, ABOVE_0] = 1e-4
    """Learning rate at the end of the warm-up."""
    warmup: Annotated[int, at_least(0, "step")] = 50
    """Steps over which the learning rate rises from 0 to its peak."""
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: falling linearly to 0 at the last step, falling with the
    inverse square root of the step, or constant."""
    optimizer: Algorithm = "adamw"
    """Optimizer of the layers' matrices; AdamW always trains embeddings, biases, norms, gates."""
    beta2: Annotated[float, BELOW_1] = 0.999
    """AdamW's beta2; its beta1 is 0.9."""
    clip: Annotated[float, ABOVE_0] = 1.0
    """Largest norm of the gradients; larger gradients are scaled down to it."""
    precision: Precision = "float32"
    """Number format of matrix products in training (autocast); weights are float32."""
    label_smoothing: Annotated[float, BELOW_1] = 0.0
    """Share of the probability spread evenly over all answers, in tasks that choose answers."""


Trained = Literal["all", "encoder", "gates"]


@final
@dataclass(frozen=True)
class FinetuneConfig(Optimization):
    """Settings for fine-tuning a model: the same for a control, for gates, and for recovery.

    Raises:
        InputError: for an invalid value; the error names the field.
    """

    updates: Annotated[int, ABOVE_0] = 1000
    """Number of optimizer steps."""
    trained: Trained = "all"
    """What is trained besides the gates: everything; the encoder, except what it shares with a
    decoder; or nothing."""
    distilled: Annotated[float, FROM_0_TO_1] = 0.0
    """Share of the loss that is distance from a teacher."""
    layerwise: Annotated[float, FROM_0] = 0.0
    """Weight, in the loss, of the distance from a teacher's hidden states after every layer."""
    temperature: Annotated[float, ABOVE_0] = 1.0
    """Temperature of the teacher's and the student's logits that `distilled` compares."""
    dropout: Annotated[float | None, BELOW_1] = None
    """Rate that replaces every dropout rate above 0 during training; the model's own by default."""
    gate_rate: Annotated[float, ABOVE_0] = 0.1
    """Learning rate of gates when that of the weights is at its peak."""
    save_every: Annotated[int, ABOVE_0] = 500
    """Steps between two checkpoints."""

    @property
    def is_taught(self) -> bool:
        """Whether there is a teacher."""
        return bool(self.distilled or self.layerwise)

    def of_control(self, taught: bool = False) -> "FinetuneConfig":
        """The same settings without gates and, unless the control is taught, without a teacher."""
        plain = replace(self, gate_rate=FinetuneConfig.gate_rate)
        return plain if taught else replace(plain, distilled=0.0, layerwise=0.0, temperature=1.0)


def check_further_training(tuning: FinetuneConfig, has_teacher: bool) -> None:
    """Check that settings suit a training without gates, and its teacher.

    Raises:
        InputError: If they set gates, or a teacher and a distillation loss are not given together.
    """
    if tuning.gate_rate != FinetuneConfig.gate_rate:
        raise InputError("Fine-tuning has no gates. Leave gate_rate out.")
    if tuning.is_taught != has_teacher:
        raise InputError(
            "Expected a --teacher together with a distillation loss (distilled or layerwise "
            "in --set), got one without the other. Give both, or "
            "neither."
        )
