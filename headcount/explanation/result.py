"""Explained: by how much every head raises what a model predicts, and several heads together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from headcount.core import SITES, sorted_by
from headcount.explanation.circuit_rows import (
    AreaRow,
    CircuitRow,
    ComplementRow,
    FaithfulnessRow,
    KeptRow,
    StabilityRow,
    StableRow,
)
from headcount.results import ModelRecord, Result, Signature, table

SPLIT_FROM = 4
"""Least number of prompts of which one half chooses heads for the other."""
UNLIKELY = 1e-6
"""Probability of a target below which a reader is warned first."""


@final
@dataclass(frozen=True)
class EffectWords:
    """What tables and pages call an effect."""

    label: str
    """Name in a heading."""
    about: str
    """Meaning, as the end of a sentence about it."""
    source: str
    """Where it is described."""


@final
@dataclass(frozen=True)
class EffectRow:
    """One effect of a head, or what another part of the model adds to the logit."""

    part: str
    """Name of the head; or `embeddings`, `mlp.3`, `attention biases`, `biases`."""
    effect: str
    """Name of the effect, as in `headcount.explanation.EFFECTS`."""
    value: float
    """By how much the part raises what is predicted, in nats; the mean over prompts."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""
    first: float
    """The mean over every second prompt from the first on; NaN for one prompt."""
    second: float
    """The mean over the other prompts."""
    p: float = float("nan")
    """P-value of no effect, corrected for all heads (Holm); NaN where there is no interval, of what
    is no head, and in tables of versions without."""

    @property
    def is_head(self) -> bool:
        """Whether the part is a head."""
        return self.part.partition(".")[0] in SITES.values()


@final
@dataclass(frozen=True)
class JointRow:
    """The effect of several heads that are replaced together."""

    effect: str
    """Name of the effect."""
    ranking: str
    """Effect by which the heads are the best ones."""
    heads: int
    """Number of heads."""
    names: str
    """Their names; those of either half of the prompts, which the other half chose, between |."""
    value: float
    """By how much they raise what is predicted together, in nats; the mean over prompts."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""
    singles: float
    """The sum of their single effects."""
    excess_low: float
    """Lower end of the interval of the effect together less that sum."""
    excess_high: float
    """Upper end."""
    random: float
    """The same effect of as many random heads, the mean over sets."""
    random_low: float
    """Lower end of its interval over prompts."""
    random_high: float
    """Upper end."""
    random_least: float = float("nan")
    """The smallest mean over prompts of the sets of random heads, of which each half has others."""
    random_most: float = float("nan")
    """The largest one."""
    preferred: float = float("nan")
    """Number of prompts, of those with a rival, whose target is still preferred to it with these
    heads replaced; of `restored`, of second prompts whose target then is. NaN without rivals."""
    random_preferred: float = float("nan")
    """The same with random heads, the mean over sets."""
    drawn: str = "layers"
    """Where random heads are from: the same `layers`, as many in each, or `all` of them, where too
    few sets of the same layers exist."""

    @property
    def misleads(self) -> bool:
        """Whether single effects add up to something else, by a fifth and beyond chance."""
        excess = self.value - self.singles
        is_large = abs(excess) > 0.2 * max(abs(self.value), abs(self.singles))
        return is_large and not self.excess_low <= 0 <= self.excess_high


@final
@dataclass(frozen=True)
class BackupRow:
    """By how much more a head does when another one is out."""

    head: str
    """Name of the head that is out."""
    backup: str
    """Name of the head that does more then."""
    effect: str
    """Name of the effect by which heads are replaced."""
    alone: float
    """The effect of the backup when the other head is there, in nats; the mean over prompts."""
    value: float
    """By how much it is larger when that head is out."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""
    p: float
    """P-value of no difference, corrected for all pairs that were tried (Holm)."""


