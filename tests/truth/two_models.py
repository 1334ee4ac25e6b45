"""What is asked of two models, in the second of which one planted head does something else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from headcount.compare import compare
from headcount.corpora import Corpus
from headcount.papers import FollowOptions, follow
from headcount.testing import Known, Planted, planted_model
from tests.truth.questions import Answer, answer

CHANGED = 0.01
"""Nats by which a head's worth has changed at least."""


def _replaced(known: Known) -> tuple[Planted, Known] | None:
    """A planted head, and a second model in which it does something else; none if it has none."""
    named = [each for each in known.program.planted if known.role_of(each) and each.kind != "tell"]
    if not named or any(each.kind == "copy" for each in named):
        return None
    one = named[0]
    other = replace(one, offset=0, kind="punctuation" if one.kind != "punctuation" else "first")
    planted = tuple(other if each is one else each for each in known.program.planted)
    program = replace(known.program, planted=planted)
    model = planted_model(program, known.family, known.seed)
    return one, replace(known, program=program, model=model)


def compared(known: Known) -> Iterator[Answer]:
    """Heads that differ in a second model, in which one planted head does something else."""
    if found := _replaced(known):
        one, second = found
        same = compare(known.analysis(), second.analysis()).same
        differ = {head for head in map(str, known.heads) if head not in same}
        yield answer(
            "the head that was replaced, and no other", [differ == {str(one.head)}], [differ]
        )


def followed(known: Known) -> Iterator[Answer]:
    """Heads whose roles or worth change along a training, by whose end one was replaced."""
    if not (found := _replaced(known)):
        return
    one, second = found
    with TemporaryDirectory() as name:
        folders = [Path(name) / each for each in ("before", "after")]
        for folder, its in zip(folders, (known.model, second.model), strict=True):
            its.model.save_pretrained(folder)
            assert its.tokenizer is not None
            its.tokenizer.save_pretrained(folder)
        rows = follow(
            folders,
            lambda model: replace(known, model=model).task(),
            Corpus(known.written),
            options=FollowOptions("ablation", scores=False),
        ).rows
    before, after = ({row.head: row for row in rows if row.place == at} for at in (0, 1))
    renamed = {head for head, row in before.items() if {*row.roles} != {*after[head].roles}}
    right = renamed == {str(one.head)}
    yield answer("roles change of the head that was replaced, and of no other", [right], [renamed])
    writers = () if one.label is None else known.program.writers(one.label)
    true = {str(each.head) for each in writers}  # a head is worth something else if its partner is
    moved = {
        head
        for head, row in before.items()
        if abs(row.importance - after[head].importance) > CHANGED
    }
    yield answer(
        "worth changes of heads that tell its label, and of no other", [moved == true], [moved]
    )
