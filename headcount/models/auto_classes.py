"""Auto classes: which of transformers' `AutoModel...` classes loads a model."""

from typing import Any

from transformers.models.auto import modeling_auto


def auto_classes(config_class: type) -> dict[str, type]:
    """Every auto class that knows a configuration, with the model class it uses for it."""
    found = {}
    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and config_class in mapping:
            found[name] = _first(mapping[config_class])
    return found


def auto_class(stock: Any) -> str | None:
    """The auto class that loads a class; None for a class that transformers lacks."""
    known = auto_classes(stock.config_class)
    found = [name for name, taken in known.items() if taken is stock]
    return found[-1] if found else None  # the earlier ones load a body, or pretraining models


def _first(classes: Any) -> type:
    return classes[0] if isinstance(classes, tuple) else classes
