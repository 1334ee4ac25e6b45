"""Random programs of encoder-decoders, and what is asked of them: links, roles and worth."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import headcount
from headcount.core import Head
from headcount.corpora import Corpus, Links, Sentence
from headcount.importance import Options, assess
from headcount.models import Loaded
from headcount.tasks import Translation as Task
from headcount.testing import Planted, Translation, planted_model, written
from headcount.testing.alone import Pair
from tests.truth.questions import Answer, answer

TELLS = Planted(Head("encoder.self", 0, 0), "tell", "needed")
MOST, LABELS = 2, 7
"""Largest offset, and number of bits."""


def drawn_translation(seed: int, layers: int = 2, heads: int = 4) -> Translation:
    """The program of a seed: one head tells, two to five are of cross-attention or the decoder."""
    rng = np.random.default_rng((8, seed))
    sites = ("decoder.cross", "decoder.self")
    free = [Head(site, k, i) for site in sites for k in range(layers) for i in range(heads)]
    labels, found = rng.permutation(LABELS).tolist(), [TELLS]
    for number in rng.permutation(len(free))[: rng.integers(2, 6)]:
        head = free[number]
        is_cross = head.site == "decoder.cross"
        offset = int(rng.integers(-MOST, MOST + 1 if is_cross else 1))
        planted = Planted(head, "offset", "silent", int(rng.integers(LABELS)), offset=offset)
        if len(found) == 1 or rng.random() < 0.7:
            reads_told = is_cross and bool(rng.random() < 0.3)
            about = {"label": labels.pop(), "evidence": 3.0, "reads_told": reads_told}
            planted = replace(planted, purpose="needed", **about)
        found.append(planted)
    return Translation(tuple(found), layers, heads)


def corpus_of(pairs: Sequence[Pair]) -> Corpus:
    """Sources with their targets."""
    sides = ([*map(written, pair)] for pair in pairs)
    return Corpus.from_sentences([Sentence(one, target=other) for one, other in sides])


def errors(model: Loaded, pairs: Sequence[Pair]) -> dict[str, float]:
    """Share of wrong links of every head of cross-attention: the words at one place are linked."""
    gold = [frozenset((n, n) for n in range(len(source))) for source, _ in pairs]
    links = headcount.align(model, corpus_of(pairs), [Links(each, each) for each in gold])
    rows = [each for each in links.rows if (each.level, each.quantity) == ("head", "weights")]
    return {each.head: each.aer for each in rows if each.direction == "output"}


def translated(seed: int, number: int = 60) -> Iterator[Answer]:
    """Links, roles and worth of heads of an encoder-decoder."""
    program = drawn_translation(seed)
    model, pairs = planted_model(program, "translator", seed), program.pairs(number, seed)
    wrong = errors(model, pairs)
    straight = {
        str(e.head) for e in program.planted if e.head.site == "decoder.cross" and not e.offset
    }
    rights = ((error == 0 if head in straight else error > 0.5) for head, error in wrong.items())
    yield answer(
        "no link is wrong of heads that look at their place, half of others", rights, wrong
    )
    roles = headcount.analyze(model, corpus_of(pairs)).roles
    named = {head: [(each.role, each.offset) for each in some] for head, some in roles.items()}
    looks = {str(e.head): -1 if e.kind == "tell" else e.offset for e in program.planted}
    rights = (named[head] == [("positional", offset)] for head, offset in looks.items())
    yield answer("heads of an encoder-decoder named, and nothing else", rights, looks)
    idle = [head for head in named if head not in looks]
    yield answer(
        "idle heads of an encoder-decoder without a name", (not named[h] for h in idle), idle
    )
    sources, targets = ([written(side) for side in sides] for sides in zip(*pairs, strict=True))
    options = Options(("ablation",), layers=False, one_left=False, samples=99)
    found = assess(model, Task(model, {"source": sources, "target": targets}), options)
    expected = program.effects(pairs, [(head,) for head in model.heads])
    near = (
        abs(a - b) < 0.15
        for a, b in zip(found.heads.frame["ablation_delta"], expected, strict=True)
    )
    yield answer("encoder-decoder: loss without the head within 0.15 nats", near, model.heads)
