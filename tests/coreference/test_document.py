"""The document on antecedents: what it says of given numbers."""

from dataclasses import replace

from headcount.coreference import (
    ChosenHead,
    Coreference,
    CoreferenceRecord,
    CoreferenceRow,
    NameRow,
)
from tests.pages.said import squeezed, told


def coreference(accuracy: float, single: int = 0) -> Coreference:
    numbers = {"accuracy": accuracy, "low": accuracy - 0.04, "high": accuracy + 0.04}
    rules = {"nearest": 0.3, "head_match": 0.6, "rules": 0.7}
    facts = {"documents": 5, "windows": 5, "window": 512, "mentions": 90, "cases": 50}
    best = ChosenHead(kind="all", head="enc.2.1", chosen_on=0.9, cases=25, **numbers, **rules)
    record = CoreferenceRecord(
        signature="sig",
        model="bert",
        corpora=(),
        out_of_reach=0,
        single=single,
        too_long=0,
        best=(best,),
        **facts,  # pyright: ignore
    )
    rows = tuple(
        CoreferenceRow(
            head=f"enc.2.{index}",
            kind="all",
            cases=50,
            **rules,
            **numbers | {"accuracy": accuracy - index / 10},
        )
        for index in range(3)
    )
    return Coreference(record, rows)


def test_coreference_in_words() -> None:
    text = squeezed(told(coreference(0.65)))
    assert "bert: 50 mentions of 5 documents with an antecedent in a window of at most 512" in text
    assert (
        "enc.2.1 points at an antecedent of 65.0 % of the mentions (61.0 to 69.0), above the "
        "nearest mention and head match and below rules."
    ) in text
    near = told(coreference(0.62))
    assert "above the nearest mention and below rules." in near, "head match is in the interval"
    assert "| enc.2.1 | all | 0.650 | 0.610 to 0.690 | 25 | 0.300 | 0.600 | 0.700 |" in text
    assert text.index("| enc.2.0 | all | 0.650") < text.index("| enc.2.2 | all | 0.450")
    assert "above the nearest mention, head match and rules." in told(coreference(0.9))
    assert "GAP" not in text
    names = NameRow(
        head="enc.4.1",
        gender="feminine",
        f1=0.6,
        low=0.5,
        high=0.7,
        accuracy=0.65,
        passages=1200,
        nearest=0.4,
    )
    found = coreference(0.65)
    asked = replace(found, record=replace(found.record, best_names=(names,)))
    assert ("| enc.4.1 | feminine | 0.600 | 0.500 to 0.700 | 0.650 | 1,200 | 0.400 |") in squeezed(
        told(asked)
    )
    assert "so every choice is right" in told(coreference(1.0, single=50))
