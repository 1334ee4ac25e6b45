"""Copies of a run's tables as CSV, for spreadsheets and other programs; nothing here reads them."""

from pathlib import Path

from headcount.core import HeadTable, InputError, entries, reading
from headcount.results.claiming import FOLDERS, TABLES, csv_name


def write_csv(folder: str | Path) -> list[Path]:
    """Write a CSV beside each table of a run; returns their paths.

    A copy is no part of what a record describes, so it may be edited or deleted. It is replaced
    with its table as long as nobody edited it.

    Raises:
        InputError: If the folder has no table, or one is damaged.
    """
    folder = Path(folder)
    inside = [each for each in map(folder.joinpath, FOLDERS) if each.is_dir()]
    tables = [path for each in (folder, *inside) for path in entries(each) if path.name in TABLES]
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
