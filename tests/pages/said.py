"""What a document says, as text."""

from typing import Any

from headcount.pages import document_of
from headcount.results import Result


def told(found: Result[Any]) -> str:
    """The document as Markdown."""
    return document_of(found).markdown()


def squeezed(text: str) -> str:
    """The text with single spaces, since columns of tables are padded."""
    return " ".join(text.split())
