"""A script that splits a model over its processes, and keeps what public functions say of it.

`python -m tests.models.split_over MODEL FOLDER NAME...` writes FOLDER/RANK.pickle.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

from headcount import Options, analyze
from headcount.core import InputError, processes, wait_for_everyone
from headcount.models import load
from tests.test_any_model import CASES, CORPUS

MORE: dict[str, Any] = {
    "analyze of a random copy": lambda model: analyze(model, CORPUS, Options(null=True)),
}


def said(model: Any, name: str, folder: Path) -> Any:
    """What a function returns, or the sentence with which it refuses."""
    try:
        return MORE[name](model) if name in MORE else CASES[name](model, {}, folder / name)
    except InputError as error:
        return str(error)


if __name__ == "__main__":
    place, out, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    model, rank = load(place, device="tp"), processes().process_index
    found = {name: said(model, name, out / str(rank)) for name in names or CASES}
    (out / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    wait_for_everyone()
    processes().destroy_process_group()
