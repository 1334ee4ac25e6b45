"""Head card: the description of a pruned model, as `prune.json` for machines and a README.

Later measurements and exports are added to the record, and the README is rewritten.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headcount.artifact.card_text import card
from headcount.core import InputError, nulls_for_nan, write_json, write_text

RECORD, CARD = "prune.json", "README.md"


def write_head_card(folder: Path, record: Mapping[str, Any]) -> None:
    """Write record and card, each completely or not at all."""
    plain = nulls_for_nan(dict(record))
    write_json(folder / RECORD, plain)
    write_text(folder / CARD, card(plain))


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a folder, from which a head card can be made.

    Raises:
        InputError: If there is no record, or it can't be read.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        card(record)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected the folder of a pruned model with its {RECORD}, as `headcount prune` and "
            f"`headcount compact` write it, but {folder} has none that can be read "
            f"({type(error).__name__}: {error})."
        ) from error
    return record


def update_head_card(folder: Path, **more: Any) -> None:
    """Add to the record of a folder, and rewrite its README.

    Raises:
        InputError: If there is no record, or it can't be read.
    """
    write_head_card(folder, read_record(folder) | more)
