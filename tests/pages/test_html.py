"""The page: complete, small, escaped, and self-contained."""

import base64
import json
import re
import zlib
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headcount.core import InputError
from headcount.pages import assets, render, report_view, story, write_report
from headcount.pages.assets import script_json
from headcount.results import read_run
from tests.pages.run_folder import HOSTILE, Wish, shared_run, write_run

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """A parser that checks that elements close in order and stores tags and texts."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        (self.scripts if inside == "script" else self.text).append(data)


@cache
def html(folder: Path) -> str:
    return render(report_view(shared_run(folder)))


def page(folder: Path) -> Page:
    return Page(html(folder))


def data(parsed: Page) -> dict:
    """The data for the scripts, which a large page has compressed."""
    found = json.loads(parsed.scripts[0])
    if isinstance(found, str):
        return json.loads(zlib.decompress(base64.b64decode(found)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "translator", "hostile", "roleless"])
def test_parses_and_has_a_cell_per_head(name: str, request: pytest.FixtureRequest):
    folder = request.getfixturevalue(name)
    parsed = page(folder)
    cells = [attrs for tag, attrs in parsed.tags if tag == "button" and "data-head" in attrs]
    heads = [row.head for row in shared_run(folder).rows]
    assert [cell["data-head"] for cell in cells] == heads == list(data(parsed)["cards"])
    assert all(
        str(cell["aria-label"]).startswith(head) for cell, head in zip(cells, heads, strict=True)
    )


def test_nothing_comes_from_outside(plain: Path):
    text, parsed = html(plain), page(plain)
    for _, attrs in parsed.tags:
        assert "src" not in attrs and "srcset" not in attrs
        assert (attrs.get("href") or "#").startswith(("#", "data:,"))
        link = attrs.get("xlink:href") or "#"
        assert link.startswith(("#", "data:image/png;base64,"))
    text = text.replace("url(#", "")  # parts of the same drawing
    assert "url(" not in text and "@import" not in text and "fetch(" not in text
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'")


@pytest.mark.slow
def test_strings_stay_strings(hostile: Path):
    parsed = page(hostile)
    assert len([tag for tag, _ in parsed.tags if tag == "script"]) == 2
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert all(text in parsed.text for text in HOSTILE)
    assert data(parsed)["cards"]["enc.0.0"]["examples"][0]["queries"][: len(HOSTILE)] == list(
        HOSTILE
    )


def test_json_in_a_script_has_no_markup():
    text = script_json({"</script>": "<!-- & \u2028 \u2029"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"</script>": "<!-- & \u2028 \u2029"}


def test_says_when_there_are_no_trees_and_no_null_run(hostile: Path):
    from headcount.analysis.methods_section import NO_TREES

    text = " ".join(page(hostile).text)
    assert NO_TREES in text and "to see how many heads would get a role" in text


@pytest.mark.slow
def test_no_role_is_an_answer(roleless: Path):
    text = " ".join(page(roleless).text)
    assert "None of the 6 heads shows a role or tendency." in text
    assert "To see more:" in text and "`" not in text
    what = "/models/all-MiniLM-L6-v2 --task TASK --data FILE --out THIS_FOLDER"
    assert f"<code>headcount importance {what}</code> shows which" in html(roleless)
    assert any("headcount importance" in line for line in story(shared_run(roleless)))
    assert not any("`" in line for line in story(shared_run(roleless)))


def test_signature_warnings_thresholds_and_sources_are_there(plain: Path):
    text = " ".join(page(plain).text)
    run = shared_run(plain)
    for expected in (
        run.record.signature,
        "14 sentences were cut.",
        "syntactic gain",
        "arXiv:1905.09418",
    ):
        assert expected in text


@pytest.mark.slow
def test_144_heads_with_432_long_sentences_fit_in_3_mb(tmp_path: Path):
    folder = write_run(tmp_path, Wish(layers=12, heads=12, null=True, importance=True))
    assert write_report(folder).stat().st_size < 3_000_000


@pytest.mark.slow
def test_1024_heads_fit_in_3_mb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What each head adds to a page that is made as large ones are, 1,024 times.

    A sentence of UD English-EWT has 13 words.
    """
    monkeypatch.setattr(assets, "LARGE", 1000)
    sizes = {}
    for heads in (8, 56):
        many = {"null": True, "profiles": True, "importance": True, "num_words": 13}
        wish = Wish(layers=2, heads=heads // 2, **many)
        run = read_run(write_run(tmp_path / str(heads), wish))
        page = render(report_view(run), many=1)
        sizes[heads] = len(page.encode())
        plain = data(Page(page))
        assert len(plain["heads"]) == len(plain["cards"]) == heads
    each = (sizes[56] - sizes[8]) / 48
    assert sizes[8] + 1016 * each < 3_000_000


@pytest.mark.slow
def test_same_run_same_page(plain: Path):
    assert render(report_view(read_run(plain))) == html(plain)


@pytest.mark.slow
def test_write_report_leaves_only_the_report(tmp_path: Path):
    folder = write_run(tmp_path, Wish(layers=1, heads=2))
    before = {path.name for path in folder.iterdir()}
    assert write_report(folder) == folder / "report.html"
    assert {path.name for path in folder.iterdir()} == before | {"report.html"}


@pytest.mark.slow
def test_a_damaged_run_leaves_the_old_report(tmp_path: Path):
    folder = write_run(tmp_path, Wish(layers=1, heads=2))
    old = write_report(folder).read_text()
    (folder / "heads.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError):
        write_report(folder)
    assert (folder / "report.html").read_text() == old
