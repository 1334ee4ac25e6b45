"""Auto map: the class in the folder's modelling file that each auto class of transformers loads."""

from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from headcount.models import encoder_lm
from headcount.models.auto_classes import auto_class, auto_classes
from headcount.models.compacted import MODELLING
from headcount.models.load import OWN_CLASSES

_OWN_FILE = encoder_lm.__name__.rpartition(".")[2]


def auto_map(config: PreTrainedConfig, stock: type[PreTrainedModel]) -> dict[str, str]:
    """The class to load for every auto class that knows the model's configuration.

    Args:
        config: Configuration of the model.
        stock: Class of the model before pruning.
    """
    if stock.__name__ in OWN_CLASSES:
        own = f"{_OWN_FILE}.{encoder_lm.EncoderConfig.__name__}"
        return {"AutoConfig": own, str(stock._auto_class): f"{MODELLING}.{stock.__name__}"}
    known = auto_classes(type(config))
    return {name: f"{MODELLING}.{taken.__name__}" for name, taken in known.items()}


def auto_class_of(model: PreTrainedModel) -> str:
    """The auto class that loads a dense or compact model with its output head."""
    stock = vars(type(model)).get("stock_class", type(model))
    return stock._auto_class or auto_class(stock) or AutoModel.__name__


def modelling_file(text: str, stock: type) -> str:
    """The text of the modelling file; a class of ours is written beside that file."""
    if stock.__name__ not in OWN_CLASSES:
        return text
    none = "OWN: dict[str, type] = {}  # stock classes that transformers lacks\n"
    assert none in text
    name = stock.__name__
    own = f'OWN: dict[str, type] = {{"{name}": _stock}}\n'
    imported = f"from torch import Tensor, nn\n\nfrom .{_OWN_FILE} import {name} as _stock\n"
    return text.replace("from torch import Tensor, nn\n", imported).replace(none, own)
