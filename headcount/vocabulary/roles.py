"""Roles of heads: one row each, with its threshold, its colour and its words.

The colours are those of Okabe and Ito (Color Universal Design, 2008) but for that of sinks, all
distinct for any colour vision. Every cell also carries a letter, so colour is never the only cue.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from headcount.core import InputError, omitted
from headcount.vocabulary.colours import DARK, LIGHT

CLEAR, BORDERLINE = "clear", "borderline"
"""Whether the interval of a role clears its threshold: see `Thresholds.certainty`."""


@final
@dataclass(frozen=True)
class RoleEntry:
    """One role that heads can have."""

    name: str
    threshold: str
    """Field of `Thresholds` that a head must reach."""
    abbreviation: str
    """Two letters for the cells of a map."""
    colour: str
    one: str
    """Predicate of a sentence for one head: "1 is positional"."""
    many: str
    """Predicate for several: "9 are positional"."""
    about: str
    """Meaning of the role, as the end of a sentence about a head."""
    source: str = ""
    """Paper that describes the role; empty if none does."""
    synonyms: str = ""
    """Other words that a reader might search for."""
    ink: str = DARK
    """Text colour readable on `colour`."""
    starts: int = 1
    """Rank in headlines and among the heads to start with: the most telling first, sinks last."""
    is_gain: bool = False
    """Whether its score is the gain over the best fixed offset, not a share."""
    has_certainty: bool = True
    """Whether the interval of the strength is that of the number that the threshold is for."""
    least: float | None = None
    """The threshold of a plug-in's role; None if it is a field of `Thresholds`."""


VOITA = "Voita et al., ACL 2019, arXiv:1905.09418"
CLARK = "Clark et al., BlackboxNLP 2019, arXiv:1906.04341"
MICHEL = "Michel et al., NeurIPS 2019, arXiv:1905.10650"
KOVALEVA = "Kovaleva et al., EMNLP 2019, arXiv:1908.08593"
_OLSSON = "Olsson et al., 2022, arXiv:2209.11895"

ROLES: Mapping[str, RoleEntry] = {
    role.name: role
    for role in (
        RoleEntry(
            "positional",
            "positional_share",
            "Po",
            "#0072B2",
            "is positional",
            "are positional",
            "its largest weight falls on one fixed offset",
            f"{VOITA}, section 5.1",
            ink=LIGHT,
        ),
        RoleEntry(
            "line",
            "line_share",
            "Li",
            "#E69F00",  # that of syntactic, which images can't have
            "stays in its row or column",
            "stay in their row or column",
            "its weight stays in the patch's own row or column",
        ),
        RoleEntry(
            "local",
            "local_closeness",
            "Lo",
            "#56B4E9",  # that of block
            "stays near",
            "stay near",
            "its weight stays close to the patch or the frame",
        ),
        RoleEntry(
            "spot",
            "spot_share",
            "Sp",
            "#CC79A7",  # that of rare
            "attends to one place",
            "attend to one place",
            "its weight goes to one and the same place of every image or recording",
        ),
        RoleEntry(
            "syntactic",
            "syntactic_gain",
            "Sy",
            "#E69F00",
            "is syntactic",
            "are syntactic",
            "it finds the other word of a dependency more often than the best fixed offset",
            f"{VOITA}, section 5.2; {CLARK}, section 4.2",
            "syntax grammar relation dependency tree",
            starts=0,
            is_gain=True,
        ),
        RoleEntry(
            "linking",
            "linking_gain",
            "Ln",
            "#882255",  # Paul Tol's wine
            "links words",
            "link words",
            "it finds the other word of a link more often than the best fixed offset",
            synonyms="link relation",
            ink=LIGHT,
            starts=0,
            is_gain=True,
        ),
        RoleEntry(
            "rare",
            "rare2_share",
            "Ra",
            "#CC79A7",
            "points at rare words",
            "point at rare words",
            "it looks most at the rarest token of the sentence",
            f"{VOITA}, section 5.3",
        ),
        RoleEntry(
            "punctuation",
            "punctuation_share",
            "Pu",
            "#F0E442",
            "attends to punctuation",
            "attend to punctuation",
            "it puts its weight on punctuation",
            f"{CLARK}, section 3.2",
            "comma period full stop",
        ),
        RoleEntry(
            "block",
            "block_share",
            "Bl",
            "#56B4E9",
            "attends in blocks",
            "attend in blocks",
            "its weight stays inside segments",
            f"{KOVALEVA}, section 4.1",
            has_certainty=False,  # the interval is of weights, the threshold of maps
        ),
        RoleEntry(
            "induction",
            "induction_share",
            "In",
            "#D55E00",
            "is an induction head",
            "are induction heads",
            "it looks at the token after an earlier copy of its own",
            _OLSSON,
            starts=0,
        ),
        RoleEntry(
            "duplicate",
            "induction_share",
            "Du",
            "#7A5230",
            "is a duplicate-token head",
            "are duplicate-token heads",
            "it looks at an earlier copy of its token",
            _OLSSON,
            ink=LIGHT,
        ),
        RoleEntry(
            "sink",
            "sink_share",
            "Si",
            "#A3B483",  # quiet: many heads are sinks
            "attends to a sink",
            "attend to a sink",
            "it puts its weight on the first token or a separator, where little is read",
            f"{CLARK}, section 3.2",
            "attention sink no-op rest bos cls",
            starts=2,
        ),
    )
}
"""Every role, in the order of a head's list and of legends: a sink, which reads little, is last."""

