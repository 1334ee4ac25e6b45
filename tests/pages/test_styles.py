"""Styles of the page: what a rule refers to exists."""

import re
from pathlib import Path

import headcount

PAGES = Path(headcount.__file__).parent / "pages"


def test_every_variable_of_a_style_is_set_somewhere() -> None:
    """A rule with a variable that nothing sets is silently ignored by browsers."""
    styles = "\n".join(path.read_text() for path in PAGES.rglob("*.css"))
    others = [path.read_text() for end in ("js", "j2", "py") for path in PAGES.rglob(f"*.{end}")]
    used = set(re.findall(r"var\((--[\w-]+)\)", styles))
    set_by_rules = set(re.findall(r"(--[\w-]+)\s*:", styles))
    set_by_code = set(re.findall(r"--[\w-]+", "\n".join(others)))
    assert used and not used - set_by_rules - set_by_code
