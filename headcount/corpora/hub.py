"""Data sets of the Hugging Face hub: `hf://dataset/config?split=validation`.

`hf://owner/name?split=test` and `hf://owner/name/config?split=test` work too. Needs the
extra `headcount[datasets]`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final
from urllib.parse import parse_qs, urlsplit

from headcount.core import CorpusError, InputError

HUB = "hf://"


@final
@dataclass(frozen=True, eq=False)
class HubData:
    """A data set on the hub."""

    url: str
    data: Any

    def rows(self) -> Iterator[tuple[str, Mapping[Any, object]]]:
        """The origin and the cells of each row; `a.b` is field b of object a."""
        for number, row in enumerate(self.data, start=1):
            yield f"{self.url} row {number}", flattened(row)

    def class_names(self, column: str | int) -> list[str]:
        """Class names of a column that numbers its classes, alone or in lists; else none."""
        features = getattr(self.data, "features", None) or {}
        feature = features.get(column)
        feature = getattr(feature, "feature", feature)  # of the items of a list
        return list(getattr(feature, "names", None) or ())


def hub_data(url: str) -> HubData:
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
    return HubData(url, _loaded(datasets, url, names, split))


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of nested objects, under `outer.inner`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in flattened(value).items()}
        else:
            flat[name] = value
    return flat


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
