"""Asking: what a browser may send, checked before a model sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headcount.core import Heads, InputError, parse_json

MAX_BODY = 64 * 1024
"""Largest number of bytes of a request."""
MAX_GATE = 2.0
"""Largest gate: a head at twice its strength."""


@final
@dataclass(frozen=True)
class Question:
    """A text, and the gates under which the model reads it."""

    text: str
    second: str | None = None
    gates: Mapping[str, float] = field(default_factory=dict)
    """Gates other than 1, by head name."""
    target: str | None = None
    """The predicted token, label or translation whose heads are asked for."""
    against: str | None = None
    """Its rival."""


def parse_question(body: bytes, heads: Heads) -> Question:
    """The question in the body of a request.

    Raises:
        InputError: for anything but texts and gates between 0 and 2 of heads of the model.
    """
    try:
        found = parse_json(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError("Expected a request in JSON, got something else.") from error
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise InputError('Expected a request such as {"text": "The dog barked."}, got another.')
    second, target, against = (found.get(name) for name in ("second", "target", "against"))
    for what, text in (("second sentence", second), ("target", target), ("rival", against)):
        if not isinstance(text, str | None):
            raise InputError(f"Expected a text as the {what}, got {_short(text)}.")
    for text in (found["text"], second or "", target or "", against or ""):
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise InputError("Expected whole characters, got half of a surrogate pair. Remove it.")
    gates = found.get("gates", {})
    if not isinstance(gates, dict):
        raise InputError(f"Expected gates by head name, got {_short(gates)}.")
    given = dict(_gate(name, gate, heads) for name, gate in gates.items())
    changed = {name: gate for name, gate in given.items() if gate != 1}
    second = second if second and second.strip() else None
    return Question(found["text"], second, changed, target, against)


def _gate(name: str, gate: Any, heads: Heads) -> tuple[str, float]:
    if (head := heads.named(name)) not in heads:
        raise InputError(f"Expected a head of this model ({heads}), got {name}.")
    is_number = isinstance(gate, int | float) and not isinstance(gate, bool)
    if not is_number or not 0 <= gate <= MAX_GATE:  # NaN is not, nor any number of 400 digits
        raise InputError(
            f"Expected a number between 0 and {MAX_GATE:g} as the gate of {name}, got "
            f"{_short(gate)}."
        )
    return str(head), float(gate)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
