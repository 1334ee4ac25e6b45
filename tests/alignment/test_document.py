"""The document on an alignment: what it says of given numbers."""

from typing import Any

from headcount.alignment import Alignment, AlignmentRecord, AlignmentRow
from tests.pages.said import squeezed, told


def test_alignment_in_words() -> None:
    def row(head: str, aer: float, quantity: str = "weights", level: str = "head") -> AlignmentRow:
        return AlignmentRow(
            head=head,
            level=level,
            quantity=quantity,
            direction="input",
            aer=aer,
            aer_low=aer - 0.01,
            aer_high=aer + 0.01,
            precision=0.5,
            recall=0.6,
        )

    rows = (
        row("cross.0.1", 0.4),
        row("cross.0.0", 0.25),
        row("cross.0.2", 0.22, "norms"),
        row("cross.0", 0.3, level="layer"),
    )
    record = AlignmentRecord(
        signature="sig",
        model="marian",
        corpora=(),
        gold="gold.txt",
        pairs=20,
        sure=30,
        possible=40,
        cases=35,
    )
    text = squeezed(told(Alignment(record, rows)))
    assert "20 pairs with 30 sure and 40 possible links (gold.txt)" in text
    assert "By its weights cross.0.0 links words best (input): its error rate is 0.250 (0.240 to "
    assert "the next is cross.0.1 with 0.400." in text
    places = [text.index(f"| {head} ") for head in ("cross.0.2", "cross.0.0", "cross.0.1")]
    assert places == sorted(places), "the lowest error first, of weights and norms together"
    assert "| cross.0 | weights | input | 0.300 | 0.290 to 0.310 |" in text


def alignment() -> Alignment:
    def row(head: str, level: str, aer: float) -> AlignmentRow:
        numbers = {"aer_low": aer - 0.01, "aer_high": aer + 0.01, "precision": 0.5, "recall": 0.6}
        return AlignmentRow(
            head=head, level=level, quantity="weights", direction="input", aer=aer, **numbers
        )

    rows = (row("enc.0.1", "head", 0.4), row("enc.0.0", "head", 0.25), row("enc.0", "layer", 0.3))
    facts: dict[str, Any] = {"pairs": 1234, "sure": 30, "possible": 40, "cases": 35}
    rows += (row("IBM 1", "aligner", 0.35),)
    record = AlignmentRecord(signature="s", model="m", corpora=(), gold="g", **facts)
    return Alignment(record, rows)
