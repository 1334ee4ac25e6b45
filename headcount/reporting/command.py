"""Commands about finished runs and headcount itself: report, compare, doctor, demo, sample."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headcount import (
    analysis,
    artifact,
    explanation,
    importance,
    models,
    pages,
    reporting,
    results,
    tasks,
)
from headcount.commands import (
    FORMATS,
    Command,
    DeviceArguments,
    FigureFormat,
    check_model,
    document_of,
    naming_report,
    plain_console,
    print_document,
    print_lines,
    shown,
)
from headcount.core import (
    DATA,
    InputError,
    ResumePolicy,
    amount,
    check_is_folder,
    with_variants,
    write_text,
)
from headcount.corpora import Corpus
from headcount.models import TrustOptions
from headcount.pages import command
from headcount.results import check_is_run


@dataclass(frozen=True)
class Report(Command):
    """The arguments of `headcount report`."""

    HAS_TABLES = True

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder of the run."""
    formats: tuple[FigureFormat, ...] = FORMATS
    """Formats of the figures, which are written into `figures/`."""
    pruned: Path | None = None
    """Model pruned from this one, a folder or headcount:en-de-36, to show before and after."""
    confirm: Path | None = None
    """Folder of an analysis of the same model on other texts, to show which roles are found again;
    writes confirmation.md."""

    def run(self) -> int:
        """Write the report and figures, and print where they are."""
        check_is_folder(self.out)
        console = plain_console(soft_wrap=False)
        written = [
            kind
            for kind in (its.result_type for its in with_variants() if its.document)
            if (self.out / kind.files()[-1]).exists()
        ]
        if (self.out / results.PruneRecord.FILE).exists() and not written:
            page = artifact.write_page(self.out)
            console.print(f"Page: {page}", soft_wrap=True)
            return 0
        has_analysis = (self.out / results.RunRecord.FILE).exists()
        if has_analysis or not written or self.pruned or self.confirm:
            check_is_run(self.out)
            self._confirm(console)
            pruned = None if self.pruned is None else Path(models.place_of(str(self.pruned)))
            page = pages.write_report(self.out, pruned, self.confirm)
            console.print(f"Page: {page}", soft_wrap=True)
            reporting.write_figures(self.out, self.formats)
        for kind in written:
            found = kind.read(self.out)
            shown, page = document_of(found, self.out), self.out / kind.DOCUMENTS[1]
            if isinstance(found, explanation.Explained) and found.shows_text and page.exists():
                shown.write(self.out / kind.DOCUMENTS[0], self.formats)  # its page needs the model
            else:
                pages.write_documents(found, shown, self.out, self.formats)
            console.print(f"Page: {page}", soft_wrap=True)
        if drawn := [*(self.out / "figures").glob("*")]:
            number = amount(len(drawn), "figure")
            console.print(f"{number} in {self.out / 'figures'}", soft_wrap=True)
        return 0

    def _confirm(self, console: Console) -> None:
        """Print and write which roles the analysis in --confirm finds again."""
        if self.confirm is None:
            return
        check_is_run(self.confirm)
        runs = [results.Analysis.read(folder) for folder in (self.out, self.confirm)]
        shown, path = (
            analysis.confirmation_document(analysis.confirm(*runs)),
            self.out / results.CONFIRMATION,
        )
        print_document(shown, console)
        shown.write(path, self.formats)
        console.print(f"Document: {path}", soft_wrap=True)


