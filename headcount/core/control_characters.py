"""Control characters of names, paths and texts: they are shown as signs, never obeyed.

A terminal obeys escape sequences, and a browser or editor turns the direction of writing. File
names, words of texts and arguments can hold such characters.
"""

import re

HIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except lines and tabs, those that turn the direction of writing, and bytes of
a name that are no UTF-8, which Python holds as surrogates."""


def visible(text: str) -> str:
    r"""The text with a sign in place of each control character; lines and tabs stay.

    >>> visible("a\x1b[2J\x07\n\u202e"), visible("naïve 日本")
    ('a␛[2J␇\n�', 'naïve 日本')
    """
    return HIDDEN.sub(lambda found: _sign(found[0]), text)


def _sign(character: str) -> str:
    number = ord(character)
    return "\u2421" if number == 0x7F else chr(0x2400 + number) if number < 32 else "\ufffd"
