"""Traits of heads: one row each, with the role that it can give, its letter and its phrases.

A trait is measured by its sums (`measures`), tested in a profile (`analysis`) and said in a
sentence (`results/profiles.py`), all of which read its row. So are kinds of input: what a corpus is
made of, what that is called, and which traits are tested on it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

from headcount.vocabulary.roles import ROLES, RoleEntry

GIVES = "gives {much} of its attention to {target}; {null} {little}"
CASES = "{does} in {much} of cases; {null} {little}"
"""Sentences with numbers: a weight, and a share of largest weights."""


@final
@dataclass(frozen=True)
class TraitEntry:
    """One trait that heads can show; it is also the kind of the heads that it leads."""

    key: str
    """Name of the trait; `syntax` for every relation."""
    role: RoleEntry
    """Role that the trait can give."""
    letter: str
    """Letter or sign in the cells of a map."""
    label: str
    """Name in legends and lists."""
    target: str
    """What one head looks at, e.g. "the patch {direction}"."""
    verb: str = "look at"
    """What it does with the target."""
    kind: str = ""
    """What all heads with the trait look at, if the target is that of one head."""
    says: tuple[str, str] | None = None
    """Predicates of one head and of several, if they are not the verb with that."""
    finding: str = GIVES
    """The sentence with numbers."""
    is_of_cases: bool = False
    """Whether a share of all queries is stated as one of those that can look there."""
    by_chance: str = "by chance it would be"
    """What the null is where chance is the larger one, up to its number."""
    by_position: str = "position alone explains"
    """What it is where position is the larger one."""
    offset: int | None = None
    """Offset of the key, for traits with an offset of their own."""
    place: tuple[int, int] | None = None
    """Displacement (row, column) of the patch, for traits with a place of their own."""
    direction: str | None = None
    """Where a head with the role looks, in words, if the trait says it."""
    column: str = ""
    """Column of the head table with the paper's number; empty for the share over all cases."""
    needs: Literal["", "later tokens", "pairs", "trees", "links", "repeats"] = ""
    """What not every model or corpus has."""
    skill: str = ""
    """Skill that is the weight on its target in repeated random tokens, if it is tested there."""
    no_case: tuple[str, str] = ("few", "no token is a case")
    """Kind of the reason, and the reason, why a corpus has no case."""

    def does(self, target: str) -> str:
        """What one head does with its target, as a predicate: "looks at separators"."""
        verb, space, rest = self.verb.partition(" ")
        return f"{verb}s{space}{rest} {target}"

    @property
    def one(self) -> str:
        """Predicate of a sentence for one head, without numbers: "1 looks at separators"."""
        return self.says[0] if self.says else self.does(self.kind or self.target)

    @property
    def many(self) -> str:
        """The same for several heads."""
        return self.says[1] if self.says else f"{self.verb} {self.kind or self.target}"

    @property
    def words(self) -> str:
        """Everything that a search for the trait can name, in lower case."""
        role = self.role
        said = f"{self.key} {self.label} {self.one} {role.name} {role.about} {role.synonyms}"
        return said.lower()


def _at_offset(key: str, letter: str, label: str, target: str, **more: Any) -> TraitEntry:
    """A trait of heads that look at one offset."""
    most = {"role": ROLES["positional"], "finding": CASES, "is_of_cases": True}
    most |= {"by_position": "the offsets beside it get"}
    return TraitEntry(key, letter=letter, label=label, target=target, **(most | more))


def _at_place(key: str, letter: str, direction: str, place: tuple[int, int]) -> TraitEntry:
    """A trait of heads that look at the patch at one displacement."""
    said = {"direction": direction, "by_position": "the places beside it get"}
    label = f"patch {direction}"
    return _at_offset(key, letter, label, f"the {label}", place=place, **said)


def _copies(key: str, letter: str, label: str, target: str, skill: str) -> TraitEntry:
    """A trait that is tested on repeated random tokens."""
    null = dict.fromkeys(("by_chance", "by_position"), "without a copy it gives")
    named = (key, ROLES[key], letter, label, target)
    return TraitEntry(*named, needs="repeats", skill=skill, **null)


def _line(key: str, letter: str) -> TraitEntry:
    """Staying in the row or column of a patch."""
    target = f"the patch's own {key}"
    return TraitEntry(
        key, ROLES["line"], letter, f"own {key}", target, verb="stay in", direction=key
    )


