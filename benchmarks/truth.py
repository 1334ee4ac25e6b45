"""What headcount says of models of which every head is known, and how often it is right.

    python benchmarks/truth.py --models 100
    python benchmarks/truth.py --models 30 --parts roles scores --weights noisy --out noisy

Models are those of the seeds from 0 on, whose families take turns. What is done is kept in the
folder, and a second run goes on from there. The table goes to the screen and to `truth.md`.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np
from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).parents[1]))

from headcount.core import Kept
from headcount.testing import Family
from tests.truth.changed import noisy, trained
from tests.truth.compiled import compiled
from tests.truth.questions import QUESTIONS, Answer
from tests.truth.random_programs import drawn
from tests.truth.segments_and_patches import patches, segments
from tests.truth.translations import translated
from tests.truth.two_models import compared, followed

FAMILIES: tuple[Family, ...] = ("gpt2", "llama", "grouped", "encoder")
TEXTS, DRAWS = {"roles": 200, "scores": 200, "ablation": 200}, 2000
FEW = 100
"""Number of texts for the other parts."""
ASKED = {**QUESTIONS, "compare": compared, "follow": followed}
OTHERS = {"translation": translated, "segments": segments, "patches": patches}
"""Parts about models of their own."""
PARTS = (*ASKED, *OTHERS)
WEIGHTS = ("by hand", "noisy", "trained", "compiled")
WHICH = "as they are set, with noise, trained on, or by torchwright (which needs the extra truth)"


@final
@dataclass(frozen=True)
class Answers:
    """Every answer about one model."""

    answers: tuple[Answer, ...]


def answered(part: str, weights: str, seed: int, layers: tuple[int, int]) -> Answers:
    """The answers of a part about the model of a seed."""
    if part in OTHERS:
        return Answers(tuple(OTHERS[part](seed)))
    with TemporaryDirectory() as folder:
        if weights == "compiled":
            known = compiled(seed, Path(folder) / "model", TEXTS.get(part, FEW))
        else:
            family = FAMILIES[seed % len(FAMILIES)]
            known = drawn(seed, family, TEXTS.get(part, FEW), layers)
        changed = {"noisy": noisy, "trained": trained}.get(weights)
        return Answers(tuple(ASKED[part](changed(known) if changed else known)))


def interval(answers: Sequence[Answer]) -> tuple[float, float]:
    """The 95 % interval of the share that is right: exact, or over models if it is wider."""
    right = np.array([each.right for each in answers])
    asked = np.array([each.asked for each in answers])
    exact = binomtest(int(right.sum()), int(asked.sum())).proportion_ci()
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(asked), size=(DRAWS, len(asked)))
    shares = right[drawn].sum(1) / asked[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return min(exact.low, low), max(exact.high, high)


def rows(found: dict[str, list[Answer]]) -> Iterator[str]:
    """The table in Markdown."""
    yield "| question | right | of | share | 95 % | models |"
    yield "|---|---:|---:|---:|---:|---:|"
    for question, answers in found.items():
        asked = [each for each in answers if each.asked]
        if asked:
            right, number = (sum(getattr(each, at) for each in asked) for at in ("right", "asked"))
            low, high = interval(asked)
            share = f"{right / number:.3f} | {low:.3f} to {high:.3f}"
            yield f"| {question} | {right:g} | {number} | {share} | {len(asked)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask about models of which every head is known.")
    parser.add_argument("--models", type=int, default=30, help="number of models")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--weights", choices=WEIGHTS, default="by hand", help=WHICH)
    parser.add_argument("--layers", nargs=2, type=int, default=(2, 8), help="least and most layers")
    parser.add_argument("--out", type=Path, default=Path("truth"), help="folder of what is done")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    layers = (given.layers[0], given.layers[1])
    found = defaultdict[str, list[Answer]](list)
    for part in given.parts:
        file, key = (
            given.out / f"{part}.json",
            f"{given.weights}|layers:{layers}|texts:{TEXTS.get(part, FEW)}",
        )
        kept = Kept(file, key, "the answers about some models", Answers)
        units = (
            (str(seed), partial(answered, part, given.weights, seed, layers))
            for seed in range(given.models)
        )
        for seed, one in enumerate(kept.results(units)):
            for each in one.answers:
                found[f"{part}: {each.question}"].append(each)
                for wrong in each.wrong:
                    print(f"{part} {seed}: {each.question}: not {wrong}", flush=True)
    table = "\n".join(rows(found))
    (given.out / "truth.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
