"""What commands share: what a command declares, and the loop that runs it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args

import tyro

from headcount import models, pages, results, tasks
from headcount.commands.arguments import ModelArguments, recorded
from headcount.commands.console import (
    Report,
    plain_console,
    print_document,
    print_lines,
    show_comparison,
    shown,
)
from headcount.core import (
    Document,
    InputError,
    ResumePolicy,
    capability_of,
    check_alike,
    claim,
    is_alone,
    is_begun,
    is_main_process,
    start_over,
    wait_for_everyone,
)

FigureFormat = Literal["svg", "png", "pdf"]
"""A format of figures."""
FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)
"""All of them."""


def document_of(found: "results.Result[Any]", analysis: Path | None = None) -> Document:
    """What a result shows, with its warnings and signature.

    Args:
        found: The result.
        analysis: Folder of an analysis, if there is one, whose roles clusters and curves show.
    """
    roles, its = None, capability_of(type(found))
    if its is not None and its.takes_roles and analysis is not None:
        if (analysis / results.RunRecord.FILE).exists():
            roles = {row.head: row.roles for row in results.Analysis.read(analysis).rows}
    return pages.document_of(found, roles)


Fields = TypeVar("Fields")
Flat = Annotated[Fields, tyro.conf.arg(name="")]
"""A dataclass whose fields are options of the command, without a prefix."""


Read = TypeVar("Read")
"""What a command loads: a model, several, or a model and its task."""
Found = TypeVar("Found")
"""What a command measures."""
_FOLDER = ("out", "resume", "overwrite")
"""Arguments that say where results lie and what happens to earlier ones, not what they are."""
Res = TypeVar("Res", bound="results.Result[Any]")


class Command(ABC):
    """Arguments of one command, which `run` obeys; class attributes say what it writes."""

    RESULT: "ClassVar[type[results.Result[Any]] | None]" = None
    """What the command writes into --out."""
    RECORD: ClassVar[str | None] = None
    """The file in --out that --json prints, if it is not the record of `RESULT`."""
    HAS_TABLES: ClassVar[bool] = False
    """Whether --out gets other tables than those of `RESULT`, of which --csv writes copies."""

    @abstractmethod
    def run(self) -> int:
        """Run the command; returns the exit status."""

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> "type[Command]":
        """The class whose fields are the options that may be given beside some others."""
        del arguments
        return cls

    @classmethod
    def values(cls) -> Mapping[str, Sequence[str]]:
        """The values of options that tab completion offers and their type does not list."""
        return {}

    @classmethod
    def record_name(cls) -> str | None:
        """The file in --out that --json prints; None for none."""
        return cls.RECORD or (None if cls.RESULT is None else cls.RESULT.files()[-1])

    @classmethod
    def writes_tables(cls) -> bool:
        """Whether --out gets tables."""
        return cls.HAS_TABLES or cls.RESULT is not None


class Measuring(Command, Generic[Read, Found]):
    """A command that claims a folder, loads models, measures, stores and shows."""

    out: Any
    """The folder of the results."""

    @property
    def policy(self) -> ResumePolicy:
        """What to do with an earlier run in --out.

        Raises:
            InputError: For both of --resume and --overwrite.
        """
        return ResumePolicy.of(*(getattr(self, each, False) for each in ("resume", "overwrite")))

    def run(self) -> int:
        """Run the command; the main process alone stores and shows."""
        policy = self.policy
        self.check()
        if is_main_process():
            self.claim(policy)
        wait_for_everyone()
        if not is_main_process():  # its disk may be another
            self.claim(policy)
        read = self.prepare()
        if not is_alone():
            check_alike({"arguments": self._arguments(), **_facts(read)})
        if policy is ResumePolicy.OVERWRITE:  # once all input is read
            self.start_over()
        wait_for_everyone()
        with shown() as progress:
            found = self.measure(read, progress)
        if is_main_process():
            self._finish(read, found)
        wait_for_everyone()
        return 0

    def _finish(self, read: Read, found: Found) -> None:
        """Store, show and publish; what took long to measure is shown before a page can fail."""
        try:
            self.store(found)
        finally:
            self.show(read, found)
        with nullcontext() if self.RESULT is None else naming_report(self.out):
            page = self.publish(read, found)
        if page is not None:
            print_lines([f"Page: {page}"])
        print_lines(self.next_steps(read, found))

    def _arguments(self) -> dict[str, Any]:
        """The arguments that results depend on."""
        return {name: each for name, each in recorded(self).items() if name not in _FOLDER}

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If an argument can't be used.
        """

    def claim(self, policy: ResumePolicy) -> None:
        """Check that --out is new, or holds an earlier run that is resumed or replaced.

        Raises:
            InputError: If it holds something else, or an earlier run that stays.
        """
        if self.RESULT is not None:
            state, resumes = self.out / "state", hasattr(self, "resume")
            claim(self.out, self.RESULT.files(), state, policy, resumes)
            self._check_same_run(policy)

    def _check_same_run(self, policy: ResumePolicy) -> None:
        """Check that --resume does not replace a finished run of other arguments.

        Raises:
            InputError: If --out holds such a run.
        """
        name = self.record_name()
        is_finished = name is not None and (self.out / name).exists()
        # A state that is kept, as that of a curve, has a key of its own.
        if policy is not ResumePolicy.RESUME or not is_finished or is_begun(self.out / "state"):
            return
        assert self.RESULT is not None
        one, other = self.RESULT.read(self.out).record.arguments, self._arguments()
        if changed := sorted(name for name in other if one.get(name, other[name]) != other[name]):
            raise InputError(
                f"Expected the arguments of the finished run in {self.out} with --resume, got "
                f"others ({', '.join(changed)}). Give --overwrite instead, or name another folder."
            )

    def prepare(self) -> Read:
        """Load what is measured: by default the model that the arguments name."""
        return cast("Any", self).load()

    def start_over(self) -> None:
        """Delete the state that an earlier run would resume from."""
        if self.RESULT is not None:
            start_over(self.out / "state")

    @abstractmethod
    def measure(self, read: Read, progress: Report) -> Found:
        """Measure, by a call of the library."""

    def store(self, found: Found) -> None:
        """Write what was measured, unless `measure` has done so."""

    def publish(self, read: Read, found: Found) -> Path | None:
        """Write documents and pages of what is stored; returns the page to open, if any."""
        del read, found
        return None

    @abstractmethod
    def show(self, read: Read, found: Found) -> None:
        """Print what a user wants to read first."""

    def next_steps(self, read: Read, found: Found) -> Iterable[str]:
        """What to do next: sentences, and commands to paste."""
        del read, found
        return ()


