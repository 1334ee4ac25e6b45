"""Wording: numbers of things in sentences; imports nothing, since every command prints some."""


def amount(number: int, noun: str) -> str:
    """A number of things.

    >>> amount(1, "sentence"), amount(2000, "sentence"), amount(0, "batch"), amount(3, "query")
    ('1 sentence', '2,000 sentences', '0 batches', '3 queries')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


MOST = 1500
"""Largest number of characters of a message: some name every head, or repeat what was given."""


def shortened(message: str, most: int = MOST) -> str:
    """A message without its middle if it is longer than `most`; its end says what to do.

    >>> shortened("Expected a name, got " + 40 * "x" + ". Give another.", 50)
    'Expected a name, got xxxxxxxx ... x. Give another.'
    """
    if len(message) <= most:
        return message
    end = most // 3
    return f"{message[: most - end - 5]} ... {message[-end:]}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
