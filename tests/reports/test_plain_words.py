"""What a head does, in plain words, with the numbers of the half that did not choose."""

from dataclasses import replace

import pytest

from headcount.reports.plain_words import finding, relation_target, relation_words
from tests.reports.test_profile_view import TRAIT

NSUBJ = replace(
    TRAIT,
    trait="nsubj",
    role="syntactic",
    relation="nsubj",
    direction="head->dependent",
    share=0.58,
    null=0.37,
    chance=0.37,
    position_null=0.2,
)


def said(trait) -> str:
    return finding(trait).replace("\u202f", " ")


def test_a_relation_beside_the_best_fixed_position():
    assert said(NSUBJ) == (
        "finds the subject of a verb (nsubj) in 58 % of cases; the best fixed position manages 37 %"
    )
    assert said(replace(NSUBJ, position_null=0.4, null=0.4)).endswith(
        "; its usual positions manage 40 %"
    )


def test_an_offset_counts_the_tokens_that_have_such_a_token():
    half = {"share": 0.45, "null": 0.05, "chance": 0.1, "position_null": 0.05, "attainable": 0.5}
    names = {"trait": "previous", "role": "positional", "offset": -1}
    assert said(replace(TRAIT, **names, **half)) == (
        "looks at the previous token in 90 % of cases; chance explains 10 %"
    )
    beside = replace(TRAIT, **names, **half | {"position_null": 0.2, "null": 0.1})
    assert said(beside).endswith("; the offsets beside it get 20 %")
    across = replace(TRAIT, head="cross.0.0", **names, **half)
    assert said(across).startswith("looks at the source token at its place −1 in 90 %")


def test_weights_are_of_attention():
    assert said(TRAIT) == (
        "gives 62 % of its attention to the first token; position alone explains 5.0 %"
    )


@pytest.mark.parametrize(
    ("relation", "direction", "target"),
    [
        ("obj", "dependent->head", "the verb of a direct object"),
        ("amod", "head->dependent", "the adjective of a noun"),
        ("aux", "dependent->head", "the verb of an auxiliary"),
        ("det", "head<-dependent", "the noun of a determiner, as the word that looks at it most"),
        ("obl:other", "head->dependent", "the oblique nominal of a verb"),
        ("unheard", "dependent->head", "the head word of a dependent"),
    ],
)
def test_relations_are_named_by_their_two_words(relation: str, direction: str, target: str):
    assert relation_target(relation, direction) == target


def test_an_unknown_relation_has_no_words():
    assert relation_words("unheard") == "" and relation_words("nsubj") == "subject of a verb"
