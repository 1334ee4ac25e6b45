"""An analysis: its tables and examples, and the results of other commands beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

from headcount.core import (
    PLACE,
    Head,
    HeadTable,
    InputError,
    amount,
    capabilities,
    drawn_card,
    reading,
)
from headcount.results.curve import CURVE, Curve
from headcount.results.evaluation import EvaluationRecord
from headcount.results.importance import ImportanceRecord, read_head_table
from headcount.results.profiles import PROFILE_COLUMNS, Profiles, Roles, TraitStrength, with_words
from headcount.results.prune import PruneRecord
from headcount.results.run import (
    RELATION_COLUMNS,
    Example,
    HeadRow,
    RelationResult,
    RunRecord,
    read_examples,
)
from headcount.results.sealing import sealed_columns, write_record
from headcount.results.signature import SAME_MODEL, Signature
from headcount.results.store import Result
from headcount.results.tables import csv_name, rows_of, table
from headcount.vocabulary import LINKS, ColumnEntry

if TYPE_CHECKING:
    import pandas as pd

Res = TypeVar("Res", bound=Result[Any])

EXAMPLES, TARGETS, CONFIRMATION = "examples.json", "targets.txt", "confirmation.md"
SCORES = (
    *(ImportanceRecord.FILE, *ImportanceRecord.DOCUMENTS),
    *(EvaluationRecord.FILE, *EvaluationRecord.TEXTS),
)
"""Files of other commands: the importance of the heads and the scores of the model."""
LISTS = ("roles", "tendencies")
"""Columns of the table of heads that hold lists."""
_RELATIONS = "a row for each head, relation and direction"
_LINKS = "a row for each head, kind of link and direction"
_HEADS = "a row for each head"
_OF_HEADS: dict[str, Any] = {"columns": (*PLACE, "roles"), "key": ("head",), "made": HeadTable}
_OF_RELATIONS: dict[str, Any] = {
    "columns": RELATION_COLUMNS,
    "key": RELATION_COLUMNS[:3],
    "default": None,
}


def _no_profiles() -> "pd.DataFrame":
    import pandas as pd  # only here: files are named and claimed without

    return pd.DataFrame(columns=list(PROFILE_COLUMNS))


@final
@dataclass(frozen=True, eq=False)
class Analysis(Result[RunRecord]):
    """The result of an analysis, as it is measured or read from the folder of a run.

    Its tables are what the files hold; `rows`, `traits` and the like are the same as typed rows.
    """

    DOCUMENTS = (EXAMPLES, TARGETS, "report.html", CONFIRMATION)

    record: RunRecord
    """Contents of run.json: signature, counts, warnings, timings."""
    heads: HeadTable = table("heads.parquet", _HEADS, **_OF_HEADS)
    """One row per head."""
    offsets: "pd.DataFrame" = table(
        "offsets.parquet",
        "a row for each head and offset",
        columns=("head", "offset", "share"),
        key=("head", "offset"),
    )
    """The offset profile of every head: rows `head offset share`."""
    profiles: "pd.DataFrame" = table(
        "profiles.parquet",
        "a row for each head, trait and role",
        columns=PROFILE_COLUMNS,
        key=("head", "trait", "role"),
        default_factory=_no_profiles,
    )
    """One row per head, trait and role: strength, test and verdict, see `TraitStrength`; empty in
    folders from before there were profiles."""
    relations: "pd.DataFrame | None" = table("relations.parquet", _RELATIONS, **_OF_RELATIONS)
    """One row per head, relation and direction; None if no sentence had a tree."""
    links: "pd.DataFrame | None" = table("links.parquet", _LINKS, **_OF_RELATIONS)
    """One row per head, kind of link and direction; None if no sentence had links."""
    null_heads: HeadTable | None = table("null_heads.parquet", _HEADS, **_OF_HEADS, default=None)
    """The table of heads for the random-weight copy; None without `--null`."""
    null_relations: "pd.DataFrame | None" = table(
        "null_relations.parquet", _RELATIONS, **_OF_RELATIONS
    )
    """The table of relations for it."""
    null_links: "pd.DataFrame | None" = table("null_links.parquet", _LINKS, **_OF_RELATIONS)
    """The table of links for it."""
    examples: Mapping[str, Sequence[Example]] = field(default_factory=dict)
    """The sentences that show each head's role best, by head name."""
    texts: "pd.DataFrame | None" = table(
        "texts.parquet", "a row for each text", columns=("text",), key=("text",), default=None
    )
    """A hash of each text, by which two analyses know what both read; of a larger corpus the
    `MOST_TEXTS` smallest. None in folders of earlier versions."""
    importance: ImportanceRecord | None = None
    """Importance of the heads for a task; None until `headcount importance` was run."""
    beside: tuple[Result[Any], ...] = ()
    """Results that other commands wrote beside it; `of` finds one by its type."""
    curve: Curve | None = None
    """The curve in the folder `curve/` of the run; None until `headcount curve` wrote one there."""
    pruned: PruneRecord | None = None
    """How a model was pruned from this one; None unless its folder was named."""
    confirming: "Analysis | None" = None
    """An analysis of the same model on other texts; None unless its folder was named."""

    def __repr__(self) -> str:
        found = sum(map(bool, self.roles.values()))
        sentences = amount(self.record.counts.sentences, self.record.inputs.item)
        what = f"{amount(len(self.heads.frame), 'head')} on {sentences}, {found} with a role"
        return f"Analysis({self.record.model!r}: {what})"

    def card(self, head: str) -> Any:
        """The card of one head, which notebooks display and `.save(path)` writes.

        Raises:
            InputError: for a head that was not analysed.
        """
        return drawn_card(self, head)

    def of(self, kind: type[Res]) -> Res | None:
        """The result of another command beside the analysis, by its type; None without one."""
        return next((each for each in self.beside if isinstance(each, kind)), None)

    @property
    def stored_columns(self) -> tuple[ColumnEntry, ...]:
        """The words of the columns that plug-ins brought."""
        scores = {} if self.importance is None else self.importance.column_entries
        return (*scores.values(), *self.record.column_entries.values())

    @cached_property
    def rows(self) -> tuple[HeadRow, ...]:
        """The table of heads as rows."""
        return head_rows(self.heads)

    @cached_property
    def null_rows(self) -> tuple[HeadRow, ...] | None:
        """The table of heads at random weights as rows."""
        return None if self.null_heads is None else head_rows(self.null_heads)

    @cached_property
    def relation_rows(self) -> tuple[RelationResult, ...] | None:
        """The table of relations as rows."""
        return None if self.relations is None else rows_of(self.relations, RelationResult)

    @cached_property
    def link_rows(self) -> tuple[RelationResult, ...] | None:
        """The table of links as rows."""
        return None if self.links is None else rows_of(self.links, RelationResult)

    def rows_of_role(self, role: str) -> tuple[RelationResult, ...]:
        """The rows of the relations that can give a role."""
        return (self.link_rows if role == LINKS.role.name else self.relation_rows) or ()

    @cached_property
    def null_relation_rows(self) -> tuple[RelationResult, ...] | None:
        """The table of relations at random weights as rows."""
        return None if self.null_relations is None else rows_of(self.null_relations, RelationResult)

    @cached_property
    def traits(self) -> Profiles | None:
        """The traits of every head."""
        if self.profiles.empty:
            return None
        found: dict[str, list[TraitStrength]] = {}
        for each in self._worded(rows_of(self.profiles, TraitStrength)):
            found.setdefault(each.head, []).append(each)
        return {head: tuple(traits) for head, traits in found.items()}

    def _worded(self, rows: Iterable[TraitStrength]) -> Iterable[TraitStrength]:
        return with_words(rows, self.record.links, self.record.further)

    @cached_property
    def expected(self) -> Mapping[tuple[str, str, str], float]:
        """Scores to expect in new texts of this kind, by row; see `expected_scores`."""
        from headcount.results.profiles import expected_scores  # only here: needs SciPy

        return expected_scores(self.traits or {}, self.record.thresholds)

    @cached_property
    def offset_shares(self) -> Mapping[str, Mapping[int, float]]:
        """Share of queries at each offset, by head."""
        found: dict[str, dict[int, float]] = {}
        for head, offset, share in self.offsets[["head", "offset", "share"]].to_numpy():
            found.setdefault(str(head), {})[int(offset)] = float(share)
        return found

    @cached_property
    def roles(self) -> Roles:
        """Roles of every head in the order of the table, the main role first; empty if none."""
        return {str(head): self.record.roles.get(head, ()) for head in self.heads.frame["head"]}

    @property
    def measures(self) -> tuple[str, ...]:
        """The number columns, in the order of the table."""
        return tuple(self.rows[0].values)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that occur, in the order of the table."""
        return tuple(dict.fromkeys(row.site for row in self.rows))

    def by_site(self) -> list[tuple[str, list[HeadRow]]]:
        """The rows of each site, in the order of the table."""
        return [(site, [row for row in self.rows if row.site == site]) for site in self.sites]

    @property
    def num_layers(self) -> int:
        """Number of layers of the deepest site."""
        return max(row.layer for row in self.rows) + 1

    @classmethod
    def read(cls, folder: str | Path) -> "Analysis":
        """The analysis in a folder, without what other commands wrote beside it.

        Raises:
            InputError: if a file is missing, damaged or of another version.
        """
        folder = Path(folder)
        check_is_run(folder)
        found = replace(super().read(folder), examples=read_examples(folder / EXAMPLES))
        views = ("rows", "null_rows", "relation_rows", "null_relation_rows", "link_rows", "traits")
        for view in (*views, "offset_shares"):
            with reading(folder, "the tables of an analysis", _AGAIN):
                getattr(found, view)
        found._check_roles(folder)
        return found

    def _check_roles(self, folder: Path) -> None:
        for row in self.rows:
            named = [role.role for role in self.roles[row.head]]
            if named != [*row.roles]:
                raise InputError(
                    f"{folder}: run.json says {row.head} is {named}, heads.parquet says "
                    f"{[*row.roles]}; the files come from two runs. {_AGAIN}"
                )

    def write(self, folder: str | Path, keep_scores: bool = False) -> None:
        """Write the tables, the examples and, last, `run.json`.

        Args:
            folder: the folder of the run.
            keep_scores: whether scores that other commands added to the folder are kept, as in a
                resumed run, or removed.
        """
        folder = Path(folder)
        heads = _with_scores(self.heads, folder) if keep_scores else self.heads
        others = (*SCORES, *beside_files()) if keep_scores else ()
        kept = {*self.frames(), TARGETS, *others}
        # An earlier run's, the record too
        for stale in {*our_files()} - kept - {*map(csv_name, kept)}:
            (folder / stale).unlink(missing_ok=True)
        write_record(folder / EXAMPLES, self.examples)
        texts = [name for name in (EXAMPLES, TARGETS) if (folder / name).exists()]
        # Scores are columns of the table of heads, too, and described by their own record.
        scores = sealed_columns(folder / ImportanceRecord.FILE, "heads.parquet") - {*PLACE}
        columns = [str(name) for name in self.heads.frame if name not in scores]
        described = {**dict.fromkeys(texts), "heads.parquet": columns}
        super(Analysis, replace(self, heads=heads)).write(folder, described)


_AGAIN = "Run `headcount analyze` again."


def beside_types() -> tuple[type[Result[Any]], ...]:
    """The types of results that may lie beside an analysis, by the manifests of all commands."""
    return tuple(each.result_type for each in capabilities() if each.beside)


def beside_files() -> tuple[str, ...]:
    """Their files."""
    return tuple(name for each in beside_types() for name in each.files())


def our_files() -> tuple[str, ...]:
    """All files that a run may leave besides folders, the copies of its tables as CSV included."""
    others = (name for each in capabilities() for name in each.files)
    files = (*Analysis.files(), *SCORES, *beside_files(), *others)
    return (*files, *(csv_name(name) for name in files if name.endswith(".parquet")))


def check_is_run(folder: Path) -> None:
    """Check that there is a folder to read a run from.

    Raises:
        InputError: if the folder does not exist, is a file, or is one of another command.
    """
    if folder.is_dir() and not (folder / RunRecord.FILE).exists():
        if records := sorted(path.name for path in folder.glob("*.json")):
            raise InputError(
                f"Expected a folder written by `headcount analyze ... --out`, got {folder}, where "
                f"another command wrote {', '.join(records)}. Name the folder of an analysis."
            )
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder written by `headcount analyze ... --out`, but {folder} "
            f"{'is a file' if folder.exists() else 'does not exist'}. Check the path."
        )


def read_run(folder: Path, pruned: Path | None = None, confirming: Path | None = None) -> Analysis:
    """An analysis with everything that other commands wrote beside it.

    Args:
        folder: folder of the run.
        pruned: folder of a model that was pruned from the run's model.
        confirming: folder of an analysis of the same model on other texts.

    Raises:
        InputError: if a folder or a file is missing, damaged or of another version, or the pruned
            model was made from another one, or measured in another way.
    """
    found = Analysis.read(folder)
    heads = tuple(row.head for row in found.rows)
    read = (each.read_if_any(folder) for each in beside_types())
    beside = tuple(each for each in read if each is not None)
    for each in beside:
        each.check_heads(folder, heads)
    scored = folder / ImportanceRecord.FILE
    return replace(
        found,
        importance=ImportanceRecord.read(folder) if scored.exists() else None,
        curve=_read_curve(folder / CURVE, found.record),
        pruned=None if pruned is None else _read_pruned(pruned, found),
        confirming=None if confirming is None else Analysis.read(confirming),
        beside=beside,
    )


def _read_curve(folder: Path, run: RunRecord) -> Curve | None:
    if (found := Curve.read_if_any(folder)) is not None and found.record.heads != run.sites:
        raise InputError(
            f"Expected a curve of the analysed model in {folder}, got one of a model with other "
            "heads. Remove the folder, or run `headcount curve` again."
        )
    return found


def _read_pruned(folder: Path, run: Analysis) -> PruneRecord:
    record = PruneRecord.read(folder)
    dense, analysed = {*record.kept, *record.pruned}, {row.head for row in run.rows}
    if dense != analysed:
        raise InputError(
            f"Expected a model pruned from the analysed one, with {amount(len(analysed), 'head')}, "
            f"got {folder}, pruned from {record.model} with {len(dense)}. Name another folder."
        )
    pruned_warnings(run.record, record)
    return record


def pruned_warnings(run: RunRecord, pruned: PruneRecord) -> tuple[str, ...]:
    """Check that a model was pruned from the analysed one and measured in the same way.

    Returns warnings of what can't be checked; none for a plan, which has no numbers.

    Raises:
        InputError: if it was not; names the part of the signature.
    """
    if not pruned.signature and not pruned.data_sets:
        return ()
    signed = Signature({}) if not pruned.signature else Signature.parse(pruned.signature)
    parts = dict(SAME_MODEL)
    if "teacher" in signed.parts or pruned.trained_on is not None:
        del parts["revision"]  # that of the pruned model, which was trained further
    return run.signed.check_same(signed, parts, ("the analysis", "the pruned model's record"))


def head_rows(heads: HeadTable) -> tuple[HeadRow, ...]:
    """The table of heads as typed rows; without an analysis, no head has a role."""
    frame = heads.frame
    if frame.empty:
        raise ValueError("it has no rows")
    numbers = [str(name) for name in frame if name not in (*PLACE, *LISTS)]
    values = frame.loc[:, numbers].astype(float).to_dict("records")
    roles = frame["roles"] if "roles" in frame else [()] * len(frame)
    places = zip(*(frame[name] for name in PLACE), roles, values, strict=True)
    return tuple(_head_row(*place) for place in places)


def _head_row(
    name: str, site: str, layer: int, index: int, roles: Iterable[str], values: dict[Any, float]
) -> HeadRow:
    head = Head.parse(name)
    if (head.site, head.layer, head.index) != (site, layer, index):
        raise ValueError(f"{head} has site, layer and index of another head")
    found = {str(key): value for key, value in values.items()}
    return HeadRow(str(head), head.site, head.layer, head.index, tuple(map(str, roles)), found)


def _with_scores(table: HeadTable, folder: Path) -> HeadTable:
    """The table, with the extra columns of an earlier table of the same heads."""
    if not (folder / ImportanceRecord.FILE).exists() or (found := read_head_table(folder)) is None:
        return table
    earlier, frame = found.frame, table.frame
    if list(earlier["head"]) != list(frame["head"]):
        return table
    added = [name for name in earlier if name not in frame]
    return HeadTable(frame.assign(**{str(name): earlier[name].to_numpy() for name in added}))
