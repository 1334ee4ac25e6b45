"""No sentence says "1 words": `amount` words numbers of things, and `percent` shares."""

import ast
import re
from pathlib import Path

import headcount
from headcount.core import amount

PACKAGE = Path(headcount.__file__).parent
NOUNS = (
    "batches|bytes|cases|classes|columns|documents|examples|figures|files|folders|groups|heads|keys|"
    "labels|layers|lines|links|losses|mentions|models|numbers|occurrences|pairs|permutations|pieces|"
    "positions|processes|queries|relations|rows|samples|scores|sentences|sites|states|steps|tensors|"
    "texts|threads|times|tokens|types|units|updates|windows|words"
)
COUNTED = re.compile(rf" (?:(?!with|links)[a-z/-]+ )?(?:{NOUNS})\b")
MAY_COUNT = re.compile(rf"}}[\s\"'f]*(?:[a-z/-]+[\s\"'f]+)?(?:{NOUNS})\b")
"""Also over the end of a line; a faster look at a file before it is parsed."""
OTHERS = {
    "len(COLUMNS)": "a constant",
    "len(WORDS)": "a constant",
    "abs(int(offset))": "offsets of one token have names",
    "each": "numbers by layer",
    "few": "a word",
    "keeps": "a verb",
    "arcs": "a word",
    "link.name": "a name",
    "each.name": "a name",
    "self.pieces": "of a vocabulary",
    "number": "at least two",
    "keep": "of a budget, by site or in all",
    "limit": "of a model, which reads more than one token",
    "len(start) + 2": "at least two",
    "loaded.max_length": "of a model",
    "loaded.model.config.num_labels": "at least two",
    "loaded.name": "a name",
    "self.max_length": "of a model",
    "work.limit": "of a model",
    "num_heads": "query heads that share others",
    "record.window": "of a model",
    "first.head": "a name",
    "same": "one has a sentence of its own",
    "total": "one has a sentence of its own",
    "len(best)": "more than one",
    "len(layers)": "layers that share a module",
    "shape[1]": "for programmers",
    "much": "a share",
    "queries": "a share",
    "least": "more than one",
    "longest": "at least a hundred",
    "loaded.max_length - _CUE_ROOM": "of a model",
    "there": "the number of tokens of a corpus",
    "table.min_cases": "more than one",
} | dict.fromkeys(("folder", "kind", "name", "out", "role", "side", "state"), "a name")
"""What may stand before a plural, and why."""


def _counts(text: str) -> list[str]:
    """The values that stand before a plural in f-strings, unless as a share or by `amount`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        values = node.values if isinstance(node, ast.JoinedStr) else []
        for value, after in zip(values, values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            form = ast.unparse(value.format_spec) if value.format_spec else ""
            source = ast.unparse(value.value)
            is_worded = re.match(r"numbers\.|percent\(|amount\(|str\(", source)
            is_number = form in ("", "f','") and not is_worded
            if is_number and COUNTED.match(str(after.value)):
                found.append(source)
    return found


def test_counts_are_worded_in_one_place() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {source}"
        for path in PACKAGE.rglob("*.py")
        if MAY_COUNT.search(text := path.read_text(encoding="utf-8"))
        for source in _counts(text)
        if source not in OTHERS and not source.startswith("type(")
        if not source.isupper()  # a constant
    }
    assert not found, "Word them by `headcount.core.amount`, or say in OTHERS why not."


def test_a_plural_is_found() -> None:
    assert _counts('f"got {len(words)} words, {n:,} query heads of {share:.0%} tokens"') == [
        "len(words)",
        "n",
    ]


def test_shares_are_worded_in_one_place() -> None:
    """With a space in front of the sign, so not by Python's format."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r":[+.,\d]*%\}", path.read_text(encoding="utf-8"))
    }
    assert not found, "Word them by `headcount.numbers.percent`."


def test_nouns() -> None:
    assert amount(1, "class") == "1 class" and amount(2, "class") == "2 classes"
    assert amount(1, "query") == "1 query" and amount(0, "query") == "0 queries"
    assert amount(2, "key") == "2 keys" and amount(1, "loss") == "1 loss"
