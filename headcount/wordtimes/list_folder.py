"""A copy of a Whisper's folder with another list of alignment heads in its generation settings."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from headcount.core import Head, InputError, read_json, write_json
from headcount.models import place_of

SETTINGS = "generation_config.json"
_FROM_CONFIG = "_from_model_config"  # transformers reads no file that has it


def check_list_folder(folder: Path) -> None:
    """Check that a folder is new or empty.

    Raises:
        InputError: if it holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"Expected a new folder for the model with its list, got {folder}, which exists. Name "
            "another with --write."
        )


def write_list(model: str, heads: Sequence[str], folder: Path) -> None:
    """Copy a model's files, with a list of heads that `generate` reads word times from.

    Args:
        model: its folder, or its name on the hub.
        heads: names of the heads, e.g. `cross.3.2`.
        folder: where the copy goes.
    """
    check_list_folder(folder)
    source = Path(place_of(model))
    if not source.is_dir():
        from huggingface_hub import snapshot_download

        kinds = ["*.json", "*.safetensors", "*.txt"]
        source = Path(snapshot_download(model, allow_patterns=kinds, local_files_only=True))
    shutil.copytree(source, folder, dirs_exist_ok=True)
    path = folder / SETTINGS
    advice = "Copy the model again."
    settings = read_json(path, "settings of generation", advice) if path.exists() else {}
    settings.pop(_FROM_CONFIG, None)
    listed = sorted((head.layer, head.index) for head in map(Head.parse, heads))
    write_json(path, settings | {"alignment_heads": [[*pair] for pair in listed]})
