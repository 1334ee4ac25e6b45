"""Blocks of documents: which columns are numbers, and what Markdown would obey."""

import pytest

from headcount.core import Chart, Code, Document, Heading, Table, Text, Warned


@pytest.mark.parametrize(
    ("cell", "is_number"),
    [
        ("0.25", True),
        ("−1.20 nats", True),
        ("0.590 to 0.689", True),
        ("64 % (59.4 to 68.9)", True),
        ("<0.001", True),
        ("1,077", True),
        ("–", True),
        ("9.8e-05", True),
        ("enc.0.1", False),
        ("layer 3", False),
        ("to", False),
        ("", True),
    ],
)
def test_columns_of_numbers(cell: str, is_number: bool) -> None:
    assert Table(("name", "x"), (("a", cell), ("b", "1")), "").is_number == (False, is_number)


def test_text_is_no_markup() -> None:
    blocks = (
        Heading("a_b"),
        Text("1 * 2 * <b>"),
        Table(("c|d",), (("`e`",),), "what"),
        Warned("x\n# y"),
        Code("s|t"),
        Chart("drawn", "A line", lambda: None),
    )
    text = Document("# T", blocks).markdown()
    assert text == (
        "# \\# T\n\n## a_b\n\n1 \\* 2 \\* &lt;b&gt;\n\n| c\\|d   |\n|:-------|\n| \\`e\\`  |\n\n"
        "Warning: x \\# y.\n\n`s|t`\n"
    )


def test_an_ending_drops_empty_paragraphs() -> None:
    ended = Document("T", (Text(""), Text("a"))).ending(["w"], "s")
    assert ended.blocks == (Text("a"), Warned("w"), Code("s", is_signature=True))
