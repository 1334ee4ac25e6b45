"""The tables of documents by what they hold."""

from headcount.core import Document, Heading, Table


def tables_of(shown: Document | None) -> dict[str, Table]:
    """The tables of a document by their labels, or by what stands above them."""
    found, above = dict[str, Table](), "" if shown is None else shown.title
    for block in () if shown is None else shown.blocks:
        if isinstance(block, Heading):
            above = block.text
        elif isinstance(block, Table):
            found[block.label or above] = block
    return found
