"""Wording: numbers of things in sentences; imports nothing, since every command prints some."""


def amount(number: int, noun: str) -> str:
    """A number of things.

    >>> amount(1, "sentence"), amount(2000, "sentence"), amount(0, "batch")
    ('1 sentence', '2,000 sentences', '0 batches')
    """
    plural = "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{number:,} {noun}{plural if number != 1 else ''}"
