"""Fit: check that two models take the same inputs and give the same kind of answers."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import Loaded
from headcount.models.selfcheck import evaluating
from headcount.models.tiny_inputs import run_tiny, tiny_inputs
from headcount.speed.rows import vocabulary

_MEND = "Name a dense model and the model pruned from it"


def refuse_misfit(dense: Loaded, pruned: Loaded) -> None:
    """Raise an error unless two models differ only in size.

    Raises:
        ModelError: If a model reads no text.
        InputError: If families, vocabularies, tasks, formats or devices differ.
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
                f"Expected two models with the same {what}, but {dense.name} has {one} and "
                f"{pruned.name} has {other}. {_MEND}."
            )


def refuse_other_sizes(dense: Loaded, pruned: Loaded) -> None:
    """Raise an error unless the pruned model can come from the dense one, by all sizes but heads.

    Weights don't matter here: training does not change a model's speed.

    Raises:
        ModelError: If a model reads no text.
        InputError: If `refuse_misfit` refuses the models, or sizes differ; the message names them.
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
            f"Expected the model that {pruned.name} was pruned from, since its head card gets the "
            f"numbers, but {dense.name} has other sizes ({', '.join(found)}). {_MEND}."
        )


def refuse_textless(model: PreTrainedModel) -> None:
    """Raise an error unless a model's inputs are tokens.

    Raises:
        ModelError: If the inputs are pixels or sound.
    """
    if model.main_input_name != "input_ids":
        raise ModelError(
            "Expected a model that reads text, since lengths are in tokens, but "
            f"{model.config.name_or_path or type(model).__name__} takes {model.main_input_name!r}."
        )


def _answers(loaded: Loaded) -> str:
    """Names of the model's outputs, and their last dimensions."""
    model = loaded.model
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, tiny_inputs(model))
    sizes = [f"{name} of size {each.shape[-1]}" for name, each in found.items()
             if isinstance(each, Tensor)]  # fmt: skip
    return ", ".join(sizes)