@final
@dataclass(frozen=True)
class LayersRow:
    """What is lost if no head of some layers can look at the word."""

    first: int
    """The lowest of the layers."""
    last: int
    """The highest of them."""
    value: float
    """By how much these looks raise what is predicted, in nats; the mean over prompts."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class WrittenRow:
    """A token whose logit a head changes most, where the prediction is made."""

    head: str
    """Name of the head."""
    token: str
    """The token."""
    value: float
    """What the head's output adds to its logit by itself, less the mean over tokens; above 0 it is
    one of those that it promotes most, below 0 of those that it demotes most."""


@final
@dataclass(frozen=True)
class LookRow:
    """Where a head looks from the token where the prediction is made, and its score there."""

    head: str
    """Name of the head."""
    looks_at: str
    """The word that it looks at most, the first token aside, in most prompts; of a word that the
    prompt repeats, also which time (`John, 2nd`). `target` and `rival` stand for those words."""
    prompts: int
    """Number of prompts in which that is so."""
    weight: float
    """Attention weight of the token, of each prompt's own; the mean over prompts."""
    score: float
    """Score of the query and that key, before a cap and the softmax; the mean over prompts."""
    value: float
    """By how much it is above the mean score of the keys that the query sees."""
    low: float
    """Lower end of its 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class ReasonRow:
    """What a writer of the query, of the key, or both add to a score above its mean over keys."""

    head: str
    """Name of the head that looks."""
    query: str
    """What wrote the query: a head, `mlp.3`, `embeddings`, `positions`, `attention biases` or
    `biases`; empty for all."""
    key: str
    """What wrote the key; empty for all."""
    value: float
    """What that adds to the score; the mean over prompts."""
    low: float
    """Lower end of its 95 % interval; NaN below 8 blocks."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class PositionRow:
    """The effect of a head at one token."""

    head: str
    """Name of the head."""
    effect: str
    """Name of the effect."""
    place: int
    """Place of the token, counted from the prompt's end: −1 is the last."""
    token: str
    """Its word, in most prompts; `target` and `rival` stand for those words, and it is empty where
    prompts differ."""
    value: float
    """What is lost if the head is replaced at this token alone, in nats; the mean over prompts."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class AloneRow:
    """The effect of a head on one prompt."""

    part: str
    """Name of the head."""
    effect: str
    """Name of the effect."""
    prompt: int
    """Number of the prompt, from 0."""
    value: float
    """By how much the head raises what is predicted there, in nats."""


@final
@dataclass(frozen=True)
class PromptRow:
    """One prompt and what the model predicts."""

    prompt: str
    """The text."""
    target: str
    """The continuation, filling or label."""
    against: str
    """The rival; empty without one."""
    tokens: str
    """The tokens of the target that are read, between |; of a classifier, the label."""
    corrupt: str
    """The second prompt; empty without one."""
    value: float
    """What is predicted, in nats: the log-probability of the target, less that of its rival."""
    second: float
    """The same in the second prompt; NaN without one."""
    probability: float
    """Probability of the target."""
    pictures: str = ""
    """Files of the pictures beside the prompt, and of those beside the second one, between |."""


@final
@dataclass(frozen=True, kw_only=True)
class ExplanationRecord(ModelRecord):
    """Facts about an explanation that its tables do not hold."""

    FILE = "explanation.json"
    COMMAND = "headcount explain"

    kind: str
    """Kind of the prediction, named as the task."""
    first: bool
    """Whether only the first token of targets is read."""
    value: float
    """What is predicted, in nats; the mean over prompts."""
    low: float
    """Lower end of the 95 % interval (Student, over blocks of prompts); NaN below 8 of them."""
    high: float
    """Upper end."""
    second: float
    """The same in the second prompts; NaN without."""
    logit: float
    """What attribution adds up to: the logit of the target less that of its rival, before a cap;
    NaN where attribution is not exact."""
    looks: str
    """Which looks are knocked out, as the end of a sentence; empty if none are."""
    means_over: str
    """What the means of heads' outputs are over."""
    nothing: float = float("nan")
    """What is predicted if all heads write what those outside a circuit write, by the first of the
    complements, in nats; NaN without circuits."""
    stable: str = ""
    """Ranking of the stable circuit; empty if there is none."""
    stable_size: int = 0
    """Number of heads of the circuits of which it is what they have in common."""
    words: Mapping[str, EffectWords] = field(default_factory=dict)
    """What effects are called, by name; none in records of versions without."""


