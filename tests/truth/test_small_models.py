"""Random programs in small models of GPT-2 and Llama, and programs that are refused."""

import re
from dataclasses import replace
from typing import Any

import pytest

from headcount.core import Head
from headcount.testing import Family, Kind, Planted, Program, Translation, planted_model
from tests.truth.small_models import check, small_models


@pytest.mark.parametrize(("seed", "family"), small_models("gpt2", "llama"))
def test_roles_and_worth_are_those_of_the_program(seed: int, family: Family) -> None:
    check(seed, family)


def _head(layer: int, index: int, kind: Kind = "offset", **about: Any) -> Planted:
    """A needed head that reads bit 2 of the token before for label 0, unless it is told apart."""
    needed: dict[str, Any] = {"purpose": "needed", "bit": 2, "label": 0, "evidence": 3.0}
    made: dict[str, Any] = {**needed, "offset": -1, **about}
    return Planted(Head("decoder.self", layer, index), kind, **made)


TELLS = _head(1, 1, "tell", label=None, evidence=0.0, offset=0)


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ([_head(2, 0)], "2 layers of 4 heads, got dec.2.0"),
        ([_head(0, 0), _head(0, 0, label=1)], "dec.0.0 does, got two"),
        ([_head(0, 0, label=10)], "bits from 0 to 9, got (2, 10)"),
        ([_head(0, 0, label=None)], "got label None and evidence 3"),
        ([_head(0, 0, offset=-40)], "at most 31, got -40"),
        ([replace(_head(0, 0), head=Head("encoder.self", 0, 0))], "decoder.self, got enc.0.0"),
        ([_head(0, 0, "punctuation", offset=0, is_gated=True)], "kind offset, got punctuation"),
        ([_head(0, 0, "first", offset=-4)], "got -4 of dec.0.0, which is of the kind first"),
        ([_head(0, 0, offset=3)], "looks back or at its own token, got the offset 3 of dec.0.0"),
        ([_head(0, 0, reads_told=True)], "got dec.0.0, which reads what is told there"),
        ([_head(1, 0, "copy", offset=0), TELLS], "before dec.1.0"),
        ([_head(0, 0), _head(0, 1)], "needed with evidence 3, needed with evidence 3"),
        ([_head(0, n, purpose="undo") for n in (0, 1)], "two that undo each other, got undo"),
        ([_head(0, 0), _head(0, 1, purpose="noise")], "needed with evidence 3, noise"),
    ],
)
def test_a_program_that_no_weights_can_be_is_refused(planted: list[Planted], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Program(tuple(planted), layers=2)


def test_a_program_of_an_encoder_has_no_copy_and_no_family_but_its_own() -> None:
    copies = replace(_head(1, 0, "copy", offset=0), head=Head("encoder.self", 1, 0))
    with pytest.raises(ValueError, match=r"a copy in a language model, got enc\.1\.0"):
        Program((copies,), layers=2, site="encoder.self")
    with pytest.raises(ValueError, match="Expected one of encoder, got gpt2"):
        planted_model(Program((), site="encoder.self"), "gpt2")
    with pytest.raises(ValueError, match=r"one of offset, tell, idle, got rare of dec\.0\.1"):
        Translation((_head(0, 1, "rare", offset=0),))


def test_none_of_three_heads_that_back_up_each_other_is_worth_anything_alone() -> None:
    program = Program(tuple(_head(0, n, purpose="backup") for n in range(3)), layers=1)
    heads, texts = [each.head for each in program.planted], program.texts(20, seed=0)
    alone, *_, together = program.effects(texts, [heads[:1], heads[:2], heads])
    assert alone == pytest.approx(0, abs=1e-9) and together > 0.5
