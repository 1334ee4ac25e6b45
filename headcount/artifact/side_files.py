"""Side files: what a model's folder holds beside model and tokenizer, and other libraries look for.

sentence-transformers keeps its pooling and other modules there, vision models how pixels are
prepared.
"""

import json
import warnings
from pathlib import Path
from shutil import copyfile

from transformers.utils.hub import cached_file

MODULES = "modules.json"
"""Of sentence-transformers: which modules there are, and where each has its files."""

SIDE_FILES = (
    "preprocessor_config.json", "processor_config.json", MODULES,
    "config_sentence_transformers.json", "sentence_bert_config.json",
)  # fmt: skip


def copy_side_files(name: str, folder: Path) -> None:
    """Copy those that there are of a model.

    Args:
        name: a folder or hub name; nothing is copied for an empty one, of a model made in memory.
        folder: where to.
    """
    if not name:
        return
    for file in SIDE_FILES:
        _copy(name, file, folder)
    for module in _modules(folder / MODULES):
        _copy(name, f"{module}/config.json", folder)
        has_weights = _copy(name, f"{module}/model.safetensors", folder)
        if not has_weights and _found(name, f"{module}/pytorch_model.bin") is not None:
            warnings.warn(
                f"{name}: the weights of its module {module} are pickled and were left out of "
                f"{folder}; save them as {module}/model.safetensors there",
                stacklevel=2,
            )


def _modules(file: Path) -> list[str]:
    """Folders of the modules behind the transformer, which is at the top."""
    if not file.exists():
        return []
    paths = [str(each["path"]) for each in json.loads(file.read_text(encoding="utf-8"))]
    return [path for path in paths if path]


def _copy(name: str, file: str, folder: Path) -> bool:
    """Whether there was such a file to copy."""
    if (found := _found(name, file)) is None:
        return False
    (folder / file).parent.mkdir(exist_ok=True)
    copyfile(found, folder / file)
    return True


def _found(name: str, file: str) -> str | None:
    """Where it lies, fetched from the hub if need be; None also for a name that is nowhere."""
    try:
        return cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):
        return None
