"""What must hold for every effect: laws, truth about planted models, chance, words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import isabstract
from math import isnan

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headcount.core import LayerId, amount
from headcount.corpora import Corpus
from headcount.explanation import (
    EFFECTS,
    Direct,
    Effect,
    Explained,
    ExplainOptions,
    Plan,
    Prompt,
    Reader,
    Replacement,
    explain,
)
from headcount.numbers import percent
from headcount.testing.checks import LeftOut, check, expect, expect_same, expect_words, shown
from headcount.testing.examples import PROMPTS, at_random, made_at_random, planted
from headcount.testing.known import Known
from headcount.testing.laws import leaving_no_trace

CUT = 2
"""Number of words by which a prompt is shortened, to see what depends on them."""
LEVEL = 0.01
"""P-value after correction below which a head of a random model has an effect for certain."""


@dataclass(frozen=True)
class EffectSubject:
    """An effect to check."""

    effect: type[Effect]


@contextmanager
def _registered(effect: type[Effect]) -> Iterator[None]:
    """A block in which explanations know an effect by name."""
    if effect.name in EFFECTS and EFFECTS[effect.name] is effect:
        yield
        return
    EFFECTS.add(effect)
    try:
        yield
    finally:
        EFFECTS.remove(effect.name)


def _prompts(given: EffectSubject, known: Known) -> tuple[Prompt, ...]:
    """Prompts that only the first planted head completes, with a second one if that is needed."""
    found = known.prompts(known.program.planted[0], PROMPTS, is_seen=True)
    assert len(found) == PROMPTS
    if "second" in given.effect.needs:
        return found
    return tuple(replace(each, corrupt=None) for each in found)


@lru_cache(maxsize=3)
def _of_all(
    given: EffectSubject, make: Callable[[], Known], heads: tuple[str, ...] = ()
) -> Explained:
    """The effect on all prompts of a model, which several checks look at."""
    known = make()
    return _explained(given, known, _prompts(given, known), heads, together=(1,))


def _explained(
    given: EffectSubject,
    known: Known,
    prompts: Sequence[Prompt],
    heads: tuple[str, ...] = (),
    together: tuple[int, ...] = (),
) -> Explained:
    """The effect of the heads on what prompts make a model predict."""
    with _registered(given.effect):
        options = ExplainOptions(
            effects=(given.effect.name,), heads=heads, together=together, draws=1
        )
        texts = Corpus(known.written[:PROMPTS])
        return explain(known.model, prompts, options=options, texts=texts)


def _values(given: EffectSubject, found: Explained, known: Known) -> Float[np.ndarray, " head"]:
    by_part = {row.part: row.value for row in found.effects if row.effect == given.effect.name}
    missing = [str(head) for head in known.heads if str(head) not in by_part]
    expect(not missing, f"{', '.join(missing)} have no effect called {given.effect.name}")
    return np.array([by_part[str(head)] for head in known.heads])


@check("laws")
def numbers(given: EffectSubject) -> str:
    """Every head has a finite effect."""
    known = at_random()
    found = _values(given, _of_all(given, at_random), known)
    unknown = [str(head) for head, x in zip(known.heads, found, strict=True) if not np.isfinite(x)]
    expect(not unknown, f"{', '.join(unknown)} have no finite effect")
    return f"{found.min():.3g} to {found.max():.3g} nats"


@check("laws")
def batches(given: EffectSubject) -> str:
    """Which prompts are read together, and their padding, change nothing."""
    known = at_random()
    prompts = _prompts(given, known)[:4]
    found = _values(given, _explained(given, known, prompts), known)
    alone = [_values(given, _explained(given, known, [each]), known) for each in prompts]
    return expect_same(np.mean(alone, axis=0), found, "one by one", known.heads, 1e-3)


@check("laws")
def order(given: EffectSubject) -> str:
    """The order of prompts changes nothing."""
    known = at_random()
    found = _values(given, _of_all(given, at_random), known)
    other = _values(given, _explained(given, known, _prompts(given, known)[::-1]), known)
    return expect_same(other, found, "in another order", known.heads)


@check("laws")
def causal(given: EffectSubject) -> str:
    """In a decoder, what takes the place of a token's outputs does not depend on later tokens."""
    if not issubclass(given.effect, Replacement):
        raise LeftOut("it is read off the prediction")
    known = at_random()
    prompt = _prompts(given, known)[0]
    cut = [each and " ".join(each.split()[:-CUT]) for each in (prompt.prompt, prompt.corrupt)]
    shorter = replace(prompt, prompt=cut[0] or "", corrupt=cut[1])
    whole, part = _outputs(given, known, (prompt, shorter))
    if whole is None or part is None:
        raise LeftOut("it blocks where heads look")
    tokens = len((cut[0] or "").split())
    for layer, each in part.items():
        gap = (each[:tokens] - whole[layer][:tokens]).abs().amax((1, 2))
        worst = int(gap.argmax())
        share = float(gap[worst] / each.abs().max().clamp_min(1e-12))
        text = f"token {worst} of layer {layer.layer} changes with what follows"
        expect(share < 1e-3, f"{text}, by {percent(share)} of the layer's largest output")
    return f"{amount(tokens, 'token')} are replaced alike, whatever follows"


