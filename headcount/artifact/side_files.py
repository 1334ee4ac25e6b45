"""Side files: files beside model and tokenizer that other libraries look for.

sentence-transformers keeps its pooling and other modules there; vision models keep the settings of
their image processing.
"""

import warnings
from pathlib import Path
from shutil import copyfile

from headcount.models.file_of import NotLookedUpError, file_of
from headcount.models.sentence_modules import MODULES, sentence_modules

SIDE_FILES = (
    "preprocessor_config.json", "processor_config.json", MODULES,
    "config_sentence_transformers.json", "sentence_bert_config.json",
)  # fmt: skip


def copy_side_files(name: str, folder: Path) -> None:
    """Copy the side files that a model has.

    Args:
        name: Folder or hub name; empty for a model made in memory, which has none.
        folder: Folder to copy into.
    """
    try:
        for file in SIDE_FILES:
            _copy(name, file, folder)
        for module in sentence_modules(name):
            if module.folder:
                _copy_module(name, module.folder, folder)
    except NotLookedUpError as error:
        warnings.warn(
            f"{name}: files beside model and tokenizer, such as {MODULES}, could not be looked up "
            f"({error}). Copy those that it has to {folder}.",
            stacklevel=2,
        )


def _copy_module(name: str, module: str, folder: Path) -> None:
    _copy(name, f"{module}/config.json", folder)
    has_weights = _copy(name, f"{module}/model.safetensors", folder)
    if not has_weights and file_of(name, f"{module}/pytorch_model.bin") is not None:
        warnings.warn(
            f"{name}: the pickled weights of its module {module} were not copied to {folder}. Save "
            f"them there as {module}/model.safetensors.",
            stacklevel=2,
        )


def _copy(name: str, file: str, folder: Path) -> bool:
    """Copy a file if it exists, and return whether it did."""
    if (found := file_of(name, file)) is None:
        return False
    (folder / file).parent.mkdir(exist_ok=True)
    copyfile(found, folder / file)
    return True