SYNTAX = TraitEntry(
    "syntax",
    ROLES["syntactic"],
    "S",
    "syntax",
    "another word",
    verb="find",
    says=("finds a syntactic relation", "find syntactic relations"),
    finding=CASES,
    by_chance="the best fixed position manages",
    by_position="its usual positions manage",
    needs="trees",
)
"""All relations together; the words of each are in `relations`."""

LINKS = TraitEntry(
    "links",
    ROLES["linking"],
    "L",
    "linked words",
    "another word",
    verb="find",
    says=("finds linked words", "find linked words"),
    finding=CASES,
    by_chance=SYNTAX.by_chance,
    by_position=SYNTAX.by_position,
    needs="links",
)
"""All links together; what each kind is called is in the record. A corpus without links has none,
so it is no trait of texts."""

OF_RELATIONS: Mapping[str, TraitEntry] = {each.role.name: each for each in (SYNTAX, LINKS)}
"""The traits that have relations, by the role that they give."""

TEXT_TRAITS = (
    _at_offset("previous", "←", "previous token", "the previous token", offset=-1),
    _at_offset("next", "→", "next token", "the next token", offset=1, needs="later tokens"),
    _at_offset("self", "↺", "itself", "the token itself", offset=0),
    _at_offset(
        "offset", "↔", "another fixed offset", "the token {direction}", kind="another fixed offset"
    ),
    SYNTAX,
    TraitEntry(
        "first",
        ROLES["sink"],
        "F",
        "first token",
        "the first token",
        column="attn_first",
        no_case=("no cases", "the first token of each text is one of its two rarest"),
    ),
    TraitEntry(
        "separator",
        ROLES["sink"],
        "¶",
        "separators",
        "separators",
        column="attn_sep",
        no_case=("model", "impossible: no separator is inside or behind a text"),
    ),
    TraitEntry(
        "punctuation",
        ROLES["punctuation"],
        ";",
        "punctuation",
        "punctuation",
        column="attn_punct",
        no_case=("no cases", "each text begins with punctuation, or has none"),
    ),
    TraitEntry(
        "segment",
        ROLES["block"],
        "B",
        "own segment",
        "its own segment",
        verb="stay within",
        says=("stays within its own segment", "stay within their own segment"),
        column="pattern_block",
        needs="pairs",
    ),
    TraitEntry(
        "rare",
        ROLES["rare"],
        "R",
        "rare words",
        "the two rarest tokens",
        kind="rare words",
        finding=CASES,
        column="rare2_share",
        no_case=(
            "no cases",
            "no token is rare, or the first token of each text is one of its two rarest",
        ),
    ),
    _copies("induction", "I", "induction", "the token after an earlier copy", "induction"),
    _copies("duplicate", "D", "duplicate token", "an earlier copy of the token", "duplicate_token"),
)
"""The traits of sentences, in the order in which they are measured."""

IMAGE_TRAITS = (
    _at_place("left", "←", "to the left", (0, -1)),
    _at_place("right", "→", "to the right", (0, 1)),
    _at_place("above", "↑", "above", (-1, 0)),
    _at_place("below", "↓", "below", (1, 0)),
    _at_place("same", "↺", "itself", (0, 0)),
    _at_offset(
        "place",
        "↔",
        "another fixed place",
        "the patch {direction}",
        kind="another fixed place",
        by_position="the places beside it get",
    ),
    TraitEntry("class", ROLES["sink"], "C", "class token", "the class token"),
    _line("row", "━"),
    _line("column", "┃"),
    TraitEntry(
        "near",
        ROLES["local"],
        "N",
        "nearby",
        "patches nearby",
        finding="{does}: {much} closer than even attention",
    ),
    TraitEntry(
        "spot",
        ROLES["spot"],
        "◎",
        "one place",
        "the patch in {direction} of every image",
        kind="one place of every image",
        by_position="the patches beside it get",
    ),
)
"""The traits of images, in the order in which they are measured."""

FRAME_TRAITS = (
    _at_offset("frame_before", "‹", "frame before", "the frame before", offset=-1),
    _at_offset("frame_after", "›", "frame after", "the frame after", offset=1),
    _at_offset("frame_itself", "○", "own frame", "the frame itself", offset=0),
    _at_offset(
        "delay",
        "Δ",
        "another fixed time",
        "the sound {direction}",
        kind="another fixed time",
    ),
    TraitEntry(
        "frames_near",
        ROLES["local"],
        "N",
        "nearby",
        "sound less than {direction} away",
        kind="sound nearby",
    ),
    TraitEntry("start", ROLES["sink"], "0", "start", "the first frame"),
    TraitEntry(
        "silence",
        ROLES["sink"],
        "Z",
        "silence",
        "the silence behind the sound",
        no_case=("no cases", "every recording fills what the model reads at once"),
    ),
    TraitEntry(
        "moment",
        ROLES["spot"],
        "◎",
        "one moment",
        "the frame at {direction} of every recording",
        kind="one moment of every recording",
        by_position="the frames beside it get",
    ),
)
"""The traits of frames of sound, in the order in which they are measured. Offsets are in frames."""

