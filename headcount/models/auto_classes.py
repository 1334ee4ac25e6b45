"""Auto classes: by which of transformers' `AutoModel...` a model is loaded."""

from typing import Any

from transformers.models.auto import modeling_auto


def auto_classes(config_class: type) -> dict[str, type]:
    """Every auto class that knows a configuration, and the class that it takes for it."""
    found = {}
    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and config_class in mapping:
            found[name] = _first(mapping[config_class])
    return found


def auto_class(stock: Any) -> str | None:
    """The one that takes a class; None for a class that transformers has not."""
    known = auto_classes(stock.config_class)
    found = [name for name, taken in known.items() if taken is stock]
    return found[-1] if found else None  # those before it are of a body, or for pretraining


def _first(classes: Any) -> type:
    return classes[0] if isinstance(classes, tuple) else classes
