"""Sentence settings: what a sentence-transformers folder says about texts and their embeddings.

The limit of tokens and lower-casing belong to the tokenizer and hold for whatever the model reads;
the prompt and the pooling belong to embeddings. Settings that headcount can't follow are named.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any, cast, final

from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Normalizers
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from headcount.core import InputError, ModelError, read_json
from headcount.models.model_files import NotLookedUpError, file_of

MODULES = "modules.json"
"""File that lists the modules and the folder of each."""
SENTENCE_CONFIG = "config_sentence_transformers.json"
"""File with the prompts."""
TRANSFORMER_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files with the Transformer's settings, by the names of all versions; the first one counts."""

EMBEDS = "SentenceTransformer"
"""Class of sentence-transformers whose models give embeddings."""
_TRANSFORMER, _POOLING, _NORMALIZE = "Transformer", "Pooling", "Normalize"
_LIBRARY = "sentence_transformers."
_FLAG = re.compile(r"pooling_mode_(.+?)(_tokens?)?")
"""Pattern of older folders, where every mode is a flag: pooling_mode_cls_token is `cls`."""
_FOLLOWED = {"max_seq_length", "do_lower_case"}
_WITHOUT_EFFECT = {"unpad_inputs", "query_length", "document_length", "query_expansion"}
"""Settings for speed, and for tasks that `SentenceTransformer.encode` does not name."""
_USUAL = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
_FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}


@dataclass(frozen=True)
class SentenceModule:
    """A module: its class and the folder of its files, empty for the model's own folder."""

    kind: str
    folder: str

    @property
    def may_have_weights(self) -> bool:
        """Whether files of weights may be in the folder: not of a module that only computes."""
        return self.kind not in (_POOLING, _NORMALIZE)


def sentence_modules(name: str) -> list[SentenceModule]:
    """The modules of a model in order, including the Transformer; none for other libraries' models.

    Args:
        name: a folder or hub name; empty for a model made in memory.

    Raises:
        ModelError: if the list can't be read, or names a folder outside the model's.
        NotLookedUpError: if the hub can't be asked.
    """
    entries = _read(name, MODULES) or []
    try:
        modules = [_module(entry) for entry in entries]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{name}: expected modules with a type and a path in {MODULES}, got {entries}. "
            "Copy the model again."
        ) from error
    for module in modules:
        _check_inside(name, module.folder)
    return modules


def transformer_folder(name: str) -> str:
    """The folder of the Transformer's weights and tokenizer, empty for the model's own.

    Older versions of sentence-transformers wrote them to `0_Transformer`.

    Raises:
        ModelError: if the list of modules can't be read.
        NotLookedUpError: if the hub can't be asked.
    """
    found = (each.folder for each in sentence_modules(name) if each.kind == _TRANSFORMER)
    return next(found, "")


