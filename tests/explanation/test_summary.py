"""The summary of an explanation: a screen of what its document holds, in its words."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from headcount.commands.console import print_document
from headcount.explanation import EffectRow, Explained, LayersRow, WrittenRow, explanation_summary
from headcount.pages import document_of
from tests.explanation.test_document import made_circuits, made_explained

HEADS = [f"dec.{n // 9}.{n % 9}" for n in range(270)]
LINES = 45
"""Largest number of lines of 100 characters."""


@pytest.fixture
def found() -> Explained:
    return made_explained(HEADS)


def printed(found: Explained, width: int = 100) -> list[str]:
    """The lines that a terminal shows; long ones are broken, as a terminal does."""
    text = StringIO()
    print_document(explanation_summary(found), Console(file=text, width=width))
    lines = text.getvalue().splitlines()
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


@pytest.mark.parametrize("prompts", [1, 16])
def test_all_of_it_fits_a_screen(found: Explained, prompts: int) -> None:
    """Also with every effect, tokens, layers and a circuit."""
    written = [WrittenRow(head, "token" * 3, sign) for head in HEADS for sign in (1.0, -1.0) * 5]
    several = {"written": tuple(written)} if prompts == 1 else made_circuits()
    every = replace(found, prompts=found.prompts[:1] * prompts, **several)
    more = ("mean", "restored", "knockout")
    values = [
        EffectRow(head, each, *[float(place)] * 5)
        for each in more
        for place, head in enumerate(HEADS)
    ]
    every = replace(every, effects=(*every.effects, *values))
    assert len(printed(every)) <= LINES - 5  # page, document and what to do next


def test_it_says_what_the_document_does(found: Explained) -> None:
    said = " ".join(" ".join(printed(found, 10_000)).split())
    whole = " ".join(document_of(found).markdown().replace("|", " ").split())
    lede = "decoder prefers the targets of 16 prompts to their rivals by 4.75 (4.00 to 5.50) nats."
    assert said.startswith(lede) and lede in whole
    assert "dec.0.0 (+2.50), dec.0.1 (+1.25), dec.0.2 (+0.83) raise it most" in said
    assert "dec.0.0 2.50 (2.00 to 3.00) 3.75 5.00 dec.0.1" in said
    assert "The best heads of each half of the prompts were chosen on the other half." in said
    assert "zeroed attribution 3 1.50 (1.25 to 1.75) 9.00" in said
    assert "prefers the target to its rival in 16 of 16 prompts; without the best 3" in said
    assert "0.50 (0.00 to 1.00) 0.38 to 0.62 3.25 7 (16)" in said
    assert "zeroed zeroed 1" not in said and "zeroed zeroed 1" in whole, "of a screen, one size"
    assert found.record.signature in said


def test_a_head_that_raises_most_by_another_effect_is_named(found: Explained) -> None:
    (largest,) = {row for row in found.of("corrupt").values() if row.part == HEADS[99]}
    others = tuple(row for row in found.effects if row != largest)
    changed = replace(found, effects=(*others, replace(largest, value=99.0)))
    assert sum(line.startswith("dec.11.0 ") for line in printed(changed)) == 1
    assert not any(line.startswith("dec.11.0 ") for line in printed(found))


def test_which_word_is_hidden_is_said_plainly(found: Explained) -> None:
    said = " ".join(printed(found, 10_000))
    assert (
        "Where they look: if no head can look from where the prediction is made at the target's "
        "word, 2.00 (1.50 to 2.50) nats are lost; of single layers, layer 1 has the largest effect "
        "(−1.00). --key WORD hides another word."
    ) in said
    asked = replace(found.record, signature=f"{found.record.signature}|key:dog")
    assert "--key" not in " ".join(printed(replace(found, record=asked), 10_000))


def test_a_word_that_the_prompt_lacks_is_not_hidden(found: Explained) -> None:
    none: tuple[LayersRow, ...] = ()
    row = replace(found.prompts[0], prompt="The capital of France is", target=" Paris")
    said = " ".join(printed(replace(found, layers=none, prompts=(row,)), 10_000))
    assert "was not measured, since the target “Paris” is not in the prompt. --key WORD" in said
    asked = replace(found.record, signature=f"{found.record.signature}|effects:zero")
    chosen = replace(found, layers=none, prompts=(row,), record=asked)
    assert "not measured" not in " ".join(printed(chosen, 10_000)), "it was not asked for"
