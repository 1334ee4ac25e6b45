"""Models that come with the package, by the names that are taken wherever a model is asked for."""

from importlib.resources import files
from pathlib import Path

from headcount.errors import ModelError

PREFIX = "headcount:"
SHIPPED = {f"{PREFIX}en-de": "en-de"}
"""Name to folder; each has a card, README.md."""


def place_of(name: str | Path) -> str | Path:
    """The folder of a model that is shipped; any other name as it came.

    >>> place_of("google-bert/bert-base-cased")
    'google-bert/bert-base-cased'

    Raises:
        ModelError: for a name such as `headcount:...` that there is not.
    """
    if not str(name).startswith(PREFIX):
        return name
    if str(name) not in SHIPPED:
        raise ModelError(
            f"models that come with headcount are {', '.join(SHIPPED)}; came {str(name)!r}"
        )
    return Path(str(files("headcount") / "data" / SHIPPED[str(name)]))
