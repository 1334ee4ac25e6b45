"""Data sets of the Hugging Face hub: `hf://dataset/config?split=validation`.

`hf://owner/name?split=test` and `hf://owner/name/config?split=test` work too. Needs the
extra `headcount[datasets]`.
"""

from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headcount.core import CorpusError, InputError
from headcount.corpora.held import Held


def hub_data(url: str) -> Held:
    """The data set at an address.

    Raises:
        InputError: if `datasets` is not installed, or the address is incomplete.
        CorpusError: if the data set can't be loaded.
    """
    names, split = _parts(url)
    try:
        datasets: Any = import_module("datasets")
    except ModuleNotFoundError as error:
        raise InputError(
            f"{url} needs the package datasets: pip install headcount[datasets], or save the data "
            "as .tsv, .csv or .jsonl"
        ) from error
    return Held(_loaded(datasets, url, names, split), url)


def _parts(url: str) -> tuple[list[str], str]:
    """The names between the slashes, and the split."""
    address = urlsplit(url)
    names = [part for part in (address.netloc + address.path).split("/") if part]
    splits = parse_qs(address.query).get("split", [])
    if not 1 <= len(names) <= 3 or len(splits) != 1:
        raise InputError(
            f"Expected hf://dataset/config?split=validation (or hf://owner/name/config?split=...), "
            f"got {url!r}."
        )
    return names, splits[0]


def _loaded(datasets: Any, url: str, names: list[str], split: str) -> Any:
    """The data set. Of two names, the second may be a config, or the first an owner."""
    readings = {
        1: [(names[0],)],
        2: [("/".join(names),), tuple(names)],
        3: [("/".join(names[:2]), names[-1])],
    }[len(names)]
    met: Exception | None = None
    for reading in readings:
        try:
            return datasets.load_dataset(*reading, split=split)
        except OSError as error:  # not found; the names may have the other meaning
            met = error
        except (ValueError, RuntimeError) as error:  # unknown config or split, or made by a script
            met = error
            break
    raise CorpusError(
        f"{url} can't be loaded: {str(met).strip().splitlines()[0]}. Check the name, the config, "
        "the split and the network."
    ) from met
