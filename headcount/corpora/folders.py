"""Folders of data sets, saved by `datasets` or cloned from the hub, with splits as on the hub.

`FOLDER?split=train` names the split, and `FOLDER?config=german&split=train` one of several configs,
too; a folder with one split needs no name. What `save_to_disk` wrote is loaded by `datasets`. Of
any other folder `datasets` says which files a split has, by the card of the data set or by the
names of files (`train.jsonl`, `data/train-00000-of-00002.parquet`).
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from headcount.core import CorpusError, InputError, reason
from headcount.vocabulary import IMAGES

_NAMED = re.compile(r"(.+)\?((?:split|config)=.+)")
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


def _place(name: str | Path) -> tuple[Path, dict[str, str]]:
    """The folder, and what is named behind it."""
    match = _NAMED.fullmatch(str(name))
    if match is None:
        return Path(name), {}
    return Path(match[1]), dict(parse_qsl(match[2].replace("+", "%2B")))


def load_folder(name: str | Path) -> Any:
    """The rows of a data set's folder, or the files that hold them.

    Raises:
        InputError: if `datasets` is not installed.
        CorpusError: if the folder has no such split or config, or several and none is named.
    """
    place, named = _place(name)
    if unknown := {*named} - {"split", "config"}:
        raise CorpusError(
            f"Expected {place}?split=train or ?config=NAME&split=train, got {min(unknown)} in "
            f"{name}. Leave it out."
        )
    split, config = named.get("split"), named.get("config")
    datasets = package_datasets(name, "name the files in the folder")
    saved, files = None, dict[Any, Any]()
    try:
        if any((place / each).exists() for each in (_SAVED, _SAVED_SPLITS)):
            saved = datasets.load_from_disk(str(place))
        else:
            configs = datasets.get_dataset_config_names(str(place))
            if config not in configs and (config or len(configs) > 1):
                raise CorpusError(
                    f"Expected one config of {place} ({', '.join(configs)}), got "
                    f"{config or 'none'}. Write {place}?config={configs[0]}&split=train."
                )
            files = datasets.load_dataset_builder(str(place), config).config.data_files or {}
    except CorpusError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise CorpusError(
            f"{name} can't be loaded: {reason(error).rstrip('.')}. Check the folder."
        ) from error
    if saved is None:
        found = [Path(each) for each in _split_of(files, split, name)]
        if images := [each for each in found if each.suffix.lower() in IMAGES.endings]:
            raise CorpusError(
                f"Expected tables in {name}, got images such as {images[0]}. Name the folder that "
                "holds them."
            )
        return found
    return _split_of(saved, split, name) if isinstance(saved, Mapping) else saved


def package_datasets(name: str | Path, otherwise: str) -> Any:
    """The package `datasets`, which loads the data of a name.

    Raises:
        InputError: if it is not installed; says what to do otherwise.
    """
    try:
        return import_module("datasets")
    except ModuleNotFoundError as error:
        raise InputError(
            f"{name} needs the package datasets: pip install headcount[datasets], or {otherwise}."
        ) from error


def _split_of(splits: Mapping[Any, Any], split: str | None, name: str | Path) -> Any:
    """A split by its name, or the only one."""
    found = {str(each): data for each, data in splits.items()}
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    if split not in found:
        place, named = _place(name)
        config = f"config={named['config']}&" if "config" in named else ""
        raise CorpusError(
            f"Expected one split of {place} ({', '.join(found)}), got {split or 'none'}. Write "
            f"{place}?{config}split={next(iter(found), 'train')}."
        )
    return found[split]
