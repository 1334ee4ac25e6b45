"""A dataclass is read from what was written of it, in the layout that its fields declare."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headcount.core import InputError, JsonObject, OwnJson, encoded, omitted, stored


@dataclass(frozen=True)
class Choice:
    method: str
    keep: int


@dataclass(frozen=True)
class Span(OwnJson):
    first: int
    last: int

    def to_json(self) -> dict[str, int]:
        return {"first": self.first, "length": self.last - self.first}

    @classmethod
    def from_json(cls, found: JsonObject) -> "Span":
        first = found.field("first", int)
        return cls(first, first + found.field("length", int))


@dataclass(frozen=True, kw_only=True)
class Both:
    gone: tuple[str, ...] = stored("leaving")
    choice: Choice | None = stored(flat=("method",), default=None)
    spans: Mapping[str, Span] = stored(flat=("dev", "test"), default_factory=dict)
    mended: int | None = stored("repaired", default=None)
    weights: bytes = b""
    plain: float = 0.0
    last: str = omitted("")


@dataclass(frozen=True, kw_only=True)
class Settings:
    taught: bool
    others: Mapping[str, Any] = stored(flat=())
    span: Span = stored(flat=())


FULL = Both(
    gone=("a",),
    choice=Choice("fisher", 3),
    spans={"dev": Span(2, 5)},
    mended=1,
    weights=b"\x00\xff",
    plain=0.5,
    last="x",
)


def read(kind: type, values: Any) -> Any:
    return JsonObject(json.loads(json.dumps(values)), "FILE", "Do it again.").decode(kind)


def test_the_layout_is_what_the_fields_declare() -> None:
    assert encoded(FULL) == {
        "leaving": ["a"],
        "method": "fisher",
        "keep": 3,
        "dev": {"first": 2, "length": 3},
        "repaired": 1,
        "weights": "AP8=",
        "plain": 0.5,
        "last": "x",
    }
    assert encoded(Both(gone=())) == {"leaving": [], "weights": "", "plain": 0.0}


@pytest.mark.parametrize("one", [FULL, Both(gone=())])
def test_what_is_written_is_read(one: Both) -> None:
    assert read(Both, encoded(one)) == one


def test_a_mapping_without_names_has_the_rest() -> None:
    found = read(Settings, {"first": 1, "length": 2, "taught": True, "updates": 3})
    assert found.span == Span(1, 3) and found.taught
    assert found.others == {"first": 1, "length": 2, "updates": 3}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"leaving": None}, "Expected leaving in FILE to be a list, got null. Do it again."),
        ({"keep": "x"}, "Expected keep in FILE to be a whole number, got .x.."),
        ({"dev": {"first": 2}}, "Expected dev.length in FILE, got none"),
        ({"test": []}, "Expected test in FILE to be an object"),
        ({"weights": "AP8"}, "Expected weights in FILE to be a text in Base64, got .AP8."),
        ({"weights": "AP!8="}, "Expected weights in FILE to be a text in Base64, got .AP!8=."),
        ({"weights": 3}, "Expected weights in FILE to be a text in Base64, got 3"),
    ],
)
def test_damage_is_named_where_it_lies(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(Both, encoded(FULL) | changed)