@final
@dataclass(frozen=True)
class Explained(Result[ExplanationRecord]):
    """What the heads of a model do for a prediction, one by one and together."""

    DOCUMENTS = ("explanation.md", "explanation.html")

    record: ExplanationRecord
    effects: tuple[EffectRow, ...] = table(
        "effects.parquet", "the effects of heads on a prediction", key=("part", "effect")
    )
    """A row for each head and each other part of the model, and each effect."""
    joint: tuple[JointRow, ...] = table("joint.parquet", "the effects of several heads together")
    """A row for each number of heads that are replaced together."""
    layers: tuple[LayersRow, ...] = table("layers.parquet", "the effects of looks by layers")
    """A row for each layer and range of layers whose looks are knocked out."""
    prompts: tuple[PromptRow, ...] = table("prompts.parquet", "what is predicted")
    """A row for each prompt."""
    alone: tuple[AloneRow, ...] = table(
        "alone.parquet", "the effects of heads on each prompt", default=()
    )
    """A row for each head, effect and prompt, if there are several prompts."""
    written: tuple[WrittenRow, ...] = table(
        "written.parquet", "the tokens that heads promote and demote", default=()
    )
    """A row for each head and each of a few tokens, the largest first, if there is one prompt; none
    where attribution is not exact or was not measured."""
    looks: tuple[LookRow, ...] = table("looks.parquet", "where the best heads look", default=())
    """A row for each of the best heads; none where scores can't be split."""
    reasons: tuple[ReasonRow, ...] = table(
        "reasons.parquet", "why the best heads look there", default=()
    )
    """A row for each writer of these heads' queries, and of their keys, and for the largest pairs
    of both."""
    backups: tuple[BackupRow, ...] = table(
        "backups.parquet", "the heads that make up for others", default=()
    )
    """A row for each of the best heads and those that do most more without it, if asked for."""
    positions: tuple[PositionRow, ...] = table(
        "positions.parquet", "the effects of heads at each token", default=()
    )
    """A row for each of the best heads, each token and effect, if it was asked for."""
    faithfulness: tuple[FaithfulnessRow, ...] = table(
        "faithfulness.parquet", "what is left with the best heads only", default=()
    )
    """A row for each ranking and number of heads that are kept."""
    circuits: tuple[CircuitRow, ...] = table(
        "circuits.parquet", "the smallest sets of heads", default=()
    )
    """A row for each ranking and share of the prediction that is kept."""
    areas: tuple[AreaRow, ...] = table("areas.parquet", "how good rankings are", default=())
    """A row for each ranking, with all others, sizes and scales."""
    complements: tuple[ComplementRow, ...] = table(
        "complements.parquet", "what heads outside circuits give", default=()
    )
    """A row for what heads outside circuits give; circuits are judged by the first one first."""
    stability: tuple[StabilityRow, ...] = table(
        "stability.parquet", "how far circuits of other prompts agree", default=()
    )
    """A row for each ranking by effects and each size; none below 8 blocks of prompts."""
    stable: tuple[StableRow, ...] = table("stable.parquet", "the stable circuit", default=())
    """A row for each head, of the ranking that keeps most with the fewest heads."""
    kept: tuple[KeptRow, ...] = table("kept.parquet", "what the stable circuit keeps", default=())
    """A row for each set of heads of the stable circuit, and the prompts it is measured on."""

    def of(self, effect: str) -> dict[str, EffectRow]:
        """The rows of one effect, by part."""
        return {row.part: row for row in self.effects if row.effect == effect}

    def writes(self, head: str) -> tuple[list[WrittenRow], list[WrittenRow]]:
        """The tokens that a head promotes and demotes most."""
        rows = [row for row in self.written if row.head == head]
        return [row for row in rows if row.value > 0], [row for row in rows if row.value < 0]

    @property
    def shows_text(self) -> bool:
        """Whether a page can show the only prompt, as it was given, in the model's attention."""
        is_written = any(row.pictures for row in self.prompts)  # by the template in any case
        is_plain = is_written or Signature.parse(self.record.signature).get("chat") is None
        return len(self.prompts) == 1 and is_plain

    @property
    def is_split(self) -> bool:
        """Whether one half of the prompts chose the best heads for the other."""
        return len(self.prompts) >= SPLIT_FROM

    @property
    def unlikely(self) -> tuple[PromptRow, ...]:
        """The prompts whose target the model hardly considers."""
        return tuple(row for row in self.prompts if row.probability < UNLIKELY)

    @property
    def lacks_blank(self) -> bool:
        """Whether the first unlikely target would be a word behind its prompt with a blank."""
        if not self.unlikely or self.record.kind != "causal-lm":
            return False
        row = self.unlikely[0]
        return not row.pictures and row.target[:1].isalnum() and not row.prompt[-1:].isspace()

    @property
    def largest(self) -> str:
        """The head with the largest effect, by the first effect that was measured."""
        rows = [row for row in self.of(self.measured[0]).values() if row.is_head]
        return sorted_by(rows, lambda row: abs(row.value), descending=True)[0].part

    @property
    def measured(self) -> tuple[str, ...]:
        """The effects that were measured."""
        return tuple(dict.fromkeys(row.effect for row in self.effects))
