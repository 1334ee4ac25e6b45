r"""Explained: by how much every head raises what a model predicts, and several heads together.

Circuits: how much of a prediction is left with some heads only, the others giving what they give in
the second prompt (or their means, zero, what they give in other prompts).

$$f(S) = \frac{m(S) - m(\emptyset)}{m(H) - m(\emptyset)}, \qquad
  \mathrm{CPR} = \int_0^1 f(S_k) \, dk, \qquad \mathrm{CMD} = \int_0^1 |1 - f(S'_k)| \, dk$$

m(S) is the mean prediction over prompts with the heads S as they are and all others replaced, H all
heads, f faithfulness, S_k the share k of the heads with the highest scores, and S'_k that with the
largest. CPR is high and CMD low for a good ranking; CMD is 0 only if every size of circuit predicts
what all heads do, and heads that work against the prediction raise CPR above 1, not CMD. Integrals
are by trapezoids between the sizes that were measured (`ours`), or from .1 to 100 % of the heads at
ten sizes that are rounded down (`mib`); beside those over the share stand those over its logarithm,
divided by its range.

Reference: MIB: A Mechanistic Interpretability Benchmark (Mueller et al., 2025), section 3,
    https://arxiv.org/abs/2504.13151
Departure: parts are heads, not edges or nodes of all kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final, get_args

from headcount.core import SITES, sorted_by
from headcount.results import ModelRecord, Result, Signature, table

Order = Literal["signed", "size"]
"""Whether the best heads are those with the highest scores, or with the largest."""
ORDERS: tuple[Order, ...] = get_args(Order)
SIGNED: Order = "signed"
Grid = Literal["ours", "mib"]
"""Sizes of circuits over which areas are taken."""
Scale = Literal["linear", "log"]
"""Whether areas are over the share of heads, or over its logarithm."""
LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Shares of the prediction that the smallest circuits keep."""


@dataclass(frozen=True)
class FaithfulnessRow:
    """How much of the prediction is left with a number of best heads."""

    ranking: str
    """Effect or score by which heads are the best, or `random`."""
    heads: int
    """Number of heads that are as they are."""
    value: float
    """Faithfulness."""
    low: float
    """Lower end of the 95 % interval over prompts (Student, of a ratio by linearisation)."""
    high: float
    """Upper end."""
    shared: float
    """Number of these heads that both halves of the prompts chose; of random ones, a mean.
    NaN for scores of other data, which choose the same heads for both."""
    others: str = field(default="mean", kw_only=True)
    """What the other heads give, by name."""
    order: str = field(default=SIGNED, kw_only=True)
    """Whether the best heads have the highest scores (`signed`) or the largest (`size`)."""


@final
@dataclass(frozen=True)
class CircuitRow(FaithfulnessRow):
    """The smallest set of best heads that keeps a share of the prediction."""

    level: float
    """The share of the prediction."""
    chance: float
    """Number of heads that two random sets of this size share on average."""
    names: str
    """Names of the heads; those that either half of the prompts is measured with, between |."""
    stays: int = field(default=-1, kw_only=True)
    """Number of best heads from which on this share is kept by all larger sets, too; −1 in tables
    of versions without."""


@final
@dataclass(frozen=True)
class AreaRow:
    """How good a ranking is over all sizes of circuits."""

    ranking: str
    """Effect or score by which heads are the best, or `random`."""
    cpr: float
    """Area under faithfulness (CPR)."""
    cpr_low: float
    """Lower end of its 95 % interval over prompts."""
    cpr_high: float
    """Upper end."""
    cmd: float
    """Area between faithfulness and 1 (CMD)."""
    cmd_low: float
    """Lower end of its 95 % interval over prompts."""
    cmd_high: float
    """Upper end."""
    others: str = field(default="mean", kw_only=True)
    """What the other heads give, by name."""
    sizes: str = field(default="ours", kw_only=True)
    """Sizes of circuits over which the areas are taken: `ours`, or `mib`."""
    scale: str = field(default="linear", kw_only=True)
    """Whether they are over the share of heads (`linear`) or its logarithm (`log`)."""


@final
@dataclass(frozen=True)
class ComplementRow:
    """What is predicted if all heads give something else, as those outside a circuit do."""

    others: str
    """Its name."""
    about: str
    """What they give, as the end of a sentence."""
    nothing: float
    """What is predicted, in nats; the mean over prompts."""
    gain: float
    """By how much the heads as they are raise that, m(H) - m(∅)."""
    low: float
    """Lower end of its 95 % interval over prompts; NaN below 8 blocks."""
    high: float
    """Upper end."""


@final
@dataclass(frozen=True)
class StabilityRow:
    """How far the circuits of other prompts like these agree, by Jaccard's index."""

    ranking: str
    """Effect by which heads are the best."""
    heads: int
    """Number of heads of a circuit."""
    value: float
    """Index of two circuits, each of prompts drawn again by blocks; the mean over pairs."""
    low: float
    """2.5 % of the pairs of circuits agree less."""
    high: float
    """2.5 % of them agree more."""
    halves: float
    """Index of the circuits of both halves of the prompts, which share no prompt."""
    chance: float
    """Index that two random sets of this size have on average."""


@final
@dataclass(frozen=True)
class StableRow:
    """How certain it is that a head belongs to the circuit."""

    head: str
    """Name of the head."""
    share: float
    """Share of the circuits of prompts drawn again that it is in."""
    verdict: str
    """`in`, `undecided` or `out`."""
    lost: float
    """By how much the faithfulness of all that are in or undecided drops without it; NaN if out."""
    p: float
    """P-value that nothing is lost on average, corrected for these heads (Holm)."""


@final
@dataclass(frozen=True)
class KeptRow:
    """How much of the prediction the heads of a stable circuit keep."""

    prompts: str
    """The prompts: `these`, which chose the heads, or the name of others."""
    kept: str
    """The heads that are kept: `in`, `in and undecided`, or the `rest`."""
    heads: int
    """Number of them."""
    value: float
    """Faithfulness."""
    low: float
    """Lower end of the 95 % interval over prompts."""
    high: float
    """Upper end."""

    @property
    def is_equivalent(self) -> bool:
        """Whether these heads do what the model does, within a fifth (two one-sided tests)."""
        return self.low >= 0.8 and self.high <= 1.2

    @property
    def is_independent(self) -> bool:
        """Whether nothing says that these heads know the answer."""
        return self.low <= 0 <= self.high


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
    """What is predicted if all heads give what those outside a circuit give, by the first of the
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
    written: tuple[WrittenRow, ...] = table(
        "written.parquet", "the tokens that heads promote and demote", default=()
    )
    """A row for each head and each of a few tokens, the largest first, if there is one prompt; none
    where attribution is not exact or was not measured."""
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
        return len(self.prompts) == 1 and Signature.parse(self.record.signature).get("chat") is None

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
        return row.target[:1].isalnum() and not row.prompt[-1:].isspace()

    @property
    def largest(self) -> str:
        """The head with the largest effect, by the first effect that was measured."""
        rows = [row for row in self.of(self.measured[0]).values() if row.is_head]
        return sorted_by(rows, lambda row: abs(row.value), descending=True)[0].part

    @property
    def measured(self) -> tuple[str, ...]:
        """The effects that were measured."""
        return tuple(dict.fromkeys(row.effect for row in self.effects))