_FALLBACKS = (("#5F4B8B", LIGHT), ("#3B4148", LIGHT), ("#A6A6A6", DARK), ("#A8244F", LIGHT))


def roles_named(
    names: Iterable[str], more: Mapping[str, RoleEntry] | None = None
) -> dict[str, RoleEntry]:
    """The roles that occur: known ones first and in their order, then the others as they occur.

    Args:
        names: names of roles.
        more: roles of plug-ins, which a record has.

    >>> list(roles_named(["novel", "sink", "positional"]))
    ['positional', 'sink', 'novel']
    """
    occurring = list(dict.fromkeys(names))
    known = {**ROLES, **(more or {})}
    result = {name: role for name, role in known.items() if name in occurring}
    taken = {role.abbreviation for role in known.values()}
    for name in occurring:
        if name not in result:
            abbreviation = abbreviated(name, taken)
            colour, ink = _FALLBACKS[(len(taken) - len(known)) % len(_FALLBACKS)]
            taken.add(abbreviation)
            result[name] = RoleEntry(
                name,
                "",
                abbreviation,
                colour,
                f"has the role “{name}”",
                f"have the role “{name}”",
                "it has this role, which this report does not know",
                ink=ink,
            )
    return result


def abbreviated(name: str, taken: set[str]) -> str:
    """Two letters of the name that no other role has; a number if the letters run out."""
    letters = [letter for letter in name if letter.isalnum()] or ["?"]
    pairs = [letters[0].upper() + letter.lower() for letter in letters[1:]]
    numbered = [f"{letters[0].upper()}{number}" for number in range(100)]
    return next(pair for pair in pairs + numbered if pair not in taken)


