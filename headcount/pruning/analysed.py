"""Roles of heads, read from the folder of an analysis; for a pruned model, from a new analysis."""

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
    """Corpus and options of the dense model's analysis, with which the pruned one is analysed."""

    corpus: Corpus
    options: Options


def read_roles(folder: Path, loaded: Loaded) -> Roles:
    """The roles of a model's heads according to its analysis.

    Raises:
        InputError: if the folder holds no analysis, or that of another model.
    """
    if not (folder / "run.json").exists():
        raise InputError(
            f"Expected an analysis of this model in {folder}, got a folder without run.json. Run "
            f"`headcount analyze MODEL CORPUS --out {folder}` first."
        )
    refuse_other_model(folder, loaded.heads, revision(loaded.model))
    with reading(folder / "heads.parquet", *FINISHED):
        frame = HeadTable.read(folder / "heads.parquet").frame
        return {str(row["head"]): list(row["roles"]) for row in frame.to_dict("records")}


def read_again(folder: Path, files: Sequence[Path], loaded: Loaded) -> Again:
    """The corpus of an analysis and the options that roles depend on.

    Args:
        folder: folder of the analysis.
        files: its corpus, in the order of its record; for pairs, the source, then the target.
        loaded: the model.

    Raises:
        CorpusError: if files can't be read.
        InputError: if the corpus or the frequencies differ from those of the analysis.
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
            f"Expected the corpus of the analysis in {folder}, {signed['corpus']}, got {came}. "
            f"Name the files {' '.join(record['corpora'])}."
        )
    return corpus


def _file_of(record: dict[str, Any]) -> Path | None:
    """File from which an analysis read its token frequencies; None if it used none."""
    name = record["arguments"].get("frequencies")
    return None if name is None else Path(name)


def _refuse_other_frequencies(
    expected: str | None, path: Path | None, folder: Path, loaded: Loaded
) -> None:
    """Check that a file still holds the frequencies that the analysis used for rare tokens."""
    if expected is None:
        return
    if path is None:
        raise InputError(
            f"Expected the name of the frequency file in the analysis in {folder}, got none. "
            "Analyse again with `headcount analyze --frequencies`."
        )
    found = Frequencies.from_file(path, loaded.encoder()).sha256[:12]
    if found != expected:
        raise InputError(
            f"Expected the frequencies of the analysis in {folder}, {expected}, in {path}, got "
            f"others, {found}. Analyse again."
        )


def _corpus(record: dict[str, Any], files: Sequence[Path], pairs: bool) -> Corpus | None:
    """The corpus as the analysis read it, with the last files as sides; None if files differ."""
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
        heads: heads of the dense model.
        dense: roles of the dense model.
        again: how the roles were found; if given, the pruned model is analysed in the same way.
    """
    now = None
    if again is not None:
        names = old_names(pruned.plan, heads)
        roles = {}
        if len(pruned.compact.heads):  # possibly no head is kept
            roles = analyze(pruned.compact, again.corpus, again.options).roles
        now = {names[head]: [role.role for role in each] for head, each in roles.items()}
    return [asdict(each) for each in survivals(pruned.plan, heads, dense, now)]
