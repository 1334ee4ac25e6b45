"""Options of an explanation. Needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

from headcount.core import (
    Count,
    Head,
    InputError,
    Seed,
    at_least,
    check_known,
    check_options,
    check_unicode,
    names_a_head,
)
from headcount.corpora import check_template
from headcount.explanation.effects import EFFECTS

STEPS, EXACT = 120, 30
"""By default, for a circuit: steps of learning, and heads of either ranking with exact effects."""
LAST = "last"
"""What stands for the tokens where the prediction is made."""
OTHERS = ("second", "mean", "zero", "resample")
"""What the heads outside a circuit output (circuits.py), besides effects that replace heads."""


@final
@dataclass(frozen=True)
class ExplainOptions:
    """How a prediction is read, and which effects of which heads are measured.

    Raises:
        InputError: for values that can't be used.
    """

    first: bool = False
    """Explain only the first token of a target that has several, not their joint probability."""
    chat: bool = False
    """Write prompts as a user's message in the model's chat template."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""
    known: bool = False
    """Leave out prompts for which the model prefers the rival, and count them."""
    effects: Annotated[tuple[str, ...], EFFECTS] = ()
    """Effects to measure; by default all but integrated-5, integrated-10 and relp, those of a
    second prompt where there is one."""
    heads: tuple[str, ...] = ()
    """Heads to replace, such as dec.3.7; all by default."""
    at: str | None = None
    """Tokens at which heads are replaced: those of a word of the prompt, wherever it occurs, or
    last, where the prediction is made; all by default."""
    each_position: bool = False
    """Replace the ten best heads at each token alone, too."""
    query: str | None = None
    """Word that may not look at --key; by default the tokens that predict."""
    key: str | None = None
    """Word that --query may not look at; by default the target, wherever the prompt has it."""
    together: Annotated[tuple[int, ...], at_least(1)] = (1, 3, 5, 10)
    """Numbers of the best heads that are replaced together."""
    reasons: Annotated[int, at_least(0)] = 5
    """Number of best heads for which to trace why they look where they look; 0 for none."""
    backups: Annotated[int, at_least(0)] = 0
    """Number of best heads for which to find the heads that make up for them; each takes a pass
    with a row for every other head."""
    circuit: bool = False
    """Find the smallest sets of heads that keep the prediction; needs several prompts."""
    units: tuple[Literal["heads", "mlps"], ...] = ("heads",)
    """What circuits are made of: heads alone, which keep all MLPs, or heads and mlps."""
    others: tuple[str, ...] = ()
    """What the heads outside a circuit output: second (their outputs in the second prompt),
    mean, zero, resample (their outputs in other prompts); by default second, if there is one,
    and mean."""
    steps: Annotated[int | None, at_least(0)] = None
    """Steps in which each half of the prompts learns a nested ranking of the heads for circuits
    (Matryoshka attribution; 500 in its paper); by default 120 for a circuit without --effects."""
    learners: Count = 1
    """Number of learners of this ranking, which share batches; scores are their mean."""
    exact: Annotated[int | None, at_least(0)] = None
    """Number of best heads by the first effect, and by the learned ranking, that are replaced one
    by one to rank them again for circuits; by default 30 for a circuit without --effects."""
    draws: Count = 3
    """Number of sets of random heads beside the best ones."""
    seed: Seed = 0
    """Seed of the random heads."""

    def __post_init__(self) -> None:
        check_options(self)
        check_template(self.chat, self.template)
        for name in ("query", "key", "at"):
            check_unicode(getattr(self, name) or "", name)
        for effect in self.effects:
            EFFECTS.find(effect)
        for head in self.heads:
            if not names_a_head(head):
                Head.parse(head)
        if self.at is not None and (self.circuit or "attribution" in self.effects):
            raise InputError(
                f"Expected heads that are replaced at all tokens for {'a circuit' * self.circuit}"
                f"{'attribution' * (not self.circuit)}, got --at {self.at!r}. Leave one out."
            )
        if self.at is not None and self.each_position:
            raise InputError(
                f"Expected heads that are replaced at each token or at some, got --each-position "
                f"and --at {self.at!r}. Leave one out."
            )
        if self.circuit and self.heads:
            raise InputError(
                f"Expected all heads for a circuit, got {' '.join(self.heads)} alone. Leave "
                "--heads or --circuit out."
            )
        if "heads" not in self.units:
            raise InputError(
                f"Expected heads among the units of a circuit, got {' '.join(self.units)}. Write "
                "--units heads mlps."
            )
        if self.has_mlps and not self.circuit:
            raise InputError(
                "Expected a circuit, which MLPs belong to, got --units heads mlps without one. Add "
                "--circuit, or leave --units out."
            )
        for name in self.others:
            check_known("an output of other heads", name, (*OTHERS, *EFFECTS), "(one of {})")
        for name, number in {"steps": self.steps, "exact": self.exact}.items():
            if number and not self.circuit:
                raise InputError(
                    f"Expected a circuit, for which heads are ranked, got --{name} {number} "
                    f"without one. Add --circuit, or leave --{name} out."
                )
        if self.others and not self.circuit:
            raise InputError(
                f"Expected a circuit, outside which heads give something else, got --others "
                f"{' '.join(self.others)} without one. Add --circuit, or leave --others out."
            )

    @property
    def has_mlps(self) -> bool:
        """Whether circuits are made of MLPs, too."""
        return "mlps" in self.units

    @property
    def learning(self) -> int:
        """Steps of learning."""
        return self._of_circuit(self.steps, STEPS)

    @property
    def refining(self) -> int:
        """Number of best heads of a ranking whose effects are measured one by one."""
        return self._of_circuit(self.exact, EXACT)

    def _of_circuit(self, asked: int | None, usual: int) -> int:
        """What was asked for, or else what is usual for a circuit without effects."""
        return asked if asked is not None else usual * (self.circuit and not self.effects)
