"""Folders of data sets, saved by `datasets` or cloned from the hub, with splits as on the hub.

`FOLDER?split=train` names the split; a folder with one split needs no name. What `save_to_disk`
wrote is loaded by `datasets`. Of any other folder `datasets` says which files a split has, by the
card of the data set or by the names of files (`data/train-00000-of-00002.parquet`).
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, InputError, reason

_SPLIT = re.compile(r"(.+)\?split=(.+)")
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"
_TABLES = (".parquet", ".jsonl", ".csv", ".tsv", ".txt")


def is_data_folder(name: str | Path) -> bool:
    """Whether a name is that of a data set's folder, with a split or without."""
    place = _place(name)[0]
    try:
        if not place.is_dir():
            return False
    except (OSError, ValueError):  # a text that is no path
        return False
    if str(place) != str(name):
        return True
    saved = any((place / each).exists() for each in (_SAVED, _SAVED_SPLITS))
    return saved or any(True for each in _TABLES for _ in place.glob(f"data/*{each}"))


def _place(name: str | Path) -> tuple[Path, str | None]:
    match = _SPLIT.fullmatch(str(name))
    return (Path(name), None) if match is None else (Path(match[1]), match[2])


def load_folder(name: str | Path) -> Any:
    """The rows of a data set's folder, or the files that hold them.

    Raises:
        InputError: if `datasets` is not installed.
        CorpusError: if the folder has no such split, or several and none is named.
    """
    place, split = _place(name)
    try:
        datasets: Any = import_module("datasets")
    except ModuleNotFoundError as error:
        raise InputError(
            f"{name} needs the package datasets: pip install headcount[datasets], or name the "
            "files in the folder."
        ) from error
    saved, files = None, dict[Any, Any]()
    try:
        if any((place / each).exists() for each in (_SAVED, _SAVED_SPLITS)):
            saved = datasets.load_from_disk(str(place))
        else:
            files = datasets.load_dataset_builder(str(place)).config.data_files or {}
    except (OSError, ValueError, RuntimeError) as error:
        raise CorpusError(
            f"{name} can't be loaded: {reason(error).rstrip('.')}. Check the folder."
        ) from error
    if saved is None:
        return [Path(each) for each in _split_of(files, split, name)]
    return _split_of(saved, split, name) if isinstance(saved, Mapping) else saved


def _split_of(splits: Mapping[Any, Any], split: str | None, name: str | Path) -> Any:
    """A split by its name, or the only one."""
    found = {str(each): data for each, data in splits.items()}
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    if split not in found:
        place = _place(name)[0]
        raise CorpusError(
            f"Expected one split of {place} ({', '.join(found)}), got {split or 'none'}. Write "
            f"{place}?split={next(iter(found), 'train')}."
        )
    return found[split]
