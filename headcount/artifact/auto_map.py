"""Auto map: which class transformers' auto classes take from the folder's modelling file."""

from typing import Any

from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from headcount.models import encoder_lm
from headcount.models.compacted import MODELLING
from headcount.models.load import OWN_CLASSES
from headcount.models.modeling_headcount import auto_class

_OWN_FILE = encoder_lm.__name__.rpartition(".")[2]


def auto_map(config: PreTrainedConfig, stock: type[PreTrainedModel]) -> dict[str, str]:
    """Every auto class that knows the model's configuration, with the class to take.

    Args:
        config: of the model.
        stock: its class before heads went.
    """
    if stock.__name__ in OWN_CLASSES:
        own = f"{_OWN_FILE}.{encoder_lm.EncoderConfig.__name__}"
        return {"AutoConfig": own, str(stock._auto_class): f"{MODELLING}.{stock.__name__}"}
    found = {}
    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and type(config) in mapping:
            found[name] = f"{MODELLING}.{_first(mapping[type(config)]).__name__}"
    return found


def auto_class_of(model: PreTrainedModel) -> str:
    """The auto class by which a model loads with its head, whether it has all its heads or not."""
    stock = vars(type(model)).get("stock_class", type(model))
    return stock._auto_class or auto_class(stock) or AutoModel.__name__


def modelling_file(text: str, stock: type) -> str:
    """The file that goes into the folder; a class of ours lies beside it."""
    if stock.__name__ not in OWN_CLASSES:
        return text
    none = "OWN: dict[str, type] = {}  # stock classes that transformers lacks\n"
    assert none in text
    name = stock.__name__
    own = f'OWN: dict[str, type] = {{"{name}": _stock}}\n'
    last = "from transformers.models.auto import modeling_auto\n"
    imported = f"{last}\nfrom .{_OWN_FILE} import {name} as _stock\n"
    return text.replace(last, imported).replace(none, own)


def _first(classes: Any) -> type:
    return classes[0] if isinstance(classes, tuple) else classes
