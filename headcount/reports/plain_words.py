"""Relations and traits in plain words: the one place that says what a head does."""

import math
from collections.abc import Mapping

from headcount.reports import numbers
from headcount.results import TraitStrength

RELATIONS: Mapping[str, tuple[str, str]] = {
    "nsubj": ("subject", "verb"),
    "nsubj:pass": ("passive subject", "verb"),
    "obj": ("direct object", "verb"),
    "iobj": ("indirect object", "verb"),
    "csubj": ("clausal subject", "verb"),
    "ccomp": ("clausal complement", "verb"),
    "xcomp": ("open complement", "verb"),
    "obl": ("oblique nominal", "verb"),
    "obl:npmod": ("adverbial noun", "verb"),
    "obl:tmod": ("time expression", "verb"),
    "obl:agent": ("agent", "passive verb"),
    "vocative": ("addressee", "verb"),
    "expl": ("expletive", "verb"),
    "dislocated": ("dislocated element", "verb"),
    "advcl": ("adverbial clause", "verb"),
    "advmod": ("adverb", "modified word"),
    "discourse": ("discourse word", "verb"),
    "aux": ("auxiliary", "verb"),
    "aux:pass": ("passive auxiliary", "verb"),
    "cop": ("copula", "predicate"),
    "mark": ("clause marker", "verb"),
    "nmod": ("nominal modifier", "noun"),
    "nmod:poss": ("possessor", "noun"),
    "appos": ("apposition", "noun"),
    "nummod": ("number", "noun"),
    "acl": ("modifying clause", "noun"),
    "acl:relcl": ("relative clause", "noun"),
    "amod": ("adjective", "noun"),
    "det": ("determiner", "noun"),
    "case": ("preposition", "noun"),
    "conj": ("later conjunct", "first conjunct"),
    "cc": ("conjunction", "conjunct"),
    "cc:preconj": ("first half of a conjunction", "conjunct"),
    "fixed": ("later word of a fixed expression", "first word"),
    "flat": ("later part of a name", "first part"),
    "compound": ("compound modifier", "noun"),
    "compound:prt": ("verb particle", "verb"),
    "list": ("later list item", "first item"),
    "parataxis": ("side-by-side clause", "main verb"),
    "orphan": ("orphan of an ellipsis", "promoted word"),
    "goeswith": ("later part of a split word", "first part"),
    "reparandum": ("repaired word", "repair"),
    "punct": ("punctuation mark", "word it belongs to"),
    "dep": ("unspecified dependent", "head word"),
    "all": ("dependent", "head word"),
}
"""English names of the dependent and of the head of each Universal Dependencies relation."""


def _pair(relation: str) -> tuple[str, str] | None:
    """The two words of a relation; an unknown subtype falls back to its main type."""
    return RELATIONS.get(relation, RELATIONS.get(relation.partition(":")[0]))


def relation_words(relation: str) -> str:
    """The relation in plain words; empty if it is unknown.

    >>> relation_words("nsubj"), relation_words("obl:unknown")
    ('subject of a verb', 'oblique nominal of a verb')
    """
    pair = _pair(relation)
    return f"{pair[0]} of {_a(pair[1])}" if pair else ""


def relation_target(relation: str, direction: str) -> str:
    """The word that is found, as the object of "finds".

    >>> relation_target("nsubj", "head->dependent")
    'the subject of a verb'
    >>> relation_target("obj", "dependent->head")
    'the verb of a direct object'
    >>> relation_target("det", "head<-dependent")
    'the noun of a determiner, as the word that looks at it most'
    """
    dependent, head = _pair(relation) or ("dependent", "head word")
    if direction == "head->dependent":
        return f"the {dependent} of {_a(head)}"
    seen = ", as the word that looks at it most" if direction == "head<-dependent" else ""
    return f"the {head} of {_a(dependent)}{seen}"


