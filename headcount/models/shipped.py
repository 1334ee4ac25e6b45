"""Models shipped with the package, by names that are accepted wherever a model is needed."""

from importlib.resources import files
from pathlib import Path

from headcount.errors import ModelError

PREFIX = "headcount:"
SHIPPED = {f"{PREFIX}en-de": "en-de"}
"""Folder of each model by name; each has a card, README.md."""


def place_of(name: str | Path) -> str | Path:
    """The folder of a shipped model; any other name unchanged.

    >>> place_of("google-bert/bert-base-cased")
    'google-bert/bert-base-cased'

    Raises:
        ModelError: for an unknown name of the form `headcount:...`.
    """
    if not str(name).startswith(PREFIX):
        return name
    if str(name) not in SHIPPED:
        raise ModelError(
            f"Expected a model shipped with headcount ({', '.join(SHIPPED)}), got {str(name)!r}."
        )
    return Path(str(files("headcount") / "data" / SHIPPED[str(name)]))
