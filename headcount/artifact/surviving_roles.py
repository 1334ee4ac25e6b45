"""Roles of heads, read from the folder of an analysis; for a pruned model, from a new analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

from headcount import analysis
from headcount.core import Head, Heads, InputError, Plan, Progress, brief_repr, silent
from headcount.corpora import Corpus, Frequencies, HowRead, ReadAs, named_columns
from headcount.models import Loaded, revision
from headcount.pruning import Pruned
from headcount.results import RunRecord, Signature, Survival, read_roles

Roles = Mapping[str, Sequence[str]]
"""Head name to the names of its roles."""


def survivals(
    plan: Plan, heads: Heads, dense: Roles, pruned: Roles | None = None
) -> list[Survival]:
    """What became of every role of the dense or the pruned model.

    Args:
        plan: which heads are kept.
        heads: heads of the dense model.
        dense: roles of the dense model.
        pruned: roles of the pruned model, by the heads' names in the dense model.
    """
    kept_heads = [str(head) for head in plan.kept_heads(heads)]
    names = dict.fromkeys(role for each in dense.values() for role in each)
    names |= dict.fromkeys(role for each in (pruned or {}).values() for role in each)
    found = []
    for role in names:
        before = [head for head in dense if role in dense[head]]
        stayed = tuple(head for head in kept_heads if head in before)
        survival = Survival(role, len(before), stayed)
        if pruned is not None:
            now = [head for head in kept_heads if role in pruned.get(head, ())]
            kept = tuple(head for head in now if head in before)
            taken = tuple(head for head in now if head not in before)
            survival = Survival(role, len(before), stayed, kept, taken)
        found.append(survival)
    return found


def old_names(plan: Plan, heads: Heads) -> dict[str, str]:
    """Maps the name of every head of the compact model to its name in the dense model.

    >>> heads = Heads({"encoder.self": (2, 3)})
    >>> old_names(Plan.keeping(heads, [Head("encoder.self", 1, 2)]), heads)
    {'enc.1.0': 'enc.1.2'}
    """
    return {
        str(Head(site, layer, new)): str(Head(site, layer, old))
        for site, counts in heads.counts.items()
        for layer in range(len(counts))
        for new, old in enumerate(plan.of_layer(heads, site, layer))
    }


Again = tuple[Corpus, "analysis.Options"]
"""Corpus and options of the dense model's analysis, with which the pruned one is analysed."""


def read_again(folder: Path, files: Sequence[str | Path], loaded: Loaded) -> Again:
    """The corpus of an analysis and the options that roles depend on.

    Args:
        folder: folder of the analysis.
        files: its corpus, in the order of its record; for pairs, the source, then the target.
        loaded: the model.

    Raises:
        CorpusError: if files can't be read.
        InputError: if the corpus or the frequencies differ from those of the analysis.
    """
    record = RunRecord.read(folder)
    signed = Signature.parse(record.signature)
    corpus = analysed_corpus(folder, files)
    places = (Path(), folder, folder.parent, *(Path(file).parent for file in files))
    frequencies = _file_of(record, places)
    options = analysis.Options(frequencies=frequencies, thresholds=record.thresholds)
    _check_same_frequencies(signed.get("frequencies"), options.frequencies, folder, loaded)
    return corpus, options


def analysed_corpus(folder: Path, files: Sequence[str | Path]) -> Corpus:
    """The corpus of an analysis, read as the analysis read it.

    Args:
        folder: folder of the analysis.
        files: its corpus, in the order of its record; for pairs, the source, then the target.

    Raises:
        CorpusError: if files can't be read.
        InputError: if the corpus differs from that of the analysis.
    """
    record = RunRecord.read(folder)
    signed = Signature.parse(record.signature)
    corpus = _corpus(record, files, signed)
    if corpus is None or (found := corpus.sha256()[:12]) != signed.get("corpus"):
        came = " ".join(map(str, files)) if corpus is None else f"another one, {found}"
        raise InputError(
            f"Expected the corpus of the analysis in {folder}, {signed.get('corpus')}, got {came}. "
            f"Name the files {' '.join(record.corpora)}."
        )
    return corpus