@final
@dataclass(frozen=True)
class Thresholds:
    """Thresholds for assigning roles."""

    positional_share: float = 0.9
    """Least share of queries whose largest weight is at one offset (Voita et al.: 90 %)."""
    syntactic_gain: float = 0.1
    """Least gain in accuracy over the best fixed offset; 0.1 is 10 points (Voita et al.)."""
    syntactic_relative: bool = False
    """Take that gain relative to the offset's accuracy, not in points (the paper doesn't say)."""
    syntactic_cases: int = 100
    """Least number of cases of a relation (Clark et al.: 100)."""
    linking_gain: float = omitted(0.1)
    """Least gain in accuracy over the best fixed offset for links of your own; as for syntax."""
    rare2_share: float = 0.5
    """Least share of queries that look most at one of the two rarest tokens (Voita, WMT: half)."""
    sink_share: float = 0.5
    """Least share of attention on the first token, or on separators (Clark et al.: half)."""
    punctuation_share: float = 0.5
    """Least share of attention on punctuation; half, as for separators."""
    block_share: float = 0.5
    """Least share of maps that are blocks (the paper gives no threshold for a head)."""
    induction_share: float = 0.5
    """Least weight on the token after the earlier copy of a token, or on that copy (no paper gives
    a threshold; half, as for sinks)."""
    line_share: float = 0.5
    """Images: least share of attention within the patch's own row or column; half, as for sinks."""
    local_closeness: float = 0.5
    """Images: least share by which attention is closer to the patch than even attention; half."""
    spot_share: float = 0.5
    """Images: least share of attention on one patch of every image; half, as for sinks."""
    test_cases: int = 100
    """Least number of cases of a test, in the tested half of the corpus."""
    test_sentences: int = 10
    """Least number of texts, or of segments of long texts, that these cases come from."""
    test_alpha: float = 0.05
    """Largest p, after Holm's correction, of a role or a tendency."""
    tendency_strength: float = 0.05
    """Least strength of a tendency; on thousands of sentences the test alone passes 0.01."""

    def __post_init__(self) -> None:
        """Check that the thresholds are finite, so that a record can hold them.

        Raises:
            InputError: for a threshold that is not finite.
        """
        for name, value in vars(self).items():
            if not math.isfinite(value):
                raise InputError(
                    f"Expected a finite number as the threshold {name}, got {value}. No head "
                    "reaches a share above 1."
                )

    def is_syntactic(self, accuracy: float, baseline: float) -> bool:
        """Whether a relation is found clearly more often than by the best fixed offset."""
        # Rounded, so that 0.6 against 0.5 is 10 points
        return round(self.syntactic_excess(accuracy, baseline), 9) >= self.syntactic_gain

    def excess(self, role: str, accuracy: float, baseline: float) -> float:
        """The number compared with the threshold of a role whose score is a gain."""
        if role == "syntactic":
            return self.syntactic_excess(accuracy, baseline)
        return accuracy - baseline

    def least_cases(self, role: str) -> int:
        """The least number of cases of a test."""
        is_syntactic = role == "syntactic"
        return max(self.syntactic_cases, self.test_cases) if is_syntactic else self.test_cases

    def syntactic_excess(self, accuracy: float, baseline: float) -> float:
        """The number compared with `syntactic_gain`; infinite if no offset finds the relation."""
        if not self.syntactic_relative:
            return accuracy - baseline
        return accuracy / baseline - 1 if baseline else math.inf

    def least(self, role: str | RoleEntry) -> float:
        """The threshold of a role; one of a plug-in has its own."""
        entry = ROLES[role] if isinstance(role, str) else role
        return getattr(self, entry.threshold) if entry.least is None else entry.least

    def certainty(self, row: Mapping[str, Any]) -> str | None:
        """Whether the interval of a role clears its threshold: `CLEAR`, or else `BORDERLINE`.

        A role is tested against chance, not against its threshold, so roles just above it are
        winners, some of which other texts of the same kind do not repeat. Clear means that the
        lower end of the 90 % interval is at least the threshold. None for roles whose interval is
        that of another number (blocks), and for what is no role.

        Args:
            row: A row of `profiles.parquet`, by the names of its columns.
        """
        role = entry.role if (entry := row.get("entry")) else ROLES[row["role"]]
        if row["verdict"] != "role" or not role.has_certainty:
            return None
        share = row["null"] + row["low"] * (row["attainable"] - row["null"])
        if role.is_gain:
            score = self.excess(row["role"], share, row["chance"])
        else:
            score = row["score"] * share / row["share"] if row["share"] else 0.0
        return CLEAR if round(score, 9) >= self.least(role) else BORDERLINE

    @property
    def syntactic_words(self) -> str:
        """The syntactic threshold in words: `10 points` or `10 %`."""
        return f"{100 * self.syntactic_gain:.0f} {'%' if self.syntactic_relative else 'points'}"
