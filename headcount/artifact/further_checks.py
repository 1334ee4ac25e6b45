"""Checks of a further training that need no model, and the folder that it leaves. No torch here."""

from headcount.artifact.staging import Kind
from headcount.core import InputError
from headcount.results import FINETUNE
from headcount.training import FinetuneConfig

FINETUNED = Kind("a fine-tuned model", lambda folder: (folder / FINETUNE).exists())


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
            "in --set), got one without the other."
        )
