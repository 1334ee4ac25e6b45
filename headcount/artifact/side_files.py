"""Side files: what a model's folder holds beside model and tokenizer, and other libraries look for.

sentence-transformers keeps its pooling there, vision models how pixels are prepared.
"""

from pathlib import Path
from shutil import copyfile

from transformers.utils.hub import cached_file

SIDE_FILES = (
    "preprocessor_config.json", "processor_config.json", "modules.json",
    "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json",
)  # fmt: skip


def copy_side_files(name: str, folder: Path) -> None:
    """Copy those that there are of a model.

    Args:
        name: a folder or hub name; nothing is copied for an empty one, of a model made in memory.
        folder: where to.
    """
    for file in SIDE_FILES if name else ():
        if (found := _found(name, file)) is not None:
            (folder / file).parent.mkdir(exist_ok=True)
            copyfile(found, folder / file)


def _found(name: str, file: str) -> str | None:
    """Where it lies; None also for a name that is no longer there."""
    try:
        return cached_file(
            name, file, local_files_only=True, _raise_exceptions_for_missing_entries=False
        )
    except (OSError, ValueError):
        return None
