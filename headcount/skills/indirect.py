"""Needles in other words: facts hidden in long texts, whose question shares no word with them.

"The pet of Harlow barks at the postman.", and at the end of the text: "Question: Which animal is
it? Answer: It is a". Question and answer have no content word in common with the needle, so that no
head finds it by copying. Names are no part of the question.

Reference: NoLiMa (Modarressi et al., 2025), https://arxiv.org/abs/2502.05167
Departure: the answer is what the needle means, not the name in it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.skills.needles import NAMES, Hay, pick
from headcount.skills.options import SkillOptions


@final
@dataclass(frozen=True)
class Indirect:
    """A kind of needles that one question asks for, in other words than theirs."""

    question: str
    """What is asked of each of them."""
    begins: str
    """How the answer begins."""
    facts: tuple[tuple[str, str], ...]
    """Needles, each with a place for a name, and their answers."""


INDIRECT: Mapping[str, Indirect] = {
    "animal": Indirect(
        "Which animal is it?",
        "It is a",
        (
            ("The pet of {} barks at the postman.", "dog"),
            ("Under the bed of {} something purrs and meows.", "cat"),
            ("At five {} goes to the barn and milks her.", "cow"),
            ("With a saddle on its back it gallops when {} clicks her tongue.", "horse"),
            ("In the attic of {} it spins a web and waits for flies.", "spider"),
            ("In Australia {} saw one hop away with a baby in its pouch.", "kangaroo"),
            ("The one that {} shears each spring bleats and has white wool.", "sheep"),
            ("In its sty it grunts and rolls in the mud until {} brings the bucket.", "pig"),
        ),
    ),
    "profession": Indirect(
        "What is this person's job?",
        "This person is a",
        (
            ("All day {} drills and fills teeth.", "dentist"),
            ("Twice a week {} lands a Boeing full of passengers in Chicago.", "pilot"),
            ("At three in the morning {} kneads dough for rolls and loaves.", "baker"),
            ("With hose and ladder {} saved two children from the flames.", "firefighter"),
            ("Before the jury {} defended a man accused of theft.", "lawyer"),
            ("With a wrench {} mends leaking pipes and blocked sinks.", "plumber"),
            ("In the classroom {} explains fractions and marks homework.", "teacher"),
            ("From her tractor {} looks over forty acres of wheat.", "farmer"),
        ),
    ),
    "city": Indirect(
        "In which city does this person live?",
        "This person lives in",
        (
            ("Each morning {} sells postcards at the foot of the Eiffel Tower.", "Paris"),
            ("From the kitchen window {} can read the time on Big Ben.", "London"),
            ("Every evening {} walks the dog once around the Colosseum.", "Rome"),
            ("Before breakfast {} jogs through the Brandenburg Gate and back.", "Berlin"),
            ("The night shift of {} ends when the guards of the Kremlin change.", "Moscow"),
            ("At noon {} eats a sandwich in the shadow of the Parthenon.", "Athens"),
            ("On weekdays {} drives a taxi across the Golden Gate Bridge.", "San Francisco"),
            ("On her way to school {} passes the steps of the Sagrada Familia.", "Barcelona"),
        ),
    ),
    "language": Indirect(
        "Which language is that?",
        "The language is",
        (
            ("To every neighbour {} says bonjour, and au revoir in the evening.", "French"),
            ("To every neighbour {} says guten Tag, and gute Nacht in the evening.", "German"),
            ("To every neighbour {} says buenos dias, and hasta luego at night.", "Spanish"),
            ("To every neighbour {} says buongiorno, and arrivederci at night.", "Italian"),
            ("To every neighbour {} says konnichiwa, and sayonara at night.", "Japanese"),
            ("To every neighbour {} says bom dia, and obrigado at night.", "Portuguese"),
            ("To every neighbour {} says privet, and do svidaniya at night.", "Russian"),
            ("To every neighbour {} says ni hao, and zai jian at night.", "Chinese"),
        ),
    ),
    "sport": Indirect(
        "Which sport is that?",
        "The sport is",
        (
            ("At Wimbledon {} broke a racket.", "tennis"),
            ("With a slam dunk {} won the match for the Lakers.", "basketball"),
            ("With a home run {} won the match for the Yankees.", "baseball"),
            ("On the ninth green {} missed a putt by an inch.", "golf"),
            ("With queen and bishop {} gave checkmate after thirty moves.", "chess"),
            ("In the third round {} was knocked out and took the gloves off.", "boxing"),
            ("On the ice {} hit the puck past the goalkeeper.", "hockey"),
            ("In the lane beside hers {} did the breaststroke.", "swimming"),
        ),
    ),
}
"""Forty needles in five kinds; no content word of a question or answer is one of its needle."""


@final
@dataclass(frozen=True)
class IndirectNeedle:
    """A text with a needle in it, and a question in other words."""

    kind: str
    """Its kind."""
    depth: float
    """Place of the needle, as a share of the text: where it stands, between two of its lines."""
    ids: tuple[int, ...]
    """Token ids of the whole prompt, whose next token begins the answer."""
    answer: tuple[int, ...]
    """Token ids of the answer."""
    place: int
    """Where the needle begins."""
    size: int
    """Number of its tokens."""
    elsewhere: int
    """Where as many tokens of the text begin, none of them the needle's."""

    @property
    def length(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.ids)

    @property
    def without(self) -> tuple[int, ...]:
        """The prompt without its needle."""
        return (*self.ids[: self.place], *self.ids[self.place + self.size :])


def fingerprint(kinds: Mapping[str, Indirect] = INDIRECT) -> str:
    """A hash of some kinds of needles."""
    return hashlib.sha256(repr(kinds).encode()).hexdigest()[:8]


def indirect_needles(
    hay: Hay,
    options: SkillOptions,
    kinds: Mapping[str, Indirect] = INDIRECT,
    lengths: str = "lengths",
) -> Iterator[IndirectNeedle]:
    """Every needle of some kinds once; lengths and depths take turns.

    Args:
        hay: what the needles are hidden in.
        options: lengths, depths and the seed.
        kinds: the needles.
        lengths: name of the option that sets the lengths, for errors.

    Raises:
        InputError: if a needle and its question leave no room for text.
    """
    random, depths = np.random.default_rng((options.seed, 2)), options.depths
    facts = [(name, kind, *each) for name, kind in kinds.items() for each in kind.facts]
    for number, (name, kind, said, answer) in enumerate(facts):
        about = said.format(pick(NAMES)(random))
        needle, asks, ids = hay.inquire(about, kind.question, kind.begins, answer)
        length = options.lengths[number // len(depths) % len(options.lengths)]
        depth = depths[number % len(depths)]
        prompt, depth, place = hay.around(needle, asks, length, depth, random, (lengths, name))
        size, last = len(needle), len(prompt) - len(asks) - len(needle)
        free = [each for each in range(len(hay.start), last + 1) if abs(each - place) >= size]
        elsewhere = int(random.choice(free or [place]))
        yield IndirectNeedle(name, depth, prompt, ids, place, size, elsewhere)
