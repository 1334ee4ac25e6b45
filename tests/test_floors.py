"""A capability can be deleted: what does not need it still works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.core import capabilities, with_variants
from tests.importing import MODULES, ROOT, TESTS, imported, needed, package
from tests.test_layers import ALLOWED, CAPABILITIES, CORE

LIST = ROOT / "headcount" / "capabilities.py"


def gone_with(name: str) -> set[str]:
    """A capability, and those that may import it, or one of these."""
    gone = {name}
    while more := {each for each, others in ALLOWED.items() if gone & {*others}} - gone:
        gone |= more
    return gone


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_no_other_manifest_names_a_capability(name: str) -> None:
    """But of those that the table of imports lets import it, which tests/test_layers.py checks."""
    for its in capabilities():
        home = package(COMMANDS.own[its.name].partition(":")[0])
        places = (its.command, its.result, its.document, its.page)
        named = {package(each) for each in (*places, *(s.document for s in its.sections)) if each}
        assert home == name or name not in named or home in gone_with(name), its.name


def test_every_manifest_names_its_page_and_the_list_of_commands_leads_there() -> None:
    listed = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for its in with_variants():
        page = (ROOT / "docs" / f"{its.docs}.md").read_text(encoding="utf-8")
        assert f"headcount {its.name}" in page, its.name
        link = rf"^\| \[`headcount {its.name}\b[^`]*`\]\({its.docs}\.md\)"
        assert its.docs == "commands" or re.search(link, listed, re.M), its.name


WHOLE = {"testing", "truth"}
"""Folders of tests of the whole product; those beside the folders are of it, too."""


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_without_a_capability_all_other_tests_are_collected(name: str) -> None:
    """Those of what does not need it: of the core, and of other capabilities."""
    needing = {
        module: sorted(each for each in imported(module) if name in needed(each))
        for module in TESTS
        if (home := module.split(".")[1]) not in WHOLE | gone_with(name)
        if (ROOT / "tests" / home).is_dir() and name in needed(module)
        if module.rpartition(".")[2].startswith("test_")
    }
    assert not needing


TO_COPY = (
    *(f"headcount/alignment/{part}.py" for part in ("capability", "command", "result", "document")),
    "tests/alignment/test_command.py",
)
"""The files of the capability that docs/architecture.md tells a newcomer to copy."""


def test_the_capability_to_copy_is_short() -> None:
    guide = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert all(name.removeprefix("headcount/") in guide for name in TO_COPY)
    assert sum(len((ROOT / name).read_text().splitlines()) for name in TO_COPY) <= 400


def test_the_picture_of_the_house_has_every_package() -> None:
    """Each on its floor."""
    guide = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    upper, lower = guide.split("```")[1].split("-----\n")
    assert {*CAPABILITIES} <= {*upper.split()}
    assert {each for floor in CORE for each in floor} <= {*lower.split()}


def test_each_picture_says_how_much_there_is_to_read() -> None:
    """Within a tenth: files grow."""
    guide = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    readings = re.findall(r"^Read (.*?)some\s([\d,]+)\slines", guide, re.M | re.S)
    assert len(readings) == 5
    for files, said in readings:
        names = re.findall(r"`([\w/]+\.py)`", files)
        places = (
            ROOT / ("" if name.startswith("tests/") else "headcount") / name for name in names
        )
        lines = sum(len(each.read_text(encoding="utf-8").splitlines()) for each in places)
        assert lines == pytest.approx(int(said.replace(",", "")), rel=0.1), (names[0], lines)


def test_no_module_is_a_crumb() -> None:
    """But manifests and indexes."""
    small = {
        module
        for module, path in MODULES.items()
        if path.name not in ("__init__.py", "capability.py")
        if len(path.read_text().splitlines()) < 25
    }
    assert not small, small


DELETED = """
import sys
from pathlib import Path
from headcount import __file__ as here, pages
from headcount.commands import main
assert Path(here).is_relative_to(sys.argv[1]), here
assert main(["--help"]) == 0
print(pages.write_report(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clusters", "skills", "explanation"])
def test_without_a_capability_help_the_page_and_other_tests_work(name: str, tmp_path: Path) -> None:
    """In a copy without the folders: the page of our translation model, and all tests found."""
    gone = gone_with(name)
    _copy_without(gone, tmp_path)
    run = shutil.copytree(ROOT / "docs" / "gallery" / "en-de", tmp_path / "run")
    shown = _run(tmp_path, "-c", DELETED, str(tmp_path), str(run))
    words = {line.split()[0] for line in shown.splitlines() if line.startswith("  ")}
    assert words and not words & {
        its.name for its in capabilities() if package(COMMANDS.own[its.name]) in gone
    }
    assert "<h1" in (run / "report.html").read_text()
    alone = ("-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib -q")
    tests = _run(tmp_path, "-m", "pytest", "--collect-only", *alone, "tests")
    assert "tests/core/test_plan.py::" in tests and f"tests/{name}/" not in tests


def _copy_without(gone: set[str], to: Path) -> None:
    """Copy the package and its tests, without some capabilities and what is of the whole."""
    skipped = shutil.ignore_patterns("__pycache__", "en-de*")
    copy = Path(shutil.copytree(ROOT / "headcount", to / "headcount", ignore=skipped))
    tests = Path(shutil.copytree(ROOT / "tests", to / "tests", ignore=skipped))
    for each in gone & {*CAPABILITIES}:
        shutil.rmtree(copy / each)
    for each in [*WHOLE, *gone]:
        shutil.rmtree(tests / each, ignore_errors=True)
    for each in tests.glob("test_*.py"):
        each.unlink()
    for each in ("docs", "benchmarks", "README.md", "pyproject.toml"):
        (to / each).symlink_to(ROOT / each)
    kept = [
        line
        for line in LIST.read_text().splitlines(keepends=True)
        if not (found := re.search(r'"headcount\.(\w+)\.', line)) or found[1] not in gone
    ]
    (copy / "capabilities.py").write_text("".join(kept))


def _run(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder, whose modules come first."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout
