"""Dead layers: attention modules of a compact model that lost all their heads.

They still call attention, with one head of zeros, so that caches and masks work as before; the
configuration's `head_plan` lists them.
"""

from transformers import PreTrainedModel


def dead_modules(model: PreTrainedModel) -> set[str]:
    """Paths of the attention modules without heads; empty for a model that is not compact."""
    plan = getattr(model.config, "head_plan", None) or {"layers": {}}
    body = body_path(model)
    return {
        body + layer["module"]
        for site, layers in plan["layers"].items()
        for number, layer in layers.items()
        if not plan["kept"][site][number]
    }


def body_path(model: PreTrainedModel) -> str:
    """Path of the model's body, with a dot at the end; empty if the model is its own body."""
    body = model.base_model
    path = next(path for path, module in model.named_modules() if module is body)
    return f"{path}." if path else ""
