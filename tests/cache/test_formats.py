"""Files of others: patterns of DuoAttention and kvpress, scores of Wu's and HeadKV's."""

from pathlib import Path

import pytest

from headcount.cache import CachePlan, read_pattern, read_scores, write_pattern, write_scores
from headcount.core import Head, InputError

PLAN = CachePlan(((True, False, True), (False, False, False)), sink=3, recent=7)


def pattern(folder: Path, table: str, sizes: str = '{"sink_size": 64, "recent_size": 256}') -> Path:
    (folder / "full_attention_heads.tsv").write_text(table)
    (folder / "config.json").write_text(sizes)
    return folder


def test_a_plan_is_written_and_read_as_a_pattern(tmp_path: Path) -> None:
    write_pattern(PLAN, tmp_path / "pattern")
    table = (tmp_path / "pattern" / "full_attention_heads.tsv").read_text()
    assert table == "1.0\t0.0\t1.0\n0.0\t0.0\t0.0\n"
    assert read_pattern(tmp_path / "pattern") == PLAN
    assert read_pattern(tmp_path / "pattern", stream=4 / 6) == PLAN


@pytest.mark.parametrize(
    ("stream", "full"),
    [
        (None, ((True, False), (False, True))),
        (0.25, ((True, False), (True, True))),
        (0.5, ((True, False), (False, True))),
        (0.75, ((False, False), (False, True))),
        (1.0, ((False, False), (False, False))),
    ],
)
def test_a_learned_pattern_is_cut(
    tmp_path: Path, stream: float | None, full: tuple[tuple[bool, ...], ...]
) -> None:
    """As DuoAttention writes it, with numbers between 0 and 1."""
    folder = pattern(tmp_path, "5.0e-01\t1.2e-02\n0.25\t0.998\n")
    assert read_pattern(folder, stream) == CachePlan(full, sink=64, recent=256)


@pytest.mark.parametrize(
    ("table", "sizes", "message"),
    [
        ("0.5\t1\n1\n", None, "rows of different lengths"),
        ("", None, "no row"),
        ("0.5\tx\n", None, "could not convert string to float: 'x'"),
        ("0.5\t1.5\n", None, "a number outside 0 to 1"),
        ("0.5\tnan\n", None, "a number outside 0 to 1"),
        ("0.5\n", "{}", "Expected sink_size in .*config.json, got none"),
        ("0.5\n", '{"sink_size": 0, "recent_size": 9}', "Expected `sink` .* got 0"),
    ],
)
def test_what_is_no_pattern_is_refused(
    tmp_path: Path, table: str, sizes: str | None, message: str
) -> None:
    folder = pattern(tmp_path, table, *([] if sizes is None else [sizes]))
    with pytest.raises(InputError, match=message):
        read_pattern(folder)


def test_other_mistakes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a pattern, but .*config.json can't be read"):
        read_pattern(tmp_path)
    with pytest.raises(InputError, match=r"share of groups that stream from 0 to 1, got 50"):
        read_pattern(pattern(tmp_path, "1.0\n"), 50.0)
    with pytest.raises(InputError, match="as many groups in every layer, .* got 2/1"):
        write_pattern(CachePlan(((True, False), (True,))), tmp_path)


def test_scores_are_written_and_read(tmp_path: Path) -> None:
    scores = {Head("decoder.self", 18, 6): 0.92, Head("decoder.self", 0, 11): 0.0}
    write_scores(scores, tmp_path / "scores.json")
    assert read_scores(tmp_path / "scores.json") == scores
    (tmp_path / "wu.json").write_text('{"16-19": [0.5, 1.0, 0], "3-0": [1]}')
    assert read_scores(tmp_path / "wu.json") == {
        Head("decoder.self", 16, 19): 0.5,
        Head("decoder.self", 3, 0): 1.0,
    }


@pytest.mark.parametrize("text", ['{"16-19": []}', '{"16.19": [1]}', '{"1-2": [null]}'])
def test_what_are_no_scores_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "wu.json").write_text(text)
    with pytest.raises(InputError, match='Expected scores as {"layer-head"'):
        read_scores(tmp_path / "wu.json")