def _outputs(
    given: EffectSubject, known: Known, prompts: Sequence[Prompt]
) -> list[Mapping[LayerId, Tensor] | None]:
    """What takes the place of heads' outputs in some prompts."""
    with _registered(given.effect):
        options = ExplainOptions(effects=(given.effect.name,))
        reader = Reader(known.model, options)
        cases = [reader.case(each) for each in prompts]
        plan = Plan.of(
            known.model, cases, options, [reader.text(text) for text in known.written[:PROMPTS]]
        )
        (effect,) = plan.replacements
        return [effect.given(plan.runs(n), 0) for n in range(len(cases))]


@check("laws")
def trace(given: EffectSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    known = made_at_random()
    inputs = next(iter(known.task().batches())).inputs
    with leaving_no_trace(known.model.model, dict(inputs)):
        _explained(given, known, _prompts(given, known)[:2])
    return f"{len(known.model.model.state_dict())} weights and all outputs are the same bit for bit"


@check("truth")
def dead(given: EffectSubject) -> str:
    """In a planted model, heads have no effect if nothing reads what they write."""
    known = planted()
    found = _values(given, _of_all(given, planted), known)
    by_head = dict(zip(known.heads, found, strict=True))
    effects = {head: x for head, x in by_head.items() if head not in known.program.needed}
    worst = max(effects, key=lambda head: abs(effects[head]))
    text = f"dead heads have effects up to {abs(effects[worst]):.2g} nats ({worst})"
    expect(abs(effects[worst]) < 1e-4, text)
    return text


@check("truth")
def found(given: EffectSubject) -> str:
    """In a planted model, the head that makes the prediction has an effect, and no other has."""
    known = planted()
    values = _values(given, _of_all(given, planted), known)
    by_head = dict(zip(known.heads, values, strict=True))
    true = known.program.planted[0].head
    effect = by_head.pop(true)
    other = max(by_head, key=lambda head: abs(by_head[head]))
    text = f"{true}, which makes it, {effect:.3g} nats; {other} {by_head[other]:.3g}"
    expect(effect > 0 and abs(by_head[other]) < 0.01 * effect, text)
    return text


@check("nulls")
def chance(given: EffectSubject) -> str:
    """With random weights, no head has an effect for certain."""
    known = at_random()
    result = _of_all(given, at_random)
    p = {row.part: row.p for row in result.effects if row.is_head and not isnan(row.p)}
    expect(p, f"no head was tested, of {len(known.heads)}")
    least = min(p, key=lambda part: p[part])
    text = f"least p after correction {p[least]:.2g} ({least})"
    expect(p[least] > LEVEL, text)
    return text


@check("words")
def words(given: EffectSubject) -> str:
    """It has a name, a meaning and a source, and documents with 0, 1 and all heads read well."""
    its = given.effect
    expect(issubclass(its, Direct | Replacement), f"{its.__name__} is no Direct or Replacement")
    expect(not isabstract(its), f"{its.__name__} lacks {', '.join(its.__abstractmethods__)}")
    expect_words("the name", its.name)
    expect_words("the label", its.label)
    expect_words("the meaning", its.about)
    expect_words("the source", its.source)
    for make, heads in ((at_random, ()), (planted, ()), (planted, ("dec.0.1",))):
        shown("explain", _of_all(given, make, heads))
    return f"{its.label}: {its.about} ({its.source})"


EFFECT_CHECKS = (numbers, batches, order, causal, trace, dead, found, chance, words)
"""What is asked of every effect."""


def effect_subject(given: str | type[Effect]) -> EffectSubject:
    """An effect as given to `check_effect`: its name, or its class."""
    return EffectSubject(EFFECTS[given] if isinstance(given, str) else given)
