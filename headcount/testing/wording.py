"""Words that outsiders write: that they are there, and read well where they are shown."""

import re
from dataclasses import fields, is_dataclass
from inspect import get_annotations

from headcount.core import Document, Text, Warned, capability_registry, imported
from headcount.testing.checks import expect

_FAULTS = (
    (r"\S  +\S", "two blanks"),
    (r"\s[.,;:](?:\s|$)", "a blank before a mark"),
    (r"(?<!\.)\.\.(?!\.)|,,|,\.", "two marks in a row"),
    (r"\bNone\b|\bnan\b", "a missing value"),
    (r"[{}]", "a brace"),
    (r"(?<![\d.,])1 (?:heads|prompts|examples)\b", "a plural of one"),
    (r"\b(?:0|[2-9]|\d\d+) (?:head|prompt|example)\b(?!-)", "a singular of several"),
)


def expect_words(where: str, words: str, is_sentence: bool = False) -> None:
    """Fail unless words are there, and are a sentence, or can be the end of one.

    Raises:
        Failed: If they do not read well.
    """
    expect(words.strip(), f"{where} is empty")
    expect(words == words.strip(), f"{where} begins or ends with a blank: {words!r}")
    if is_sentence:
        expect(words[0].isupper() and words[-1] in ".?!", f"{where} is no sentence: {words!r}")
    else:
        expect(words[-1] not in ".!,;:", f"{where} ends in a mark inside a sentence: {words!r}")
    expect_readable(where, words)


def expect_options(kind: type) -> None:
    """Fail unless the options of a class are fields of a frozen dataclass.

    Raises:
        Failed: If they are not; names one that is none.
    """
    advice = f"write @dataclass(frozen=True) above {kind.__name__}"
    expect(is_dataclass(kind), f"{kind.__name__} is no dataclass: {advice}")
    hints = {each: str(hint) for each, hint in get_annotations(kind).items()}
    known = {each.name for each in fields(kind)}
    lost = [each for each, hint in hints.items() if each not in known and "ClassVar" not in hint]
    expect(not lost, f"{', '.join(lost)} of {kind.__name__} is no option: {advice}")
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{kind.__name__} is not frozen: {advice}")


def expect_readable(where: str, text: str) -> None:
    """Fail if a text has what no text should.

    Raises:
        Failed: If it does; quotes the place.
    """
    text = re.sub(r"(?<!\w)'[^']*'(?!\w)", "'text'", text)  # what models and users wrote
    for pattern, fault in _FAULTS:
        if found := re.search(pattern, text):
            begin, end = max(found.start() - 30, 0), found.end() + 30
            expect(False, f"{where} has {fault}: ...{text[begin:end]}...")


def shown(command: str, result: object, section: str = "") -> Document:
    """The document of a command's result, or of a section of its page.

    Raises:
        Failed: If it does not read well.
    """
    its = capability_registry()[command]
    places = {each.key: each.document for each in its.sections}
    document: Document = imported(places[section] if section else its.document)(result)
    expect_document(f"the document of {command}", document)
    return document


def expect_document(where: str, document: Document) -> None:
    """Fail if a paragraph of a document does not read well.

    Raises:
        Failed: If one does not; quotes the place.
    """
    for block in document.blocks:
        if isinstance(block, Text | Warned):
            expect_readable(where, block.text)