def offset_words(offset: numbers.Real) -> str:
    """The position of an offset (key minus query), in words.

    >>> offset_words(-1), offset_words(3)
    ('on the previous token', '3 tokens to the right')
    """
    if math.isnan(offset):
        return "nowhere"
    close = {-1: "on the previous token", 0: "on the token itself", 1: "on the next token"}
    side = "left" if offset < 0 else "right"
    return close.get(int(offset), f"{abs(int(offset))} tokens to the {side}")


_TARGETS = {
    "previous": "the previous token",
    "next": "the next token",
    "self": "the token itself",
    "first": "the first token",
    "separator": "separators",
    "punctuation": "punctuation",
    "segment": "its own segment",
    "rare": "the two rarest tokens",
    "induction": "the token after an earlier copy",
    "duplicate": "an earlier copy of the token",
    "class": "the class token",
    "left": "the patch to the left",
    "right": "the patch to the right",
    "above": "the patch above",
    "below": "the patch below",
    "same": "the patch itself",
    "row": "its own row",
    "column": "its own column",
    "near": "patches nearby",
}


def trait_target(trait: TraitStrength) -> str:
    """What a head with the trait looks at or finds; for a relation, with its name in brackets."""
    if trait.trait == "place":
        return f"the patch {trait.direction}"
    if trait.trait == "spot":
        return f"the patch in {trait.direction} of every image"
    if trait.relation is not None:
        target = relation_target(trait.relation, trait.direction or "")
        return f"{target} ({trait.relation})"
    if trait.offset is not None and trait.head.startswith("cross."):
        place = (
            "the same place" if trait.offset == 0 else f"its place {numbers.signed(trait.offset)}"
        )
        return f"the source token at {place}"
    if trait.trait == "offset" and trait.offset is not None:
        side = "left" if trait.offset < 0 else "right"
        return f"the token {numbers.of(abs(trait.offset), 'place', 'places')} to the {side}"
    return _TARGETS.get(trait.trait, trait.trait.replace("_", " "))


def does(trait: TraitStrength) -> str:
    """What a head with the trait does, as a predicate: "looks at the previous token"."""
    if trait.relation is not None:
        return f"finds {trait_target(trait)}"
    if trait.trait == "segment":
        return "stays within its own segment"
    if trait.role == "line":
        return f"stays in the patch's own {trait.trait}"
    if trait.role == "local":
        return "attends to patches nearby"
    return f"looks at {trait_target(trait)}"


def finding(trait: TraitStrength) -> str:
    """What a head does, how often, and what its null would give; numbers of the tested half.

    >>> finding(nsubj)  # doctest: +SKIP
    'finds the subject of a verb (nsubj) in 58 % of cases; the best fixed position manages 37 %'
    """
    share, null = trait.share, trait.null
    if trait.role == "positional" and trait.attainable > 0:  # of the tokens that have such a token
        share, null = share / trait.attainable, null / trait.attainable
    much, little = numbers.percent(share), numbers.percent(null)
    if trait.role in ("positional", "rare", "syntactic"):
        return f"{does(trait)} in {much} of cases; {_null_words(trait)} {little}"
    if trait.role == "local":
        return f"attends to patches nearby: {much} closer than even attention"
    if trait.trait == "segment":
        return f"gives {much} of its attention to its own segment; {_null_words(trait)} {little}"
    if trait.role == "line":
        where = f"the patch's own {trait.trait}"
        return f"gives {much} of its attention to {where}; {_null_words(trait)} {little}"
    return f"gives {much} of its attention to {trait_target(trait)}; {_null_words(trait)} {little}"


def _null_words(trait: TraitStrength) -> str:
    """What the null is, up to its number."""
    if trait.role in ("induction", "duplicate"):
        return "without a copy it gives"
    by_position = trait.position_null > trait.chance
    if trait.role == "syntactic":
        return "its usual positions manage" if by_position else "the best fixed position manages"
    if trait.role == "spot" and by_position:
        return "the patches beside it get"
    if trait.role == "positional" and by_position:
        return "the places beside it get" if trait.offset is None else "the offsets beside it get"
    return "position alone explains" if by_position else "chance explains"


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
