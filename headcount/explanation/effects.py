r"""Effects: ways to say by how much a head raises what is predicted, each an object with its words.

A direct effect is read off the prediction as it is; a replacement is what is lost if heads output
something else:

$$\mathrm{effect}_h = m - m(o_h \leftarrow o'_h)$$

with m and o as in runs.py. Of a replacement, the effect of several heads together is measured too,
and it says what the heads outside a circuit output. Needs no torch.

An effect of one's own is a final subclass with its words, under a name:

    @headcount.register
    class Halved(Replacement):
        name, label, about = "halved", "halved", "what is lost if the head gives half of its output"
        source = "ours"

        def outputs(self, prompt, row):
            return {layer: each / 2 for layer, each in prompt.clean[row].outputs.items()}
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal, final

import numpy as np
from jaxtyping import Float

from headcount.core import (
    OURS,
    REPAIR,
    Head,
    InputError,
    LayerId,
    Registry,
    amount,
    guarded,
    layer_name,
)
from headcount.explanation.result import EffectWords

if TYPE_CHECKING:
    from headcount.explanation.attribution import Attribution
    from headcount.explanation.changes import Outputs
    from headcount.explanation.prompt_runs import PromptRuns

Need = Literal["second", "looks", "means", "all tokens"]
"""What an effect needs of every prompt: a second prompt, a word to be looked at, of all of them
heads' mean outputs, and that it is measured at all tokens."""


class Effect(ABC):
    """By how much a head raises what is predicted: a `Direct` effect or a `Replacement`."""

    registry: ClassVar[str] = "headcount.explanation.effects:EFFECTS"
    name: ClassVar[str]
    """Name in tables and options."""
    label: ClassVar[str]
    """Name in a heading."""
    about: ClassVar[str]
    """Meaning, as the end of a sentence about it."""
    source: ClassVar[str]
    """Where it is described."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    by_default: ClassVar[bool] = True
    """Whether it is measured where no effects are named, if prompts have what it needs."""

    @classmethod
    def words(cls) -> EffectWords:
        """What tables and pages call it."""
        return EffectWords(cls.label, cls.about, cls.source)


class Direct(Effect):
    """An effect that is read off the prediction as it is, of all heads at once."""

    instead: ClassVar[str | None] = None
    """Name of the effect that is measured where this one can't be."""

    @abstractmethod
    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """What every head adds to what is predicted, and maybe other parts of the model.

        Args:
            prompt: the prompt's runs; `slopes` are gradients at the outputs of heads.

        Returns:
            None where it is not exact for this model.
        """

    @final
    def given(self, prompt: "PromptRuns") -> "Attribution | None":
        """What `of` returns; that of a plug-in is guarded and checked.

        Raises:
            PluginError: if it fails, or returns other than a finite number for each head.
        """
        with guarding(type(self)):
            found = self.of(prompt)
            if not _is_ours(type(self)) and (found is not None or self.instead is None):
                heads = {
                    layer: each.shape[1]
                    for run in prompt.clean
                    for layer, each in run.outputs.items()
                }
                _check_added(found, heads)
        return found


