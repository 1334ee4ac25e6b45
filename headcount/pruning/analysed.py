"""Analysed: roles of heads by the folder of an analysis, and of a pruned model by a new one."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from headcount.analysis import Options, analyze
from headcount.corpora import Corpus, Frequencies
from headcount.errors import InputError
from headcount.heads import Heads, HeadTable
from headcount.importance.folder import FINISHED, refuse_other_model
from headcount.keyed import reading
from headcount.models.load import Loaded
from headcount.pruning.functions import Roles, old_names, survivals
from headcount.pruning.prune import Pruned
from headcount.roles import Thresholds
from headcount.signature import revision


@final
@dataclass(frozen=True)
class Again:
    """How the pruned model is analysed: as the whole one was."""

    corpus: Corpus
    options: Options


def read_roles(folder: Path, loaded: Loaded) -> Roles:
    """The roles of a model's heads by its analysis.

    Raises:
        InputError: if the folder holds none, or that of another model.
    """
    if not (folder / "run.json").exists():
        raise InputError(
            f"{folder} should hold an analysis of this model, but has no run.json: run `headcount "
            f"analyze MODEL CORPUS --out {folder}` first"
        )
    refuse_other_model(folder, loaded.heads, revision(loaded.model))
    with reading(folder / "heads.parquet", *FINISHED):
        frame = HeadTable.read(folder / "heads.parquet").frame
        return {str(row["head"]): list(row["roles"]) for row in frame.to_dict("records")}


def read_again(folder: Path, files: Sequence[Path], loaded: Loaded) -> Again:
    """The corpus of an analysis and the options that roles depend on.

    Args:
        folder: of the analysis.
        files: its corpus, in the order of its record: of a pair the source, then the target.
        loaded: the model.

    Raises:
        CorpusError: for files that can't be read.
        InputError: for another corpus, or for other frequencies.
    """
    with reading(folder / "run.json", *FINISHED):
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        signed = dict(part.split(":", 1) for part in record["signature"].split("|"))
    corpus = _same_corpus(record, signed, folder, files)
    options = Options(frequencies=_file_of(record), thresholds=Thresholds.of(record))
    _refuse_other_frequencies(signed.get("frequencies"), options.frequencies, folder, loaded)
    return Again(corpus, options)


def _same_corpus(
    record: dict[str, Any], signed: dict[str, str], folder: Path, files: Sequence[Path]
) -> Corpus:
    corpus = _corpus(record, files, "pairs" in signed)
    if corpus is None or (found := corpus.sha256()[:12]) != signed["corpus"]:
        came = " ".join(map(str, files)) if corpus is None else f"another one, {found}"
        raise InputError(
            f"the corpus of the analysis in {folder} was expected, {signed['corpus']}; came "
            f"{came}: name the files {' '.join(record['corpora'])}"
        )
    return corpus


def _file_of(record: dict[str, Any]) -> Path | None:
    """That an analysis read its frequencies from."""
    name = record["arguments"].get("frequencies")
    return None if name is None else Path(name)


def _refuse_other_frequencies(
    expected: str | None, path: Path | None, folder: Path, loaded: Loaded
) -> None:
    """See that a file still holds what rare tokens were counted by."""
    if expected is None:
        return
    if path is None:
        raise InputError(
            f"the analysis in {folder} counted rare tokens by a file that it does not name: "
            "analyse again with `headcount analyze --frequencies`"
        )
    found = Frequencies.from_file(path, loaded.encoder()).sha256[:12]
    if found != expected:
        raise InputError(
            f"the frequencies of the analysis in {folder} were expected in {path}, {expected}; it "
            f"holds others now, {found}: analyse again"
        )


def _corpus(record: dict[str, Any], files: Sequence[Path], pairs: bool) -> Corpus | None:
    """Files as the analysis read them, the last as its sides; None where there are others."""
    sides = [side for side in ("source", "target") if record["arguments"].get(side) is not None]
    limit, suffixes = record["counts"]["sentences"], [path.suffix for path in files]
    if not sides:
        return Corpus(files, limit=limit, pairs=pairs)
    if suffixes != [Path(name).suffix for name in record["corpora"]]:
        return None
    alone = len(files) - len(sides)
    return Corpus(files[:alone], *files[alone:], limit=limit, pairs=pairs)


def functions(
    pruned: Pruned, heads: Heads, dense: Roles, again: Again | None = None
) -> list[dict[str, Any]]:
    """What became of every role.

    Args:
        pruned: the pruned model.
        heads: of the whole one.
        dense: its roles.
        again: how these were found; the pruned model is analysed so too, if that is given.
    """
    now = None
    if again is not None:
        names = old_names(pruned.plan, heads)
        roles = {}
        if len(pruned.compact.heads):  # of all heads none may be left
            roles = analyze(pruned.compact, again.corpus, again.options).roles
        now = {names[head]: [role.role for role in each] for head, each in roles.items()}
    return [asdict(each) for each in survivals(pruned.plan, heads, dense, now)]
