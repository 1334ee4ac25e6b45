"""Numbers that papers published, copied from them a second time."""

from headcount.papers import MIXINGS
from headcount.papers.reproduce.clark2019 import BASELINES, HEAD_5_4, PROBES, RELATIONS
from headcount.papers.reproduce.coenen2019 import TITLES
from headcount.papers.reproduce.hewitt2019 import METRICS, RANKS
from headcount.papers.reproduce.kobayashi2020 import PUBLISHED
from headcount.papers.reproduce.michel2019 import (
    ONE_LEFT_BERT,
    ONE_LEFT_WMT,
    PEARSON,
    SIGNIFICANT_WMT,
)
from headcount.papers.reproduce.michel2019_pruning import FREE, SPEED
from headcount.papers.reproduce.voita2019 import SYNTACTIC
from headcount.papers.reproduce.voita2019_table2 import SUBTITLES, WMT


def test_michel2019() -> None:
    """Figure 1 a, tables 2 to 4, figure 2, section 4.2."""
    assert SIGNIFICANT_WMT == (96, 8, 4)
    layers = zip(*ONE_LEFT_WMT.values(), strict=True)
    assert ONE_LEFT_WMT.keys() == {"encoder.self", "decoder.cross", "decoder.self"}
    assert [*layers] == [
        (-1.31, 0.24, -0.03),
        (-0.16, 0.06, 0.12),
        (0.12, 0.05, 0.18),
        (-0.15, -0.24, 0.17),
        (0.02, -1.55, -0.04),
        (-0.36, -13.56, 0.24),
    ]
    assert ONE_LEFT_BERT[:6] == (-0.01, 0.1, -0.14, -0.53, -0.29, -0.52)
    assert ONE_LEFT_BERT[6:] == (0.05, -0.72, -0.96, 0.07, -0.19, -0.12)
    assert [*PEARSON.values()] == [0.56, 0.68]
    assert [*FREE.values()] == [0.2, 0.4, 0.6]
    assert SPEED == {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}


def test_voita2019() -> None:
    """Tables 1 and 2."""
    numbers = {arrow: (*wmt, *subtitles) for arrow, wmt, subtitles in SYNTACTIC.values()}
    assert numbers == {
        "v→s": (45, 35, 77, 45),
        "s→v": (52, 35, 70, 45),
        "v→o": (78, 41, 61, 46),
        "o→v": (73, 41, 84, 46),
        "n→a": (74, 72, 81, 80),
        "a→n": (82, 72, 81, 80),
        "v→a": (48, 46, 38, 33),
        "a→v": (52, 46, 42, 33),
    }
    assert [(sum(heads), trained, fresh) for heads, trained, fresh in (*WMT, *SUBTITLES)] == [
        (144, 29.6, None),
        (75, 29.62, 29.47),
        (58, 29.36, 28.95),
        (36, 29.06, 28.56),
        (26, 28.9, 28.41),
        (144, 32.4, None),
        (104, 32.24, 32.23),
        (61, 32.23, 31.98),
        (28, 32.27, 31.84),
    ]


def test_clark2019() -> None:
    """Tables 1 to 3."""
    assert {theirs: (head, offset) for theirs, head, offset in RELATIONS.values()} == {
        "all": (34.5, 26.3),
        "prep": (66.7, 61.8),
        "det": (94.3, 51.7),
        "nn": (70.4, 70.2),
        "nsubj": (58.5, 45.5),
        "amod": (75.6, 68.3),
        "dobj": (86.8, 40.0),
        "advmod": (48.8, 40.2),
        "aux": (81.1, 71.5),
        "poss": (80.5, 47.7),
        "ccomp": (48.8, 12.4),
        "mark": (50.7, 14.5),
        "prt": (99.1, 91.4),
    }
    assert HEAD_5_4 == {"all": "65", "pronoun": "64", "proper": "73", "nominal": "58"}
    assert BASELINES == {"all": ("27", "52", "69")}
    assert [number for _, number in PROBES.values()] == ["26", "–", "30", "58", "61", "77"]


def test_other_papers() -> None:
    assert [PUBLISHED[method] for method in MIXINGS] == [96.41, 85.28, 48.21, 22.25, 18.75]
    assert [*MIXINGS] == ["attn-w", "attn-n", "attnres-w", "attnres-n", "attnresln-n"]
    assert [number for _, number in METRICS.values()] == ["79.8", "85", "88.0", "87"]
    assert RANKS[1] == 27 and RANKS[64] == 80 and sorted(RANKS.values()) == [*RANKS.values()]
    assert [number for _, number in TITLES.values()] == ["85.8", "71.9"]
