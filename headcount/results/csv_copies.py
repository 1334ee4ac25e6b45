"""Copies of a run's tables as CSV, for spreadsheets and other programs; nothing here reads them."""

from contextlib import suppress
from pathlib import Path

from headcount.core import HeadTable, InputError, entries, parse_json, reading
from headcount.results.analysis import OURS
from headcount.results.claiming import FOLDERS
from headcount.results.curve import Curve
from headcount.results.sealing import SEALS
from headcount.results.store import csv_name


def write_csv(folder: str | Path) -> list[Path]:
    """Write a CSV beside each table of a run; returns their paths.

    A copy is no part of what a record describes, so it may be edited or deleted. It is replaced
    with its table as long as nobody edited it.

    Raises:
        InputError: If the folder has no table, or one is damaged.
    """
    folder = Path(folder)
    inside = [each for each in map(folder.joinpath, FOLDERS) if each.is_dir()]
    tables = [path for each in (folder, *inside) for path in _tables_of(each)]
    if not tables:
        raise InputError(
            f"Expected a folder with tables of a run (*.parquet), got {folder}. Name the folder "
            "given as --out."
        )
    written = []
    for path in tables:
        with reading(path, "a table in Parquet", "Run the command that wrote it again."):
            table = HeadTable.read(path)
        table.write_csv(path.with_name(csv_name(path.name)))
        written.append(path.with_name(csv_name(path.name)))
    return written


def _tables_of(folder: Path) -> list[Path]:
    """The tables in a folder that are ours: by their names, or because a record describes them."""
    ours = {*OURS, *Curve.files()}
    for record in folder.glob("*.json"):
        with suppress(ValueError, OSError, RecursionError):
            found = parse_json(record.read_text(encoding="utf-8"))
            seals = found.get(SEALS) if isinstance(found, dict) else None
            ours.update(seals if isinstance(seals, dict) else ())
    return [path for path in entries(folder) if path.suffix == ".parquet" and path.name in ours]
