"""Texts of results in a console."""

from dataclasses import make_dataclass

from headcount.core import brief_repr


def test_a_long_text_is_cut_at_three_lines() -> None:
    many = make_dataclass("Many", [f"field_{number:02}" for number in range(20)])
    text = brief_repr(many(*range(20)))
    assert len(text) == 240 and text.endswith(" ...)")
    few = make_dataclass("Few", ["text", "number", ("left", int, 3)])
    assert brief_repr(few("a  b", 2)) == "Few(text='a  b', number=2)".replace("a  b", "a b")
