"""What a head does, in plain words, with the numbers of the half that did not choose."""

from dataclasses import replace

import pytest

from headcount.results import TraitStrength, finding, kind_of_trait
from headcount.vocabulary import (
    FRAME_TRAITS,
    LINKS,
    SYNTAX,
    TRAITS,
    LinkWords,
    relation_target,
    relation_words,
)
from tests.pages.test_profile_view import TRAIT

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


def test_a_link_is_said_with_its_own_words():
    words = LinkWords("verb", "negation")
    link = replace(NSUBJ, trait="not", role="linking", relation="not", direction="query->key")
    assert said(replace(link, words=words)) == (
        "finds the negation of a verb (not) in 58 % of cases; the best fixed position manages 37 %"
    )
    same = replace(link, trait="negation", relation="negation", direction="key->query", words=words)
    assert said(same).startswith("finds the verb of a negation in 58 % of cases")


def test_an_offset_counts_the_tokens_that_have_such_a_token():
    half = {"share": 0.45, "null": 0.05, "chance": 0.1, "position_null": 0.05, "attainable": 0.5}
    names = {"trait": "previous", "role": "positional", "offset": -1}
    assert said(replace(TRAIT, **names, **half)) == (
        "looks at the previous token in 90 % of cases; by chance it would be 10 %"
    )
    beside = replace(TRAIT, **names, **half | {"position_null": 0.2, "null": 0.1})
    assert said(beside).endswith("; the offsets beside it get 20 %")
    across = replace(TRAIT, head="cross.0.0", **names, **half)
    assert said(across).startswith("looks at the source token 1 place to the left in 90 %")


def test_weights_are_of_attention():
    assert said(TRAIT) == (
        "gives 62 % of its attention to the first token; position alone explains 5.0 %"
    )


SAID = {
    "previous": "looks at the previous token in 62 % of cases",
    "next": "looks at the next token in 62 % of cases",
    "self": "looks at the token itself in 62 % of cases",
    "offset": "looks at the token 4 places to the right in 62 % of cases",
    "first": "gives 62 % of its attention to the first token",
    "separator": "gives 62 % of its attention to separators",
    "punctuation": "gives 62 % of its attention to punctuation",
    "segment": "gives 62 % of its attention to its own segment",
    "rare": "looks at the two rarest tokens in 62 % of cases",
    "induction": "gives 62 % of its attention to the token after an earlier copy",
    "duplicate": "gives 62 % of its attention to an earlier copy of the token",
    "left": "looks at the patch to the left in 62 % of cases",
    "right": "looks at the patch to the right in 62 % of cases",
    "above": "looks at the patch above in 62 % of cases",
    "below": "looks at the patch below in 62 % of cases",
    "same": "looks at the patch itself in 62 % of cases",
    "place": "looks at the patch 2 up in 62 % of cases",
    "class": "gives 62 % of its attention to the class token",
    "row": "gives 62 % of its attention to the patch's own row",
    "column": "gives 62 % of its attention to the patch's own column",
    "near": "looks at patches nearby: 62 % closer than even attention",
    "spot": "gives 62 % of its attention to the patch in row 2, column 4 of every image",
}
"""What heads with each trait of texts and images do, with a share of 0.62."""

NULLS = {
    "positional": ("the offsets beside it get", "by chance it would be"),
    "induction": ("without a copy it gives", "without a copy it gives"),
    "duplicate": ("without a copy it gives", "without a copy it gives"),
    "spot": ("the patches beside it get", "by chance it would be"),
}
"""What the null is, by position and by chance, of roles and traits with words of their own."""

DIRECTION = {"place": "2 up", "spot": "row 2, column 4"}
OF_SOUND = {each.key for each in FRAME_TRAITS}
"""Traits whose sentences `tests/analysis/test_sound.py` has."""


def shown(key: str, direction: str | None = None) -> TraitStrength:
    """A trait of a head with a share of 0.62, and a null by position of 0.05."""
    entry = TRAITS[key]
    offset = 4 if key == "offset" else entry.offset
    return replace(TRAIT, trait=key, role=entry.role.name, offset=offset, direction=direction)


@pytest.mark.parametrize("key", sorted(TRAITS.keys() - OF_SOUND - {SYNTAX.key, LINKS.key}))
def test_every_trait_is_said_in_a_sentence(key: str):
    entry, trait = TRAITS[key], shown(key, DIRECTION.get(key))
    usual = NULLS.get(trait.role, ("position alone explains", "by chance it would be"))
    by_position, by_chance = NULLS.get(key, usual)
    if entry.place or key == "place":
        by_position = "the places beside it get"
    nulls = ("", "") if key == "near" else (f"; {by_position} 5.0 %", f"; {by_chance} 5.0 %")
    assert said(trait) == SAID[key] + nulls[0]
    assert said(replace(trait, position_null=0.0, chance=0.05)) == SAID[key] + nulls[1]


def test_a_trait_that_this_version_does_not_know_is_said_by_its_name():
    novel = replace(TRAIT, trait="after_{x}", role="novel")
    assert said(novel).startswith("gives 62 % of its attention to after {x}; ")
    assert kind_of_trait(novel).letter == "No"


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
