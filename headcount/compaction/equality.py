"""Equality: check that the compact model computes what the gated model computes."""

import torch
from transformers import PreTrainedModel

from headcount.errors import ModelError
from headcount.models.anatomy import Anatomy
from headcount.models.selfcheck import TOLERANCE, difference, evaluating, outputs
from headcount.models.tiny_inputs import run_tiny, tiny_inputs
from headcount.pruning.plan import Plan
from headcount.tap import Tap


def refuse_unequal(
    model: PreTrainedModel, anatomy: Anatomy, plan: Plan, smaller: PreTrainedModel
) -> None:
    """Raise an error unless a compact model's outputs equal the gated model's on a padded batch.

    Raises:
        ModelError: If the model does not run, or its largest difference is above the tolerance.
    """
    inputs = tiny_inputs(model)
    with evaluating(model), evaluating(smaller), torch.inference_mode():
        with Tap(model, anatomy, gates=plan.gates(anatomy.heads)):
            gated = outputs(run_tiny(model, inputs))
        try:
            compact = outputs(run_tiny(smaller, inputs))
        except (RuntimeError, ValueError, IndexError) as error:
            raise ModelError(
                f"{type(model).__name__} does not run with fewer heads, so it can be gated but not "
                f"made smaller: its own code needs all of them ({str(error).splitlines()[0]})."
            ) from error
    apart, tolerance = difference(compact, gated), TOLERANCE[model.dtype]
    if apart > tolerance:
        raise ModelError(
            f"Expected the compact {type(model).__name__} to differ from the gated one by at most "
            f"{tolerance:g} of the largest output, got {apart:.2g}. Its attention combines all "
            "heads, so it can be gated but not made smaller."
        )