class Replacement(Effect):
    """What is lost if heads output something else."""

    into_second: ClassVar[bool] = False
    """Whether heads are replaced in the second prompt, so that an effect is what it gains."""

    @abstractmethod
    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """What takes the place of heads' outputs in a row of the prompt; None blocks their looks.

        Args:
            prompt: the prompt's runs, with the outputs of all heads in both prompts.
            row: number of the row.
        """

    @final
    def given(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """What `outputs` returns; that of a plug-in is guarded and checked.

        Raises:
            PluginError: if it fails, or returns other than finite outputs of the heads.
        """
        with guarding(type(self)):
            found = self.outputs(prompt, row)
            if not _is_ours(type(self)) and not (found is None and "looks" in self.needs):
                _check_outputs(found, prompt.clean[row].outputs)
        return found

    @final
    def lost(
        self, prompt: "PromptRuns", sets: Sequence[Sequence[Head]]
    ) -> Float[np.ndarray, " set"]:
        """By how much each of some sets of heads raises what is predicted."""
        outputs = [self.given(prompt, row) for row in range(prompt.num_rows)]
        before, after_S = prompt.changed(sets, outputs, second=self.into_second)
        return (before - after_S) * (-1 if self.into_second else 1)


@contextmanager
def guarding(effect: type[Effect]) -> Iterator[None]:
    """A block in which an effect is computed; whatever that of a plug-in raises names it.

    Raises:
        PluginError: if the effect of a plug-in fails, or has no words.
    """
    origin = OURS if _is_ours(effect) else EFFECTS.origin_of(effect)
    with guarded(origin, f"compute the effect {effect.name}", effect):
        words = ("label", "about", "source")
        lacking = [each for each in words if not getattr(effect, each, "")]
        if lacking and origin != OURS:  # some of ours only stand in for others, and are not shown
            raise InputError(
                f"Expected words, got no {' and no '.join(lacking)}. Say in them what is lost."
            )
        yield


def _is_ours(effect: type[Effect]) -> bool:
    return effect.__module__.startswith(f"{OURS.name}.")


def _check_added(found: object, num_heads: Mapping[LayerId, int]) -> None:
    """Check that there is a finite number for each head.

    Raises:
        InputError: if there is not.
    """
    heads, got = getattr(found, "heads", None), ""
    if not isinstance(heads, Mapping):
        got = type(found).__name__
    elif unknown := [layer for layer in heads if layer not in num_heads]:
        got = f"numbers of {layer_name(unknown[0])}, which the model lacks"
    else:
        for layer, number in num_heads.items():
            each = np.asarray(heads.get(layer, ()))
            if each.shape != (number,) or each.dtype.kind not in "fiu":
                got = f"{each.dtype} of shape {each.shape} for {layer_name(layer)}"
            elif not np.isfinite(each).all():
                got = f"NaN or infinity in {layer_name(layer)}"
    if got:
        raise InputError(
            f"Expected an Attribution whose `heads` have a finite number for each head of every "
            f"layer, got {got}. {REPAIR}"
        )


def _check_outputs(found: "Outputs | None", clean: "Outputs") -> None:
    """Check that there are finite outputs of all heads, one token's or as many as the row has.

    Raises:
        InputError: if there are not.
    """
    got = ""
    if not isinstance(found, Mapping) or found.keys() != clean.keys():
        is_mapping = isinstance(found, Mapping)
        got = amount(len(found), "layer") if is_mapping else type(found).__name__
    else:
        for layer, each in clean.items():
            other = found[layer]
            shape: tuple[int, ...] = tuple(getattr(other, "shape", ()))
            if len(shape) != 3 or shape[1:] != each.shape[1:] or shape[0] not in (1, len(each)):
                got = f"shape {shape} in place of {tuple(each.shape)}"
            elif other.dtype != each.dtype or not bool(other.isfinite().all()):
                got = f"{other.dtype} that is not finite, or not {each.dtype}"
    if got:
        raise InputError(f"Expected outputs [token, head, dim] of every layer, got {got}. {REPAIR}")


@final
class DirectAttribution(Direct):
    """What heads' outputs add to the logit by themselves (attribution.py)."""

    name = "attribution"
    label = "attribution"
    about = "what the head's output adds to the logit by itself, with the final norm's scale kept"
    source = "Elhage et al., 2021, transformer-circuits.pub/2021/framework"
    needs = frozenset({"all tokens"})
    instead = "gradient"

    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """Parts of the logit, which add up to it."""
        return prompt.attribution()


@final
class Gradient(Direct):
    """Gradient times output."""

    name = "gradient"
    label = "gradient x output"
    about = "what the head's output adds if everything behind it were linear"
    source = "Shrikumar et al., 2016, arXiv:1605.01713"
    by_default = False

    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """The gradient times outputs, over tokens."""
        return prompt.along([run.outputs for run in prompt.clean])


@final
class Zero(Replacement):
    """Zero in place of outputs."""

    name = "zero"
    label = "zeroed"
    about = "what is lost if the head outputs zero"
    source = "Michel et al., 2019, arXiv:1905.10650"

    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """Zeros at every token."""
        return {
            layer: each.new_zeros((1, *each.shape[1:]))
            for layer, each in prompt.clean[row].outputs.items()
        }


@final
class Mean(Replacement):
    """The mean output over tokens in place of outputs."""

    name = "mean"
    label = "mean instead"
    about = "what is lost if the head outputs its mean"
    source = "Wang et al., 2022, arXiv:2211.00593"
    needs = frozenset({"means"})

    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """The same mean at every token."""
        return prompt.means


@final
class Corrupt(Replacement):
    """Outputs in the second prompt in place of those in the first."""

    name = "corrupt"
    label = "from the second prompt"
    about = "what is lost if the head writes what it writes in the second prompt"
    source = "Vig et al., 2020, arXiv:2004.12265"
    needs = frozenset({"second"})

    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """Outputs in the second prompt, place by place."""
        return prompt.of_second(row)


@final
class Restored(Replacement):
    """Outputs in the first prompt in place of those in the second."""

    name = "restored"
    label = "into the second prompt"
    about = "what the second prompt gains if the head writes what it writes in the first"
    source = "Meng et al., 2022, arXiv:2202.05262"
    needs = frozenset({"second"})
    into_second = True

    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """Outputs in the first prompt, place by place."""
        return prompt.of_first(row)


@final
class Estimate(Direct):
    """Gradient times the difference of outputs in both prompts."""

    name = "estimate"
    label = "estimate of patching"
    about = (
        "gradient times the difference of the head's outputs, an estimate of what is lost if it "
        "writes what it writes in the second prompt"
    )
    source = "Nanda, 2023, neelnanda.io/attribution-patching"
    needs = frozenset({"second"})

    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """The gradient times the difference of outputs, over tokens."""
        return prompt.along(prompt.differences())


class _Integrated(Direct):
    """Integrated gradients, from the second prompt's embeddings, times the difference."""

    steps: ClassVar[int]
    source = "Hanna et al., 2024, arXiv:2403.17806"
    needs = frozenset({"second"})
    by_default = False

    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """The mean gradient times the difference of outputs, over tokens."""
        return prompt.along(prompt.differences(), prompt.integrated(self.steps))


_INTEGRATED = (
    "the mean gradient over {} steps from the second prompt's embeddings to the first's, times the "
    "difference of the head's outputs, an estimate of what is lost if it writes what it writes in "
    "the second prompt"
)


@final
class Integrated5(_Integrated):
    """Five steps."""

    name, label, steps = "integrated-5", "integrated gradients, 5 steps", 5
    about = _INTEGRATED.format("five")


@final
class Integrated10(_Integrated):
    """Ten steps."""

    name, label, steps = "integrated-10", "integrated gradients, 10 steps", 10
    about = _INTEGRATED.format("ten")


@final
class Relp(Direct):
    """Relevance patching: slopes under LRP's rules times the difference of outputs."""

    name = "relp"
    label = "relevance patching"
    about = (
        "the slope under LRP's rules times the difference of the head's outputs, an estimate of "
        "what is lost if it writes what it writes in the second prompt"
    )
    source = "Rezaei Jafari et al., 2025, arXiv:2508.21258"
    needs = frozenset({"second"})
    by_default = False

    def of(self, prompt: "PromptRuns") -> "Attribution | None":
        """The slope times the difference of outputs, over tokens."""
        return prompt.along(prompt.differences(), prompt.relevances())


@final
class Knockout(Replacement):
    """Looks at a word that are blocked."""

    name = "knockout"
    label = "knockout"
    about = (
        "what is lost if the head can't look from where the prediction is made at the target's "
        "word in the prompt, or between the words of --query and --key, wherever these stand"
    )
    source = "Geva et al., 2023, arXiv:2304.14767"
    needs = frozenset({"looks"})

    def outputs(self, prompt: "PromptRuns", row: int) -> "Outputs | None":
        """Nothing: looks are blocked."""
        return None


EFFECTS: Registry[type[Effect]] = Registry(
    "effects",
    "an effect",
    {
        each.name: f"{__name__}:{each.__name__}"
        for each in (
            DirectAttribution,
            Gradient,
            Zero,
            Mean,
            Corrupt,
            Restored,
            Estimate,
            Integrated5,
            Integrated10,
            Relp,
            Knockout,
        )
    },
)
"""Every effect, in the order of tables."""
