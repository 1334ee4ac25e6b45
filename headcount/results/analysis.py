"""An analysis: its results, and the files that they are written to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import HeadTable, amount, drawn_card, drawn_html
from headcount.results.claiming import BESIDE_FILES, OURS, SCORES, csv_name
from headcount.results.examples import Example, write_examples
from headcount.results.importance import read_head_table
from headcount.results.roles import Roles
from headcount.results.run import RunRecord
from headcount.results.sealing import Described


@final
@dataclass(frozen=True)
class Analysis:
    """The result of an analysis."""

    heads: HeadTable
    """One row per head."""
    relations: pd.DataFrame | None
    """One row per head, relation and direction; None if no sentence had a tree."""
    profiles: pd.DataFrame
    """One row per head and trait: strength, test and verdict, see `TraitStrength`."""
    offsets: pd.DataFrame
    """The offset profile of every head."""
    roles: Roles
    """Roles by head name; an empty list for a head without a role."""
    examples: Mapping[str, Sequence[Example]]
    """The sentences that show each head's role best, by head name."""
    null: tuple[HeadTable, pd.DataFrame | None] | None
    """Tables of heads and relations for the random-weight copy."""
    record: RunRecord
    """Contents of run.json: signature, counts, warnings, timings."""

    def __repr__(self) -> str:
        found = sum(map(bool, self.roles.values()))
        unit = "sentence" if self.record.grid is None else "image"
        sentences = amount(self.record.counts.sentences, unit)
        what = f"{amount(len(self.heads.frame), 'head')} on {sentences}, {found} with a role"
        return f"Analysis({self.record.model!r}: {what})"

    def _repr_html_(self) -> str:
        """The report, in a frame."""
        return drawn_html(self)

    def card(self, head: str) -> Any:
        """The card of one head, which notebooks display and `.save(path)` writes.

        Raises:
            InputError: for a head that was not analysed.
        """
        return drawn_card(self, head)


def write_results(
    analysis: Analysis,
    folder: str | Path,
    arguments: Mapping[str, Any] | None = None,
    keep_scores: bool = False,
) -> None:
    """Write the tables, the examples and, last, `run.json`.

    Args:
        analysis: the results.
        folder: the folder of the run.
        arguments: arguments of the command, for the record.
        keep_scores: whether scores that other commands added to the folder are kept, as in a
            resumed run, or removed.
    """
    folder = Path(folder)
    frames = {
        "relations": analysis.relations,
        "offsets": analysis.offsets,
        "profiles": analysis.profiles,
    }
    tables = {"heads": _with_scores(analysis.heads, folder) if keep_scores else analysis.heads}
    if analysis.null is not None:
        tables["null_heads"], frames["null_relations"] = analysis.null
    written = {
        f"{name}.parquet": HeadTable(frame) for name, frame in frames.items() if frame is not None
    }
    written |= {f"{name}.parquet": table for name, table in tables.items()}
    kept = {"targets.txt", *SCORES, *BESIDE_FILES} if keep_scores else {"targets.txt"}
    for stale in (
        set(OURS) - set(written) - set(map(csv_name, {*written, *kept})) - kept
    ):  # from an earlier run, its record included
        (folder / stale).unlink(missing_ok=True)
    for name, table in written.items():
        table.write(folder / name)
    write_examples(folder / "examples.json", analysis.examples)
    texts = [name for name in ("targets.txt",) if (folder / name).exists()]
    # Scores are columns of the table of heads, too, and described by their own record.
    columns = list(map(str, analysis.heads.frame))
    described: Described = dict.fromkeys([*written, "examples.json", *texts])
    described = {**described, "heads.parquet": columns}
    replace(analysis.record, arguments=arguments or {}).write(folder / "run.json", described)


def _with_scores(table: HeadTable, folder: Path) -> HeadTable:
    """The table, with the extra columns of an earlier table of the same heads."""
    if not (folder / "importance.json").exists() or (found := read_head_table(folder)) is None:
        return table
    earlier, frame = found.frame, table.frame
    if list(earlier["head"]) != list(frame["head"]):
        return table
    added = [name for name in earlier if name not in frame]
    return HeadTable(frame.assign(**{str(name): earlier[name].to_numpy() for name in added}))