_OF_TRANSCRIPTS = ("previous", "self", "offset", "first", "punctuation", "rare")
"""The traits of the tokens of transcripts, which a decoder reads."""

TRAITS: Mapping[str, TraitEntry] = {
    each.key: each for each in (*TEXT_TRAITS, LINKS, *IMAGE_TRAITS, *FRAME_TRAITS)
}
"""Every trait by its name."""


REPEATED = tuple(each for each in TEXT_TRAITS if each.needs == "repeats")
"""Traits on repeated random tokens. Looking at the previous token is one of the corpus already."""

PREVIOUS = "previous"
"""Looking at the token before, as a role on random tokens only."""

REPEATED_ROLES = (*(each.role.name for each in REPEATED), PREVIOUS)
"""The roles that a head can have on repeated random tokens."""


def in_legend(traits: Mapping[str, Any] | frozenset[str] | set[str]) -> list[str]:
    """Names of traits in the order of legends: that of their roles; unknown ones come last."""
    order = [each.key for role in ROLES.values() for each in TRAITS.values() if each.role == role]
    return sorted(traits, key=lambda key: order.index(key) if key in order else len(order))


def kind_of(key: str, role: RoleEntry) -> TraitEntry:
    """The row of a trait by its name; one without a row is named by itself and its role."""
    return TRAITS.get(key) or kind_of_role(role, key)


def kind_of_role(role: RoleEntry, key: str = "") -> TraitEntry:
    """A row for heads of which only the role is known, or a trait only by its name."""
    name = (key or role.name).replace("_", " ")
    says = role.one, role.many
    return TraitEntry(key or role.name, role, role.abbreviation, name, name, says=says)


def label_of(trait: str) -> str:
    """The name of a trait in legends and lists.

    >>> label_of("first"), label_of("nsubj")
    ('first token', 'nsubj')
    """
    return TRAITS[trait].label if trait in TRAITS else trait.replace("_", " ")


@final
@dataclass(frozen=True, eq=False)
class Inputs:
    """One kind of input."""

    item: str
    """What a corpus counts, e.g. "sentence"."""
    unit: str
    """What a test takes as independent, e.g. "text"."""
    one: str
    """One of these, e.g. "a text"."""
    more: str
    """What to give more of, e.g. "text"."""
    find: str
    """What a page can be searched for, as a hint."""
    traits: tuple[TraitEntry, ...]
    """Its traits, in the order in which they are measured."""
    endings: tuple[str, ...] = ()
    """Endings of its files, in any case, if a file is one of it."""
    task: str = ""
    """The task of its models; empty if they have several."""
    is_text: bool = False
    """Whether it has words: dependency trees, segments, tokens that are rare."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that its traits can give, in the order of a head's list."""
        return roles_of(self.traits)


def roles_of(traits: Iterable[TraitEntry]) -> tuple[str, ...]:
    """Names of the roles that traits can give, in the order of a head's list."""
    possible = {each.role.name for each in traits}
    return tuple(name for name in ROLES if name in possible)


TEXTS = Inputs(
    item="sentence",
    unit="text",
    one="a text",
    more="text",
    find="subject, punctuation",
    traits=TEXT_TRAITS,
    is_text=True,
)
IMAGES = Inputs(
    item="image",
    unit="image",
    one="an image",
    more="images",
    find="class token, patch above",
    traits=IMAGE_TRAITS,
    endings=(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    task="image-classification",
)
SOUND = Inputs(
    item="recording",
    unit="recording",
    one="a recording",
    more="recordings",
    find="silence, frame before",
    traits=(*FRAME_TRAITS, *(each for each in TEXT_TRAITS if each.key in _OF_TRANSCRIPTS)),
    task="transcription",
)

INPUTS = (TEXTS, IMAGES, SOUND)
"""Every kind of input."""


def traits_of(inputs: Inputs, has_links: bool) -> tuple[TraitEntry, ...]:
    """The traits that are tested on some inputs, in order: links follow syntax."""
    if not has_links:
        return inputs.traits
    place = inputs.traits.index(SYNTAX) + 1
    return (*inputs.traits[:place], LINKS, *inputs.traits[place:])
