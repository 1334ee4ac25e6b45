"""`headcount explain` and `headcount skills`: which heads made a prediction, or carry a skill."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import explanation, importance, models
from headcount.commands import BesideCommand, CorpusArguments, Flat, Report, given, print_lines
from headcount.core import Document, Head, InputError, is_alone
from headcount.corpora import Corpus, ReadAs, named_columns
from headcount.explanation.effects import EFFECTS
from headcount.explanation.options import ExplainOptions
from headcount.explanation.prompts import Prompt, pictured_prompt
from headcount.pages import command

PROMPT = "prompt"
"""What the names of prompts' columns begin with."""


@dataclass(frozen=True)
class Explain(CorpusArguments, BesideCommand["explanation.Explained"]):
    """The arguments of `headcount explain`."""

    RESULT = explanation.Explained

    prompt: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="PROMPT")] = None
    """What the model reads, in quotes; a masked model fills its [MASK]."""
    target: str | None = None
    """Continuation, filling or label to explain; begin a word with a blank: " Mary"."""
    against: str | None = None
    """Its rival; without one, the log-probability of the target is explained."""
    corrupt: str | None = None
    """A second prompt with another answer, from which heads are patched."""
    image: tuple[str, ...] = ()
    """Pictures in front of the prompt."""
    corrupt_image: tuple[str, ...] = ()
    """Pictures in front of the second prompt, whose text is that of the first if none is given."""
    prompts: str | None = None
    """Table of prompts in place of one (.jsonl, .csv, .tsv or .parquet with prompt, target,
    against, corrupt, image and corrupt_image; --columns prompt=NAME prompt.target=NAME for other
    names), or ours: indirect-objects, indirect-objects-reworded, indirect-objects-flipped,
    greater-than, pronouns, facts, agreement, arithmetic."""
    texts: tuple[str, ...] = ()
    """Files of texts over which heads' outputs are averaged; the prompts by default."""
    scores: Path | None = None
    """Folder of `headcount importance` on other prompts: its scores choose circuits, too."""
    elsewhere: str | None = None
    """Prompts of other templates, or ours by name, to measure the stable circuit on as well."""
    latex: bool = False
    """Print a row of a LaTeX table for each ranking of a circuit: heads that keep 80 %, CPR,
    CMD."""
    how: Flat[ExplainOptions] = field(default_factory=ExplainOptions)

    @classmethod
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The effects, for tab completion."""
        return {"--effects": EFFECTS.names()}

    @cached_property
    def others(self) -> tuple[Prompt, ...]:
        """The prompts elsewhere."""
        return () if self.elsewhere is None else explanation.read_prompts(self.elsewhere)

    @cached_property
    def asked(self) -> tuple[Prompt, ...]:
        """The prompts.

        Raises:
            InputError: for neither a prompt nor a file, or both, or a prompt without a target.
        """
        if self.prompts is not None:
            both = self.prompt, self.target, *self.image, *self.corrupt_image
            if given := [each for each in both if each is not None]:
                raise InputError(
                    f"Expected a prompt or --prompts, got both ({given[0]!r}). Leave one out."
                )
            data = ReadAs(self.prompts, self.reading)
            return explanation.read_prompts(data, self.prompt_columns)
        if self.prompt is None or self.target is None:
            lacking = "prompt" if self.prompt is None else "--target"
            raise InputError(
                f"Expected a prompt with its --target, or --prompts FILE, got no {lacking}. Write "
                'headcount explain MODEL "When Mary and John met, John spoke to" --target " Mary".'
            )
        texts = self.prompt, self.target, self.against, self.corrupt
        if self.image or self.corrupt_image:
            return (pictured_prompt(*texts, (self.image, self.corrupt_image)),)
        return (Prompt(*texts),)

    @property
    def text_columns(self) -> dict[str, str | int] | None:
        """The columns of the texts: those that are not of the prompts."""
        return {
            name: column
            for name, column in (named_columns(self.columns) or {}).items()
            if name.partition(".")[0] != PROMPT
        } or None

    @property
    def prompt_columns(self) -> dict[str, str | int]:
        """The columns of the prompts, by their own names."""
        return {
            name.removeprefix(f"{PROMPT}."): column
            for name, column in (named_columns(self.columns) or {}).items()
            if name.partition(".")[0] == PROMPT
        }

    @cached_property
    def corpus(self) -> Corpus | None:
        """The texts.

        Raises:
            InputError: for columns of texts without texts.
        """
        if not self.texts and (names := list(self.text_columns or ())):
            raise InputError(
                f"Expected --texts for the column {names[0]!r}, got none. Columns of prompts are "
                f"named --columns {PROMPT}=NAME {PROMPT}.target=NAME {PROMPT}.against=NAME."
            )
        return self.read(self.texts) if self.texts else None

    @cached_property
    def ranked(self) -> dict[str, dict[Head, float]]:
        """The scores of every head by column.

        Raises:
            InputError: for a folder without an assessment, or one that was changed.
        """
        if self.scores is None:
            return {}
        found = importance.read_assessment(self.scores)
        heads = [Head.parse(name) for name in found.heads.frame["head"]]
        names = (*importance.SCORE_COLUMNS, *found.record.columns)
        scores = {name: found.columns.get(name) for name in names}
        return {
            name: dict(zip(heads, each.tolist(), strict=True))
            for name, each in scores.items()
            if each is not None
        }

    def check(self) -> None:
        """Check everything that needs no model, prompts and texts included."""
        super().check()
        if self.latex and not self.how.circuit:
            raise InputError(
                "Expected a circuit, whose numbers are the cells of a LaTeX row, got --latex "
                "without one. Add --circuit, or leave --latex out."
            )
        self.asked  # noqa: B018
        self.others  # noqa: B018
        self.corpus  # noqa: B018
        self.ranked  # noqa: B018

    def measure(self, read: "models.Loaded", progress: Report) -> "explanation.Explained":
        """Attribute, replace heads alone and together; first say how long circuits will take."""
        if self.how.circuit and is_alone():
            print_lines(filter(None, [explanation.forecast(read, self.asked, self.how)]))
        return explanation.explain(
            read,
            self.asked,
            options=self.how,
            texts=self.corpus,
            scores=self.ranked,
            elsewhere=self.others,
            progress=progress,
        )

    def summary(self, found: "explanation.Explained") -> Document:
        """One screen of the document."""
        return explanation.explanation_summary(found)

    def publish(self, read: "models.Loaded", found: "explanation.Explained") -> Path | None:
        """Write document and page, which of one prompt draws the text."""
        page = super().publish(read, found)
        if found.shows_text:
            try:
                explanation.show_explained(read, found, prompt=self.asked[0]).save(
                    self.out / found.DOCUMENTS[1]
                )
            except InputError as error:
                print_lines([f"The page does not draw the text. {error}"])
        return page

    def next_steps(self, read: "models.Loaded", found: "explanation.Explained") -> Iterable[str]:
        """Where the rest stands, and how to ask more."""
        yield f"All heads, and what each effect means: {self.out / found.DOCUMENTS[0]}"
        if self.latex:
            yield from explanation.latex_rows(found).splitlines()
        yield from after_explain(self, found)


OF_PROMPT = (
    *("prompt", "target", "against", "corrupt", "image", "corrupt_image"),
    *("query", "key", "at"),
)
OF_RUN = ("out", "overwrite", "elsewhere", "latex")
"""Arguments of one prompt and of one run, which the next command has none of."""
OF_HEADS = ("heads", "each_position", "backups")
"""Arguments on single heads, which a circuit of all heads has no use for."""


def after_explain(on: Explain, found: "explanation.Explained") -> Iterator[str]:
    """How to ask many prompts, and of these for a circuit, with the options of this run.

    Args:
        on: arguments of the explanation.
        found: what was measured.
    """
    shared = {
        name: value for name, value in given(on, Explain).items() if name not in OF_PROMPT + OF_RUN
    }
    if found.lacks_blank and on.prompts is None:
        row = found.unlikely[0]
        yield "Next: ask for the word behind the prompt, with a leading blank:"
        rival = ["--against", row.against] if row.against else []
        more = ["--target", f" {row.target}", *rival, "--out", "BLANK"]
        yield f"  {command('explain', [on.model, row.prompt], shared, *more)}"
    if not found.is_split:
        yield "Next: ask many prompts like this, for intervals (FILE holds one a line, as JSON):"
        shared["prompts"] = "FILE"
        yield f"  {command('explain', [on.model], shared, '--out', 'MANY')}"
    elif not found.areas and on.prompts is not None:
        yield "Next: see how few heads are enough:"
        shared = {name: value for name, value in shared.items() if name not in OF_HEADS}
        shared |= {"circuit": True}
        yield f"  {command('explain', [on.model], shared, '--out', 'CIRCUIT')}"
