"""Signature: one string that says what a number was measured with, as in sacreBLEU."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.core import InputError

START = "start"
"""Part that says that every piece of a text begins as the tokenizer begins a text."""


@final
@dataclass(frozen=True)
class Part:
    """A part of signatures that numbers must share, or else they are not compared."""

    words: str
    """What the part says."""
    advice: str
    """How to measure again with another value."""
    absent: str | None = None
    """Value of a signature without the part; None if it is unknown there."""
    is_stated: bool = False
    """Whether every signature of this version has the part, so that only older ones lack it."""
    is_version: bool = False
    """Whether only another major version is refused, and any other version is warned of."""


_AGAIN = "Measure the older one again."
_WITH = "Measure one of them again with"
MODEL: dict[str, Part] = {
    "kernel": Part(
        "kernel of attention", "Load the model with the same attn_implementation.", is_stated=True
    ),
    "dtype": Part("number format", f"{_WITH} the other's --dtype.", is_stated=True),
    "headcount": Part("major version of headcount", _AGAIN, is_stated=True, is_version=True),
    "torch": Part("major version of torch", _AGAIN, is_stated=True, is_version=True),
    "transformers": Part("major version of transformers", _AGAIN, is_stated=True, is_version=True),
}
"""Parts that say how a model is computed."""
SAME_MODEL: dict[str, Part] = {
    **MODEL,
    "revision": Part("parameters of the model", "Name results of one model.", is_stated=True),
    "tokenizer": Part("tokenizer", "Name results of one model."),
    "processor": Part("image processor", "Name results of one model."),
}
"""Those parts, and the ones that say which model it is."""
READING: dict[str, Part] = {
    START: Part(
        "first token of pieces", f"{_WITH} or without --no-start.", absent="that of the text only"
    ),
    "first": Part("convention of first tokens", _AGAIN),
    "treebank": Part("reading of treebanks", f"{_WITH} or without --as-words."),
    "pairs": Part("reading of second sentences", f"{_WITH} or without --pairs.", absent="False"),
    "windows": Part("reading of long texts", f"{_WITH} or without --windows.", absent="False"),
    "units": Part("unit of tests", "Give corpora of many texts, or of few.", absent="texts"),
    "special": Part(
        "special tokens in confidence",
        f"{_WITH} the other's --exclude-keys and --exclude-queries.",
        absent="none",
    ),
}
"""Parts that say how texts are read."""


@final
@dataclass(frozen=True)
class Signature:
    """Names and values, in order: `headcount:0.1.0|model:bert|revision:...|corpus:...|...`.

    >>> signature = Signature.parse("headcount:0.1.0|model:bert|revision:86741b4e3f53|corpus:5f2c")
    >>> signature.revision, signature.get("seed")
    ('86741b4e3f53', None)
    >>> str(signature)
    'headcount:0.1.0|model:bert|revision:86741b4e3f53|corpus:5f2c'
    """

    parts: Mapping[str, str]
    """Value of each part by its name."""

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in self.parts.items())

    @classmethod
    def of(cls, **parts: object) -> "Signature":
        """The signature of some parts; those that are None are left out."""
        return cls({name: str(value) for name, value in parts.items() if value is not None})

    @classmethod
    def parse(cls, text: str) -> "Signature":
        """The signature that a string spells.

        A part without a name continues the one before it: a metric's own signature has bars, too.

        Raises:
            InputError: for text that does not start with a name and a value.
        """
        parts: dict[str, str] = {}
        for part in text.split("|"):
            name, colon, value = part.partition(":")
            if colon:
                parts[name] = value
            elif parts:
                last = next(reversed(parts))
                parts[last] = f"{parts[last]}|{part}"
            else:
                raise InputError(
                    f"Expected a signature such as headcount:0.1.0|model:bert|..., got {text!r}. "
                    "Run the command again that wrote it."
                )
        return cls(parts)

    @property
    def revision(self) -> str | None:
        """Revision of the model that was measured."""
        return self.get("revision")

    def check_same(
        self,
        other: "Signature",
        parts: Mapping[str, Part],
        names: Sequence[str] = ("the first", "the second"),
    ) -> tuple[str, ...]:
        """Check that numbers were measured alike; gives a warning for each part left open.

        Args:
            other: the signature of the other numbers.
            parts: the parts that must be the same, by name.
            names: what has the one and the other signature, in words.

        Raises:
            InputError: if a part differs; names it.
        """
        return tuple(
            sentence
            for name, part in parts.items()
            for sentence in _compared(name, part, self.get(name), other.get(name), names)
        )

    def get(self, name: str) -> str | None:
        """The value of a part; None if there is no such part."""
        return self.parts.get(name)


def _compared(
    name: str, part: Part, one: str | None, other: str | None, names: Sequence[str]
) -> Iterator[str]:
    """The warning about one part, if there is something to warn of."""
    given = [part.absent if each is None else each for each in (one, other)]
    stated = [f"{value} in {where}" for value, where in zip(given, names, strict=True) if value]
    if len(stated) < len(given):
        if part.is_stated:
            known = f", {stated[0]}" if stated else ""
            yield f"the {part.words} ({name}{known}) is not stated by results of earlier versions"
        return
    if given[0] == given[1]:
        return
    majors = [each.partition(".")[0] for each in given if each]
    if part.is_version and majors[0] == majors[1]:
        yield f"the version of {name} is {' and '.join(stated)}, so numbers can differ slightly"
        return
    raise InputError(
        f"Expected the same {part.words} ({name}) in both, got {' and '.join(stated)}. "
        f"{part.advice}"
    )