@dataclass(frozen=True)
class Cite(Command):
    """The arguments of `headcount cite`."""

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder of the run; methods.tex, references.bib and figures for one column are written into
    its folder paper."""

    def run(self) -> int:
        """Write all files, and print where they are."""
        check_is_folder(self.out)
        found, folder = reporting.citing(self.out), self.out / results.PAPER
        if not found.methods:
            raise InputError(
                f"Expected results in {self.out}, got none. Name the folder of `headcount analyze` "
                "or of another command that measures."
            )
        write_text(folder / "methods.tex", found.methods)
        write_text(folder / "references.bib", found.references)
        console = plain_console(soft_wrap=True)
        console.print(f"Methods: {folder / 'methods.tex'}")
        papers = amount(found.papers, "paper")
        console.print(f"References: {folder / 'references.bib'}, headcount and {papers}")
        drawn = {path.stem for path in reporting.write_paper_figures(self.out, folder)}
        console.print(f"{amount(len(drawn), 'figure')} for one column, as PDF and SVG, beside them")
        return 0


@dataclass(frozen=True)
class Doctor(DeviceArguments, Command):
    """The arguments of `headcount doctor`."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = ""
    """A Hugging Face name, a folder, or headcount:en-de; left out, plug-ins only."""

    def run(self) -> int:
        """Print the findings; exit status 1 if the model can't be analysed."""
        from headcount.doctor import diagnose, plugins  # not from an index: this is slow

        how = (self.device, self.dtype, self.trust_remote_code)
        findings = [*plugins(), *(diagnose(self.model, *how) if self.model else ())]
        table = Table("", "", Column(overflow="fold"), box=None, pad_edge=False, show_header=False)
        for finding in findings:
            mark = Text("works", "green") if finding.works else Text("does not", "red")
            table.add_row(mark, finding.subject, finding.text)
        plain_console(soft_wrap=False).print(table)
        return 0 if all(each.works or not each.is_required for each in findings) else 1


SMALLER = {"headcount:en-de": "headcount:en-de-36"}
"""The shipped model pruned from a shipped model, by name."""
PAIRS = 60
"""Number of sentence pairs to score on: every head is ablated on its own within a minute."""


@dataclass(frozen=True)
class Demo(TrustOptions, Command):
    """The arguments of `headcount demo`."""

    HAS_TABLES = True

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = "headcount:en-de"
    """The shipped model, or another English-German encoder-decoder."""
    out: Path = Path("headcount-demo")
    """Folder for the results; an earlier demo in it is replaced."""

    def run(self) -> int:
        """Analyse and score every head, and print the story they make."""
        check_model(self.model)
        results.claim(self.out, ResumePolicy.OVERWRITE)
        loaded = models.load(self.model, trust_remote_code=self.trust_remote_code)
        corpus = Corpus(source=DATA / "sample.conllu", target=DATA / "sample.de")
        task = tasks.Translation(
            loaded, str(DATA / "sample.tsv"), {"source": "0", "target": "1"}, limit=PAIRS
        )
        results.start_over(self.out)
        # Scores of every head and every site, without the slowest one.
        chosen = importance.Options(("gradient", "relevance", "ablation", "norm"), one_left=False)
        with shown() as progress:
            options = analysis.Options(null=True)
            analyzed = analysis.analyze(loaded, corpus, options, self.out, progress)
            analyzed.write(self.out)
            importance.assess(loaded, task, chosen, self.out, progress).write(self.out)
        smaller = SMALLER.get(self.model)
        pruned = None if smaller is None else Path(models.place_of(smaller))
        given = pages.Given(self.model, str(self.out))
        print_lines(pages.story(results.read_run(self.out, pruned), given))
        with naming_report(self.out):
            print_lines([f"Page: {pages.write_report(self.out, pruned)}"])
        return 0


PARTS = ("train.tsv", "dev.tsv", "test.tsv")
"""Data sets of which each gets every third pair of the translations."""


@dataclass(frozen=True)
class Sample(Command):
    """The arguments of `headcount sample`."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A new folder, or one that holds these files already."""

    def run(self) -> int:
        """Write all files, or none if one is there with other contents."""
        check_is_folder(self.folder)
        written = {self.folder / name: text for name, text in data_sets().items()}
        for path, text in written.items():
            if path.exists() and path.read_bytes() != text.encode():
                raise InputError(
                    f"Expected a new folder, but {path} is there and is not the file that would "
                    "be written. Name another folder."
                )
        for path, text in written.items():
            write_text(path, text)
        console = plain_console()
        about = f"{self.folder / 'README.md'} says what they are"
        console.print(f"Wrote {amount(len(written), 'file')}; {about}")
        next_step = command("analyze", ["MODEL"], {}, self.folder / "sample.conllu", "--out", "OUT")
        console.print(f"Next: {next_step}")
        return 0


def data_sets() -> dict[str, str]:
    """The texts of our data sets, by the path of each in the folder of all."""
    models = {path.parent for path in DATA.rglob("config.json")}
    found = {
        path.relative_to(DATA).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(DATA.rglob("*.*"))
        if models.isdisjoint(path.parents)
    }
    pairs = found["sample.tsv"].splitlines(keepends=True)
    parts = ("".join(pairs[n :: len(PARTS)]) for n in range(len(PARTS)))
    return found | dict(zip(PARTS, parts, strict=True))
