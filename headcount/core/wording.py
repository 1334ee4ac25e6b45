"""Wording: numbers of things in sentences; imports nothing, since every command prints some.

Control characters of names, paths and texts: they are shown as signs, never obeyed.

A terminal obeys escape sequences, and a browser or editor turns the direction of writing. File
names, words of texts and arguments can hold such characters.
"""

import re

HIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except lines and tabs, those that turn the direction of writing, and bytes of
a name that are no UTF-8, which Python holds as surrogates."""


_HALF = re.compile("[\ud800-\udfff]")


def is_unicode(text: str) -> bool:
    r"""Whether text has whole characters only, as tokenizers and files need.

    JSON can spell half of a surrogate pair, and Python keeps so a byte that is no UTF-8.

    >>> is_unicode("naïve 日本"), is_unicode("\ud83d")
    (True, False)
    """
    return _HALF.search(text) is None


def visible(text: str) -> str:
    r"""The text with a sign in place of each control character; lines and tabs stay.

    >>> visible("a\x1b[2J\x07\n\u202e"), visible("naïve 日本")
    ('a␛[2J␇\n�', 'naïve 日本')
    """
    return HIDDEN.sub(lambda found: _sign(found[0]), text)


def _sign(character: str) -> str:
    number = ord(character)
    return "\u2421" if number == 0x7F else chr(0x2400 + number) if number < 32 else "\ufffd"


def with_article(noun: str) -> str:
    """A noun behind its article.

    >>> with_article("image"), with_article("text")
    ('an image', 'a text')
    """
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def amount(number: int, noun: str) -> str:
    """A number of things.

    >>> amount(1, "sentence"), amount(2000, "sentence"), amount(0, "batch"), amount(3, "query")
    ('1 sentence', '2,000 sentences', '0 batches', '3 queries')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def capital(text: str) -> str:
    """The text with its first letter as a capital.

    >>> capital("one of BERT's heads")
    "One of BERT's heads"
    """
    return text[:1].upper() + text[1:]


_MATHS = {"−": "-", "×": r"\times", "‖": r"\|", "≥": r"\geq", "≤": r"\leq", "|": "|", "∑": r"\sum"}
_OTHER = {
    "\u202f": r"\,",
    "\xa0": "~",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_LATEX = str.maketrans(
    {each: rf"\{each}" for each in "%&_#${}"}
    | {each: f"${sign}$" for each, sign in _MATHS.items()}
    | _OTHER
)


def latex(text: str) -> str:
    r"""The text as LaTeX writes it.

    >>> latex("80 % of v_1, −0.3")
    '80 \\% of v\\_1, $-$0.3'
    """
    return text.translate(_LATEX)


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
