"""Fit: whether two models can be timed on the same inputs, for the same answers."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import Loaded
from headcount.models.selfcheck import evaluating
from headcount.models.tiny_inputs import run_tiny, tiny_inputs
from headcount.speed.rows import vocabulary

_MEND = "give the model that was pruned, and what became of it"


def refuse_misfit(dense: Loaded, pruned: Loaded) -> None:
    """Let a model and a smaller one that answers the same questions pass.

    Raises:
        ModelError: if a model reads no text.
        InputError: if they are of different families, vocabularies, tasks, formats or devices.
    """
    for each in (dense, pruned):
        refuse_textless(each.model)
    for what, one, other in (
        ("architecture", dense.model.config.model_type, pruned.model.config.model_type),
        ("vocabulary", vocabulary(dense.model.config), vocabulary(pruned.model.config)),
        ("number format", dense.model.dtype, pruned.model.dtype),
        ("device", dense.model.device, pruned.model.device),
        ("task", _answers(dense), _answers(pruned)),
    ):
        if one != other:
            raise InputError(
                f"two models of one {what} were expected; {dense.name} has {one}, {pruned.name} "
                f"has {other}: {_MEND}"
            )


def refuse_other_sizes(dense: Loaded, pruned: Loaded) -> None:
    """Let a model pass that the pruned one can have been made of: the same but for its heads.

    Weights don't matter here: a model before and after it was trained on is as fast.

    Raises:
        ModelError: if a model reads no text.
        InputError: for models that `refuse_misfit` refuses or of other sizes; says which.
    """
    refuse_misfit(dense, pruned)
    one, other = (each.model.config.get_text_config().to_dict() for each in (dense, pruned))
    found = [
        f"{name} {one[name]} and {other[name]}"
        for name in one
        if type(one[name]) is int
        and name in other
        and one[name] != other[name]
        and not name.endswith("_token_id")
    ]
    if found:
        raise InputError(
            f"the model that {pruned.name} was made of was expected, whose head card gets the "
            f"numbers; {dense.name} has other sizes ({', '.join(found)}): {_MEND}"
        )


def refuse_textless(model: PreTrainedModel) -> None:
    """Let a model pass whose inputs are tokens.

    Raises:
        ModelError: for pixels or sound.
    """
    if model.main_input_name != "input_ids":
        raise ModelError(
            "a model that reads text was expected, since lengths are in tokens; "
            f"{model.config.name_or_path or type(model).__name__} takes {model.main_input_name!r}"
        )


def _answers(loaded: Loaded) -> str:
    """Names of the model's outputs, and the size of each that does not go with the inputs'."""
    model = loaded.model
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, tiny_inputs(model))
    sizes = [f"{name} of size {each.shape[-1]}" for name, each in found.items()
             if isinstance(each, Tensor)]  # fmt: skip
    return ", ".join(sizes)
