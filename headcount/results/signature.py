"""Signature: one string that says what a number was measured with, as in sacreBLEU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.core import InputError

START = "start"
"""Part that says that every piece of a text begins as the tokenizer begins a text."""


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

    def check_same_start(self, other: "Signature") -> None:
        """Check that pieces of texts begin alike in both, so that their losses can be compared.

        Raises:
            InputError: if the first token of a text begins every piece in one of them only.
        """
        if self.get(START) != other.get(START):
            begins = "each with the first token that the tokenizer adds"
            said = [begins if each.get(START) else "without it" for each in (self, other)]
            raise InputError(
                "Expected losses of texts that were cut in the same way, got pieces that begin "
                f"{said[0]}, and pieces that begin {said[1]}. Measure one of them again "
                "(--no-start leaves the token out)."
            )

    def get(self, name: str) -> str | None:
        """The value of a part; None if there is no such part."""
        return self.parts.get(name)
