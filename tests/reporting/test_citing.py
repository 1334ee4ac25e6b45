"""What a paper needs of a run: `headcount cite`."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcount.analysis.methods_section import NOTES
from headcount.cache import PlannedCache
from headcount.capabilities import CAPABILITIES
from headcount.core import ResumePolicy, imported, latex, with_variants
from headcount.explanation import EFFECTS
from headcount.importance.options import OWN_COLUMNS
from headcount.importance.page import WORTH_NOTES
from headcount.reporting import bibliography, citing, entries_of
from headcount.results import claim
from headcount.vocabulary import PICTURE_SKILLS, ROLES, SKILLS
from tests.commanding import headcount
from tests.skills.test_page import made_skills

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
"""Folders of real runs."""


def sources() -> Iterator[str]:
    """Every source of our own roles, columns, effects, skills and notes."""
    kinds: tuple[Any, ...] = (ROLES.values(), OWN_COLUMNS, SKILLS.values(), NOTES, WORTH_NOTES)
    yield from (each.source for kind in (*kinds, PICTURE_SKILLS.values()) for each in kind)
    yield from (EFFECTS[name].source for name in EFFECTS.own)


def test_every_paper_that_a_source_names_is_in_the_bibliography() -> None:
    named = {source: re.findall(r"arXiv:[\d.]+\d", source) for source in sources()}
    assert sum(map(len, named.values())) > 30
    for source, numbers in named.items():
        assert {*numbers} <= {entry.named for entry, _ in entries_of(source)}, source


def test_every_entry_of_the_bibliography_is_whole() -> None:
    for entry in bibliography().values():
        assert entry.bibtex.count("{") == entry.bibtex.count("}"), entry.key
        fields = re.findall(r"^  (\w+) = \{.+\},$", entry.bibtex, re.MULTILINE)
        assert fields[:2] == ["title", "author"] and "year" in fields, entry.key
        assert entry.bibtex.count("\n") == len(fields) + 1, entry.key
        year = re.search(r"year = \{(\d+)\}", entry.bibtex)
        assert year and (year[1] in entry.key or entry.key == "headcount")


def test_every_result_says_how_it_was_measured() -> None:
    kinds = {its.name for its in with_variants() if its.result}
    assert len(kinds) > 12
    assert {its.name for its in with_variants() if its.notes} == kinds
    assert all(callable(imported(its.notes)) for its in with_variants() if its.notes)


def test_a_source_of_several_papers_names_each_with_its_section() -> None:
    source = "Voita et al., arXiv:1905.09418, sections 5.1 and 6; Clark, arXiv:1906.04341; Smith"
    assert [(entry.key, where) for entry, where in entries_of(source)] == [
        ("voita2019analyzing", "sections 5.1 and 6"),
        ("clark2019what", ""),
    ]
    assert [*entries_of("headcount")] == []


def test_only_what_was_measured_is_cited() -> None:
    def told(name: str, found: object) -> list[str]:
        return [note.what for note in imported(CAPABILITIES[name].notes)(found)]

    plan = PlannedCache.read(GALLERY / "plan")
    assert told("cache", plan) == ["Streaming"] and plan.record.asked is None
    asked = replace(plan, record=replace(plan.record, asked=20))
    assert told("cache", asked) == ["Streaming", "Retrieval"]
    assert told("skills", made_skills(["dec.0.0"]))[:2] == ["Retrieval", "Answers"]
    assert told("skills", made_skills(["dec.0.0"], is_found=False))[0] == "Induction"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the gallery, with an explanation beside it."""
    shutil.copytree(GALLERY / "smollm2", tmp_path / "run")
    for path in (GALLERY / "explanation").iterdir():
        shutil.copy(path, tmp_path / "run")
    return tmp_path / "run"


def test_methods_cite_what_was_measured_and_nothing_else(run: Path) -> None:
    found = citing(run)
    cited = {*re.findall(r"\\citep(?:\[[^]]*\])?\{(\w+)\}", found.methods)}
    assert cited == {*re.findall(r"^@\w+\{(\w+),", found.references, re.MULTILINE)}
    assert {"voita2019analyzing", "elhage2021framework", "headcount"} <= cited
    assert "hanna2024have" not in cited, "the effect estimate was not measured"
    assert found.papers == len(cited) - 1
    analyzed, explained = found.methods.split("\\paragraph")[1:]
    assert "positional 90" in analyzed and "revision" in analyzed
    assert explained.startswith(
        "{Explain}\n\\texttt{headcount explain} measured HuggingFaceTB/SmolLM2"
    )
    plain = found.methods.replace("\\textbackslash{}", "")
    assert not re.search(r"(?<!\\)[%&#_]", re.sub(r"\\\w+(\[[^]]*\])?\{\w*\}", "", plain))
    assert plain.count("{") == plain.count("}")


@pytest.mark.slow
def test_the_command_writes_files_beside_which_a_run_may_write_again(tmp_path: Path) -> None:
    run = shutil.copytree(GALLERY / "vit", tmp_path / "run", ignore=lambda *_: ["about.json"])
    status, said, _ = headcount("cite", run)
    assert status == 0
    assert f"Methods: {run / 'paper' / 'methods.tex'}" in said
    assert "headcount and " in said and " papers" in said
    found = citing(run)
    assert (run / "paper" / "methods.tex").read_text() == found.methods
    assert (run / "paper" / "references.bib").read_text() == found.references
    drawn = {path.stem for path in (run / "paper").glob("*.pdf")}
    assert {"role_map", "layer_curves", "importance"} <= drawn
    assert {path.stem for path in (run / "paper").glob("*.svg")} == drawn
    assert f"{len(drawn)} figures for one column, as PDF and SVG" in said
    for path in (run / "paper").glob("*.svg"):
        width = re.search(r'width="([\d.]+)pt"', path.read_text(encoding="utf-8"))
        assert width and float(width[1]) <= 3.3 * 72 + 0.1
    claim(run, ResumePolicy.OVERWRITE)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    status, _, errors = headcount("cite", tmp_path)
    assert status == 2 and f"Expected results in {tmp_path}, got none. Name the folder" in errors


def test_latex_writes_what_it_reads_otherwise() -> None:
    assert latex(r"80 % of {v_1} & $3 # ~ ^ \ −0.3") == (
        r"80 \% of \{v\_1\} \& \$3 \# \textasciitilde{} \textasciicircum{} \textbackslash{} $-$0.3"
    )