def _file_of(record: RunRecord, places: Sequence[Path]) -> Path | None:
    """File from which an analysis read its token frequencies; None if it used none.

    The record has its name only, so it is looked up where it may be.

    Raises:
        InputError: if it is in none of these places.
    """
    name = record.arguments.get("frequencies")
    if name is None:
        return None
    found = next((place / name for place in places if (place / name).is_file()), None)
    if found is None:
        raise InputError(
            f"Expected {name}, the frequencies of the analysis, in the working directory, beside "
            "the analysis or beside its corpus, got nothing. Put it into one of these folders."
        )
    return found


def _check_same_frequencies(
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


def _how_read(record: RunRecord) -> HowRead:
    """How an analysis read its files; earlier versions read every line as a text."""
    given = {each.name: record.arguments.get(each.name, False) for each in fields(HowRead)}
    return HowRead(**given | {"lines": record.arguments.get("lines", True)})


def _corpus(record: RunRecord, files: Sequence[str | Path], signed: Signature) -> Corpus | None:
    """The corpus as the analysis read it, with the last files as sides; None if files differ."""
    pairs = signed.get("pairs") is not None
    as_words = signed.get("treebank") != "as-written"  # earlier versions always did
    sides = [side for side in ("source", "target") if record.arguments.get(side) is not None]
    columns = named_columns(record.arguments.get("columns", ()))
    limit, how = record.counts.sentences, _how_read(record)
    if not sides:
        stream = bool(record.arguments.get("stream"))
        more = {"pairs": pairs, "columns": columns, "as_words": as_words, "stream": stream}
        return Corpus(ReadAs(files, how), limit=limit, **more)
    if [Path(name).suffix for name in files] != [Path(name).suffix for name in record.corpora]:
        return None
    alone = len(files) - len(sides)
    named = ReadAs(files[:alone], how)
    return Corpus(named, *files[alone:], limit=limit, pairs=pairs, as_words=as_words)


@final
@dataclass(frozen=True)
class DenseAnalysis:
    """The roles of a dense model's heads, to find which of them survive pruning."""

    __repr__ = brief_repr

    heads: Heads
    """Heads of the dense model."""
    roles: Roles
    """Roles of the dense model's heads."""
    again: Again | None = None
    """How the roles were found; if given, the pruned model is analysed in the same way."""

    @classmethod
    def read(
        cls, folder: Path, loaded: Loaded, corpus: Sequence[str | Path] = ()
    ) -> "DenseAnalysis":
        """Read the folder of an analysis.

        Args:
            folder: folder of the analysis.
            loaded: the dense model.
            corpus: corpus of the analysis, to analyse the pruned model too; none for not doing so.

        Raises:
            CorpusError: if files can't be read.
            InputError: if the folder holds no analysis, or that of another model or corpus.
        """
        roles = read_roles(folder, loaded.heads, revision(loaded.model))
        again = read_again(folder, corpus, loaded) if corpus else None
        return cls(loaded.heads, roles, again)

    def surviving(self, pruned: Pruned, progress: Progress = silent) -> tuple[Survival, ...]:
        """What became of every role in a pruned model.

        Args:
            pruned: the pruned model.
            progress: called with the progress of its analysis.
        """
        now = None
        if self.again is not None:
            names = old_names(pruned.plan, self.heads)
            roles = {}
            if len(pruned.compact.heads):  # possibly no head is kept
                roles = analysis.analyze(pruned.compact, *self.again, progress=progress).roles
            now = {names[head]: [role.role for role in each] for head, each in roles.items()}
        return tuple(survivals(pruned.plan, self.heads, self.roles, now))
