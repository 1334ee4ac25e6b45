"""Sentence modules: what a sentence-transformers model has after its Transformer."""

import json
import re
from dataclasses import dataclass
from typing import Any

from headcount.core import ModelError
from headcount.models.model_files import file_of

MODULES = "modules.json"
"""File that lists the modules and the folder of each."""
_TRANSFORMER, _POOLING, _NORMALIZE = "Transformer", "Pooling", "Normalize"
_FLAG = re.compile(r"pooling_mode_(.+?)(_tokens?)?")
"""Pattern of older folders, where every mode is a flag: pooling_mode_cls_token is `cls`."""


@dataclass(frozen=True)
class SentenceModule:
    """A module: its class and the folder of its files, empty for the model's own folder."""

    kind: str
    folder: str


def sentence_modules(name: str) -> list[SentenceModule]:
    """The modules of a model in order, including the Transformer; none for other libraries' models.

    Args:
        name: a folder or hub name; empty for a model made in memory.

    Raises:
        ModelError: if the list can't be read.
        NotLookedUpError: if the hub can't be asked.
    """
    entries = _read(name, MODULES) or []
    try:
        return [_module(entry) for entry in entries]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{name}: expected modules with a type and a path in {MODULES}, got {entries}"
        ) from error


def stated_pooling(name: str) -> str | None:
    """How a model pools its tokens' states into an embedding, e.g. `mean`, `cls` or `lasttoken`.

    Several ways combined are named together, as `cls + max`; None if nothing is stated.

    Raises:
        ModelError: if it can't be read.
        NotLookedUpError: if the hub can't be asked.
    """
    for module in sentence_modules(name):
        if module.kind == _POOLING:
            return _pooling(_read(name, f"{module.folder}/config.json") or {})
    return None


def modules_behind_pooling(name: str) -> list[SentenceModule]:
    """Modules that change the similarity of embeddings: all except the usual three.

    Raises:
        ModelError: if the list can't be read.
        NotLookedUpError: if the hub can't be asked.
    """
    usual = (_TRANSFORMER, _POOLING, _NORMALIZE)
    return [module for module in sentence_modules(name) if module.kind not in usual]


def _module(entry: dict[str, Any]) -> SentenceModule:
    return SentenceModule(str(entry.get("type", "")).rpartition(".")[2], str(entry["path"]))


def _read(name: str, file: str) -> Any:
    if (found := file_of(name, file)) is None:
        return None
    try:
        return json.loads(found.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(
            f"{name}: expected JSON in {file}, but it can't be read: {error}"
        ) from error


def _pooling(config: dict[str, Any]) -> str:
    """The pooling as sentence-transformers reads it: the mean if no mode is given."""
    modes = config.get("pooling_mode")
    if modes is None:
        flags = [_FLAG.fullmatch(key) for key, on in config.items() if on is True]
        modes = [flag[1] for flag in flags if flag]
    modes = [modes] if isinstance(modes, str) else modes
    return " + ".join(modes) or "mean"
