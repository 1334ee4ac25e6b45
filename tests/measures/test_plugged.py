"""Measures of one's own: by themselves or by name, with words that the record keeps."""

from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import final

import pytest
from jaxtyping import Float, Int
from torch import Tensor

import headcount
from headcount import numbers
from headcount.measures import REGISTRY, Attention, Rare, Sums
from headcount.measures.sums import over_queries
from headcount.models import Loaded
from headcount.pages import write_report
from headcount.results import Analysis
from headcount.tap import Reduction
from headcount.vocabulary import ColumnEntry
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"


@final
@dataclass(frozen=True)
class Last(Sums):
    """Mean weight on the last token."""

    name = "last"
    columns = (
        ColumnEntry(
            "attn_last",
            "weight on the last token",
            "Mean weight on",
            "mean weight on the last token of the text",
            numbers.percent,
            "somebody's paper, section 7",
        ),
        "last_plain",
    )
    needs = frozenset({Reduction.COLUMN})

    weight: Float[Tensor, " head"]
    queries: Int[Tensor, ""]

    @classmethod
    def of(cls, attention: Attention) -> "Last":
        place_BN = attention.keys.is_token_BN.cumsum(1)
        is_last_BK = attention.keys.is_token_BN & (place_BN == place_BN[:, -1:])
        weight = over_queries(attention.column_BHK, is_last_BK)
        return cls(weight, attention.queries.is_token_BN.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        return dict.fromkeys(self.names(), self.weight / self.queries)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.mark.slow
def test_its_columns_are_shown_with_their_words_without_it(loaded: Loaded, tmp_path: Path) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=20)
    headcount.analyze(loaded, corpus, measures=[Last]).write(tmp_path)
    read = Analysis.read(tmp_path)
    assert {*read.record.columns} == {"attn_last", "last_plain"}
    assert read.record.column_entries["attn_last"] == Last.columns[0]
    assert read.measures[-2:] == Last.names()
    page = unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "weight on the last token" in page and "mean weight on the last token of the" in page
    alone = headcount.measure(loaded, corpus, [Last]).frame
    assert alone["attn_last"].to_numpy() == pytest.approx(read.heads.frame["attn_last"], rel=1e-6)


def test_it_is_asked_for_by_name_once_it_is_registered(loaded: Loaded) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=5)
    with pytest.raises(headcount.InputError, match="Expected a measure .*got 'last'"):
        headcount.measure(loaded, corpus, ["last"])
    REGISTRY.add(Last)
    try:
        frame = headcount.measure(loaded, corpus, ["last", "confidence"]).frame
        assert [*frame.columns][4:] == [*Last.names(), "confidence"]
    finally:
        REGISTRY.remove("last")


@pytest.mark.slow
def test_names_that_another_measure_has_are_refused(loaded: Loaded) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=5)
    taken = _renamed()
    with pytest.raises(headcount.InputError, match="of their own, got rare_share in tests.* which"):
        headcount.analyze(loaded, corpus, measures=[taken])
    plain = headcount.analyze(loaded, corpus, measures=[Rare])
    assert not plain.record.columns and plain.measures == headcount.analyze(loaded, corpus).measures


def _renamed() -> type[Sums]:
    @final
    @dataclass(frozen=True)
    class Renamed(Sums):
        columns = ("rare_share",)
        queries: Int[Tensor, ""]

        @classmethod
        def of(cls, attention: Attention) -> "Sums":
            return cls(attention.queries.is_token_BN.sum())

    return Renamed