def follow_settings(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Give a tokenizer the limit of tokens and the lower-casing that the folder states.

    Raises:
        ModelError: if a file can't be read, or the limit is no number of tokens.
        NotLookedUpError: if the hub can't be asked.
    """
    file, settings = _transformer_settings(name)
    limit = settings.get("max_seq_length")
    if limit is not None:
        if not isinstance(limit, int) or limit < 1:
            raise ModelError(
                f"{name}: expected a number of tokens for max_seq_length in {file}, got {limit!r}."
            )
        tokenizer.model_max_length = limit
    if settings.get("do_lower_case"):
        _lower_case(tokenizer)


@final
@dataclass(frozen=True)
class SentenceEncoding:
    """How a folder makes an embedding out of a text, after its tokenizer and Transformer."""

    pooling: str | None = None
    """The way to pool tokens' states, e.g. `mean`, `cls` or `lasttoken`; several that are combined
    are named together, as `cls + max`; None if nothing is stated."""
    prompt: str = ""
    """Text before every text."""
    pools_prompt: bool = True
    """Whether the prompt's tokens are pooled, too."""
    left_out: tuple[str, ...] = ()
    """Modules and settings that change embeddings and that headcount does not compute."""
    kind: str = EMBEDS
    """The class of sentence-transformers that the folder is for; others give no embeddings."""

    @classmethod
    def of(cls, name: str) -> "SentenceEncoding":
        """What a folder or hub name states; nothing for other libraries' models.

        Raises:
            ModelError: if a file can't be read, or the default prompt does not exist.
            NotLookedUpError: if the hub can't be asked.
        """
        modules = sentence_modules(name)
        if not modules:
            return cls()
        pooling, pools_prompt = None, True
        for module in modules:
            if module.kind == _POOLING:
                config = _read(name, f"{module.folder}/config.json") or {}
                pooling, pools_prompt = _pooling(config), config.get("include_prompt", True)
                break
        kind = _settings_of(name, SENTENCE_CONFIG).get("model_type", EMBEDS)
        left_out = _left_out(name, modules)
        return cls(pooling, _default_prompt(name), bool(pools_prompt), left_out, kind)


def stated_activation(name: str, config: PreTrainedConfig) -> str | None:
    """The function of one output that is a cross-encoder's score, e.g. `Sigmoid`.

    None for other libraries' models, whose output is the score. As in sentence-transformers, the
    folder's file counts before the configuration, and a cross-encoder that states nothing has
    `Sigmoid`.

    Args:
        name: a folder or hub name; empty for a model made in memory.
        config: the model's configuration.

    Raises:
        ModelError: if a file can't be read.
    """
    try:
        settings = _settings_of(name, SENTENCE_CONFIG)
    except NotLookedUpError:
        settings = {}
    stated = getattr(config, "sentence_transformers", None) or {}
    older = getattr(config, "sbert_ce_default_activation_function", None)
    if path := settings.get("activation_fn") or stated.get("activation_fn") or older:
        return str(path).rpartition(".")[2]
    return "Sigmoid" if stated or settings.get("model_type") == "CrossEncoder" else None


def _module(entry: dict[str, Any]) -> SentenceModule:
    """The module of one entry; a class of another library keeps its full name."""
    kind = str(entry.get("type", ""))
    short = kind.rpartition(".")[2] if kind.startswith(_LIBRARY) else kind
    return SentenceModule(short, str(entry["path"]))


def _check_inside(name: str, folder: str) -> None:
    """Check that a folder lies inside the model's, however the path is written."""
    path = PureWindowsPath(folder)  # knows both separators, and drives
    if path.anchor or ".." in path.parts:
        raise ModelError(
            f"{name}: expected paths inside the model's folder in {MODULES}, got {folder!r}. Move "
            "the module's files into the folder."
        )


def _read(name: str, file: str) -> Any:
    if (found := file_of(name, file)) is None:
        return None
    try:
        return read_json(found, "JSON", "Copy the model again.")
    except InputError as error:
        raise ModelError(f"{name}: {error}") from error


def _settings_of(name: str, file: str) -> dict[str, Any]:
    """The object in a file, empty without one."""
    found = _read(name, file)
    if found is not None and not isinstance(found, dict):
        raise ModelError(f"{name}: expected a JSON object in {file}, got {found!r}.")
    return found or {}


def _transformer_settings(name: str) -> tuple[str, dict[str, Any]]:
    """The file with the Transformer's settings, and what it says."""
    modules = sentence_modules(name)
    if not modules:
        return "", {}
    folder = transformer_folder(name)
    for file in TRANSFORMER_CONFIGS:
        file = f"{folder}/{file}".removeprefix("/")
        if settings := _settings_of(name, file):
            return file, settings
    return "", {}


def _lower_case(tokenizer: PreTrainedTokenizerBase) -> None:
    """Lower-case texts before anything else that a tokenizer does."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        tokenizer.do_lower_case = True  # type: ignore[attr-defined]
        return
    own = backend.normalizer
    parts = list(cast(Any, own)) if isinstance(own, Normalizers) else [] if own is None else [own]
    if not any(isinstance(part, Lowercase) for part in parts):
        backend.normalizer = Normalizers([Lowercase(), *parts])


def _pooling(config: dict[str, Any]) -> str:
    """The pooling as sentence-transformers reads it: the mean if no mode is given."""
    modes = config.get("pooling_mode")
    if modes is None:
        flags = [_FLAG.fullmatch(key) for key, on in config.items() if on is True]
        modes = [flag[1] for flag in flags if flag]
    modes = [modes] if isinstance(modes, str) else modes
    return " + ".join(modes) or "mean"


def stated_prompts(name: str) -> Mapping[str, str]:
    """The prompts that a folder states, by their names, e.g. `query` and `document`.

    Args:
        name: a folder or hub name; empty for a model made in memory.
    """
    try:
        found = _settings_of(name, SENTENCE_CONFIG).get("prompts") or {}
    except NotLookedUpError:
        return {}
    return {kind: prompt for kind, prompt in found.items() if isinstance(prompt, str) and prompt}


def _default_prompt(name: str) -> str:
    config = _settings_of(name, SENTENCE_CONFIG)
    default = config.get("default_prompt_name")
    if default is None:
        return ""
    prompts = {"query": "", "document": ""} | (config.get("prompts") or {})
    if default not in prompts:
        raise ModelError(
            f"{name}: expected the default prompt, {default!r}, among the prompts of "
            f"{SENTENCE_CONFIG}, got {', '.join(prompts)}. Add it, or remove default_prompt_name."
        )
    return prompts[default] or ""


def _left_out(name: str, modules: list[SentenceModule]) -> tuple[str, ...]:
    usual = (_TRANSFORMER, _POOLING, _NORMALIZE)
    found = [f"{each.folder} ({each.kind})" for each in modules if each.kind not in usual]
    file, settings = _transformer_settings(name)
    for key, value in settings.items():
        if key not in _FOLLOWED | _WITHOUT_EFFECT and value and not _is_usual(key, value):
            found.append(f"{key} in {file}")
    return tuple(found)


def _is_usual(key: str, value: Any) -> bool:
    """Whether a setting of the Transformer says what holds without it."""
    if key == "modality_config":
        return isinstance(value, dict) and value.get("text") == _FORWARD
    if isinstance(value, dict):
        return set(value) <= {"trust_remote_code"}  # which a file can't grant
    return _USUAL.get(key) == value
