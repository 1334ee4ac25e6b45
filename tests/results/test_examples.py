"""An example's weights and arcs fit its words, or its file is damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.core import InputError, encoded
from headcount.results import Example
from headcount.results.run import read_examples

ONE = Example("rare", "", ("a", "b"), ("a", "b", "c"), bytes(range(6)), ((0, 2), (1, 0)))


def read(folder: Path, **changed: Any) -> Example:
    (folder / "examples.json").write_text(json.dumps({"enc.0.0": [encoded(ONE) | changed]}))
    ((one,),) = read_examples(folder / "examples.json").values()
    return one


def test_weights_are_read_row_by_row(tmp_path: Path) -> None:
    assert read(tmp_path) == ONE
    np.testing.assert_array_equal(ONE.weights_QK, [[0, 1, 2], [3, 4, 5]])


def test_an_arc_has_two_ends(tmp_path: Path) -> None:
    place = (
        r"Expected enc\.0\.0\[0\]\.arcs\[0\] in .*examples\.json to be a list of 2, got \[0, 1, 2\]"
    )
    with pytest.raises(InputError, match=place):
        read(tmp_path, arcs=[[0, 1, 2]])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": "AAAA"}, "expected 2 x 3 weights, got 3"),
        ({"arcs": [[2, 0]]}, r"expected arcs inside 2 x 3 words, got \(2, 0\)"),
        ({"arcs": [[0, 3]]}, r"expected arcs inside 2 x 3 words, got \(0, 3\)"),
        ({"image": "data:image/png;base64,AA=="}, "expected 2 largest weights, got 0"),
    ],
)
def test_what_does_not_fit_the_words_is_damage(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"examples\.json is damaged: enc\.0\.0\[0\]: {message}"):
        read(tmp_path, **changed)