@contextmanager
def naming_report(out: object) -> Iterator[None]:
    """Say with an error that the numbers are there, and which command writes their page."""
    try:
        yield
    except Exception as error:
        again = pages.command("report", [str(out)], {})
        error.add_note(
            f"Everything measured is in {out}, but its page could not be written. This writes it "
            f"again: {again}"
        )
        raise


def _facts(read: object) -> dict[str, str]:
    """The models and data among what a command has read, by their hashes."""
    facts = dict[str, str]()
    for number, each in enumerate(read if isinstance(read, tuple) else (read,)):
        if isinstance(each, models.Loaded):
            facts[f"revision of model {number}"] = models.revision(each.model)
        elif isinstance(each, tasks.Task):
            facts["data"] = each.sha256
    return facts


class ResultCommand(Measuring[Read, Res]):
    """A command whose result is tables and a record in a new folder."""

    out: Path
    analysis: Path | None = None
    """Folder of an analysis whose roles the document shows; --out by default."""

    def forget(self) -> None:
        """Delete the parts that an interrupted run would resume from, if the command keeps any."""

    def _finish(self, read: Read, found: Res) -> None:
        """Store, show and publish what was measured, with the arguments of the command."""
        super()._finish(read, found.recorded(recorded(self)))

    def store(self, found: Res) -> None:
        """Write tables and record."""
        found.write(self.out)
        self.forget()

    def publish(self, read: Read, found: Res) -> Path | None:
        """Write the document, its page and figures."""
        pages.write_documents(found, self.document(found), self.out)
        return self.out / found.DOCUMENTS[1]

    def document(self, found: Res) -> Document:
        """What was measured."""
        return document_of(found, self.analysis or self.out)

    def summary(self, found: Res) -> Document:
        """What is printed of it: all, unless that is more than a screen."""
        return self.document(found)

    def show(self, read: Read, found: Res) -> None:
        """Print the summary."""
        print_document(self.summary(found), plain_console(soft_wrap=False))


@dataclass(frozen=True)
class BesideCommand(ModelArguments, ResultCommand["models.Loaded", Res]):
    """A command whose result may lie beside an analysis, in whose page it then has a section."""

    out: Path = field(kw_only=True)
    """Folder for the results: new, or the folder of an analysis of this model."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run of this command in --out."""

    def load(self) -> "models.Loaded":
        """Load the model, and check that any analysis in `out` is of exactly this model."""
        loaded = super().load()
        results.check_same_model(self.out, loaded.heads, models.revision(loaded.model))
        return loaded

    def claim(self, policy: ResumePolicy) -> None:
        """Check that the folder is new or an analysis's, and may be written into."""
        assert self.RESULT is not None
        results.claim_beside(self.out, self.RESULT, policy, resumes=hasattr(self, "resume"))

    def start_over(self) -> None:
        """Delete the state that an earlier run would resume from."""
        self.forget()

    def publish(self, read: "models.Loaded", found: Res) -> Path | None:
        """Write document, page and figures, then the page of the analysis again."""
        page = super().publish(read, found)
        if (self.out / results.RunRecord.FILE).exists():
            pages.write_report(self.out)
        return page


class PaperCommand(Measuring[Read, Document]):
    """A command that writes a paper's tables with our numbers beside them."""

    out: Path
    DOCUMENT: ClassVar[str]
    """Name of the document's file in --out."""

    def show(self, read: Read, found: Document) -> None:
        """Write and print the document."""
        show_comparison(found, self.out / self.DOCUMENT)
