"""Whether a folder can be added to an atlas that others read: a sentence for each thing missing."""

import re
from collections.abc import Iterator
from pathlib import Path

from headcount.atlas.result import About
from headcount.core import InputError, amount
from headcount.results import Analysis, read_run

LARGEST = 2_000_000
"""Number of bytes of a folder, at most."""
ENDINGS = (".json", ".parquet", ".md")
"""Endings of files that a run needs."""
_PLACE = re.compile(r"^([/~\\]|\.{1,2}/|[A-Za-z]:\\)")
"""The beginning of a path that exists on one machine only."""


def missing(folder: Path) -> tuple[str, ...]:
    """What a folder lacks for an atlas, a sentence each; none if it can be added as it is.

    Args:
        folder: the folder of an analysis, with `about.json` beside its results.
    """
    return tuple(_missing(folder))


def _missing(folder: Path) -> Iterator[str]:
    try:
        run = read_run(folder)
    except InputError as error:
        yield str(error)
        return
    yield from _of_about(folder, run)
    yield from _of_run(run)
    files = [each for each in folder.rglob("*") if each.is_file()]
    if others := sorted(each.name for each in files if each.suffix not in ENDINGS):
        shown = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
        yield f"Expected tables and records only, got {shown}. Delete what can be drawn again."
    if (size := sum(each.stat().st_size for each in files)) > LARGEST:
        yield (
            f"Expected a folder of at most {LARGEST / 1e6:.0f} MB, got {size / 1e6:.1f} MB. Leave "
            "out the examples: `replace(run, examples={}).write(folder, keep_scores=True)`."
        )


def _of_about(folder: Path, run: Analysis) -> Iterator[str]:
    try:
        about = About.read_if_any(folder)
    except InputError as error:
        yield str(error)
        return
    if about is None:
        fields = "model, source, licence, texts and texts_licence"
        yield f"Expected {About.FILE} with {fields}, got no such file. Write it by hand."
        return
    for name in ("model", "source", "licence", "texts", "texts_licence"):
        if not getattr(about, name).strip():
            yield f"Expected a text as {name} in {About.FILE}, got none. Write it."
    if _PLACE.match(about.model):
        yield (
            f"Expected the name by which others find the model in {About.FILE}, got {about.model}. "
            "Write its name on the hub, or that of the package that has it."
        )
    heads = {row.head for row in run.rows}
    for each in about.known:
        if each.head not in heads:
            yield (
                f"Expected heads of the model as known in {About.FILE}, got {each.head}. Write it "
                f"as {run.rows[0].head}, counted from 0."
            )
        if not (each.paper and each.url and each.evidence):
            yield (
                f"Expected paper, url and evidence of {each.head} in {About.FILE}, got an empty "
                "one. Say who found it, and what your measurement shows."
            )


def _of_run(run: Analysis) -> Iterator[str]:
    if run.traits is None:
        yield "Expected tested traits, got none. Analyse it again with this version."
    elif not any(each.verdict != "untested" for traits in run.traits.values() for each in traits):
        number = amount(run.record.counts.sentences, run.record.inputs.item)
        yield f"Expected enough {run.record.inputs.more} for tests, got {number}. Give more."
