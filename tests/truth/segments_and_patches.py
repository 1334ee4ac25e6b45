"""Random programs of encoders of two segments and of Vision Transformers, and what is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import headcount
from headcount.core import Head
from headcount.corpora import Corpus, Sentence
from headcount.importance import Options, assess
from headcount.models import Loaded
from headcount.results import Analysis
from headcount.tasks import Classification, ImageClassification, Task
from headcount.testing import Alone, Kind, Pairs, Patches, Planted, planted_model, written
from headcount.testing.patches import COLUMNS, ROWS, pixels
from headcount.vocabulary import TRAITS
from tests.truth.questions import Answer, answer

SITE, HEADS, LABELS, EXAMPLES = "encoder.self", 4, 7, 500
_BESIDE = (TRAITS[key] for key in ("left", "right", "above", "below"))
PLACES = {each.place: each.direction for each in _BESIDE if each.place}
"""What analysis calls a patch beside."""
Names = set[tuple[str, str | int | None]]


def _drawn(
    rng: np.random.Generator, tells: Planted, asks: Planted, kinds: Sequence[Kind]
) -> tuple[Planted, ...]:
    """A head that tells and one that asks it, and two to five others, needed or silent."""
    free = [Head(SITE, layer, index) for layer in range(2) for index in range(HEADS)]
    free = [head for head in free if head not in (tells.head, asks.head)]
    labels, found = rng.permutation(LABELS).tolist(), list[Planted]()
    for number in rng.permutation(len(free)).tolist()[: rng.integers(2, 6)]:
        kind = kinds[int(rng.integers(len(kinds)))]
        about: dict[str, Any] = {"bit": int(rng.integers(LABELS))}
        if kind == "offset":
            about["offset"] = int(rng.integers(-2, 3))
        elif kind == "place":
            about["place"] = [*PLACES][rng.integers(len(PLACES))]
        elif kind == "spot":
            about["place"] = int(rng.integers(ROWS)), int(rng.integers(COLUMNS))
        if kind in ("offset", "segment", "spot") and rng.random() < 0.6:
            evidence = 6.0 if kind == "segment" else 3.0  # a mean is nearer to zero than a bit
            about |= {"purpose": "needed", "label": labels.pop(), "evidence": evidence}
        found.append(Planted(free[number], kind, **{"purpose": "silent", **about}))
    asked = replace(asks, bit=int(rng.integers(LABELS)), label=labels.pop())
    return tells, asked, *found


def drawn_pairs(seed: int) -> Pairs:
    """The program of a seed for an encoder of two segments."""
    rng = np.random.default_rng((11, seed))
    tells = Planted(Head(SITE, 0, 0), "tell", "needed")
    asks = Planted(Head(SITE, 1, 0), "separator", "needed", 0, 0, 3.0, reads_told=True)
    return Pairs(_drawn(rng, tells, asks, ("offset", "first", "separator", "segment")), 2, HEADS)


def drawn_patches(seed: int) -> Patches:
    """The program of a seed for a Vision Transformer."""
    rng = np.random.default_rng((12, seed))
    beside = [*PLACES][rng.integers(len(PLACES))]
    place = int(rng.integers(ROWS)), int(rng.integers(COLUMNS))
    tells = Planted(Head(SITE, 0, 0), "beside", "needed", place=beside)
    asks = Planted(Head(SITE, 1, 0), "spot", "needed", 0, 0, 3.0, reads_told=True, place=place)
    return Patches(_drawn(rng, tells, asks, ("place", "first", "row", "column", "spot")), 2, HEADS)


def _names(planted: Planted) -> Names:
    """The roles that a head should have, each with its offset or its direction."""
    row, column = planted.place
    match planted.kind:
        case "tell" | "offset":
            return {("positional", -1 if planted.kind == "tell" else planted.offset)}
        case "place" | "beside":  # a patch beside is a patch nearby
            return {("positional", PLACES[planted.place]), ("local", None)}
        case "spot":
            return {("spot", f"row {row + 1}, column {column + 1}")}
        case "row" | "column":
            return {("line", planted.kind)}
        case "segment":
            return {("block", None)}
        case _:
            return {("sink", None)}


def _asked(
    of: str,
    program: Alone,
    model: Loaded,
    task: Task,
    analysis: Analysis,
    effects: Sequence[float],
) -> Iterator[Answer]:
    """Roles and worth of every head."""
    named = {
        head: {(e.role, e.direction if e.offset is None else e.offset) for e in some}
        for head, some in analysis.roles.items()
    }
    looks = {str(each.head): _names(each) for each in program.planted}
    rights = (named[head] == names for head, names in looks.items())
    told = (f"{head}: {named[head]}" for head in looks)
    yield answer(f"{of}: heads named, and nothing else", rights, told)
    idle = [head for head in named if head not in looks]
    yield answer(f"{of}: idle heads without a name", (not named[head] for head in idle), idle)
    options = Options(("ablation",), layers=False, one_left=False, samples=99)
    found = assess(model, task, options).heads.frame["ablation_delta"]
    near = (abs(a - b) < 0.15 for a, b in zip(found, effects, strict=True))
    yield answer(f"{of}: loss without the head within 0.15 nats", near, model.heads)


def segments(seed: int, number: int = EXAMPLES) -> Iterator[Answer]:
    """Roles and worth of heads of an encoder that reads two segments."""
    program = drawn_pairs(seed)
    model, texts = planted_model(program, "pairs", seed), program.texts(number, seed)
    first, second = ([written(side) for side in sides] for sides in zip(*texts, strict=True))
    labels = program.classes(texts, seed)
    task = Classification(model, {"text": first, "second": second, "label": labels})
    corpus = [Sentence(one, second=other) for one, other in zip(first, second, strict=True)]
    analysis = headcount.analyze(model, Corpus.from_sentences(corpus))
    effects = program.effects(texts, [(head,) for head in model.heads])
    yield from _asked("segments", program, model, task, analysis, effects)


def patches(seed: int, number: int = EXAMPLES) -> Iterator[Answer]:
    """Roles and worth of heads of a Vision Transformer."""
    program = drawn_patches(seed)
    model, images = planted_model(program, "patches", seed), program.images(number, seed)
    effects = program.effects(images, [(head,) for head in model.heads])
    with TemporaryDirectory() as name:
        paths = [str(Path(name) / f"{n:04}.png") for n in range(number)]
        for path, image in zip(paths, images, strict=True):
            Image.fromarray(pixels(image)).save(path)
        labels = program.classes(images, seed)
        task = ImageClassification(model, {"image": paths, "label": labels})
        analysis = headcount.analyze(model, Corpus(name))
        yield from _asked("patches", program, model, task, analysis, effects)
