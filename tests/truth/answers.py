"""What a right answer about a program is, and what an analysis and an assessment say of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np

import headcount
from headcount.core import Head
from headcount.importance import Options, assess
from headcount.models import Loaded
from headcount.results import Analysis
from headcount.tasks import CausalLanguageModelling, Task, TokenClassification
from headcount.testing import Family, Planted, Program, counts, planted_model, written
from tests.truth.random_programs import drawn_program

Named = tuple[str, int | None]
"""A role, and the offset of a positional one."""

ROLES = {"first": "sink", "punctuation": "punctuation", "rare": "rare", "copy": "induction"}
"""The role of each kind of head that looks at a class of keys."""


@final
@dataclass(frozen=True)
class Known:
    """A model of a program, and texts that follow it."""

    program: Program
    model: Loaded
    texts: Sequence[np.ndarray]
    family: Family
    seed: int

    @classmethod
    def drawn(
        cls, seed: int, family: Family, texts: int = 100, layers: tuple[int, int] = (2, 4)
    ) -> "Known":
        """A random one."""
        program = drawn_program(seed, family, layers)
        model = planted_model(program, family, seed)
        return cls(program, model, program.texts(texts, seed), family, seed)

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """Every head of the model."""
        return tuple(self.model.heads)

    @cached_property
    def written(self) -> list[str]:
        """The texts as they are written."""
        return [written(each) for each in self.texts]

    def task(self) -> Task:
        """The task in which each token's label is predicted."""
        if self.program.is_causal:
            return CausalLanguageModelling(self.model, {"text": self.written})
        labels = [self.program.classes(each, number) for number, each in enumerate(self.texts)]
        words = [each.split() for each in self.written]
        return TokenClassification(self.model, {"words": words, "labels": labels})

    # ------------------------------------------------------------ roles

    def analysis(self) -> Analysis:
        """What is said of the heads."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "counts.txt"
            file.write_text("\n".join(f"{word} {count}" for word, count in counts().items()))
            options = headcount.Options(frequencies=file)
            return headcount.analyze(self.model, headcount.Corpus(self.written), options)

    def role_of(self, planted: Planted) -> Named | None:
        """The role that a head has; None for one that has none."""
        if planted.kind in ("offset", "tell") and not planted.is_gated:
            return "positional", -1 if planted.kind == "tell" else planted.offset
        return None if planted.kind not in ROLES else (ROLES[planted.kind], None)

    def offsets(self, planted: Planted) -> Mapping[int, float]:
        """Share of the queries at each offset of the key that a head looks at."""
        found = Counter[int]()
        for length in {len(each) for each in self.texts}:
            bits_NTK = np.stack([each for each in self.texts if len(each) == length])
            for at in range(length):
                found.update((self.program.looked_at(planted, bits_NTK, at) - at).tolist())
        return {offset: each / found.total() for offset, each in found.items()}

    # ------------------------------------------------------------ worth

    def effects(self) -> Mapping[Head, float]:
        """By how much the loss of a token rises without each head, in nats, by ablation."""
        options = Options(("ablation",), layers=False, one_left=False, samples=99)
        found = assess(self.model, self.task(), options)
        return dict(zip(self.heads, found.heads.frame["ablation_delta"], strict=True))

    def true_effects(self) -> Mapping[Head, float]:
        """The same by the program, in the mean over labels like those of the texts."""
        found = self.program.effects(self.texts, [(head,) for head in self.heads])
        return dict(zip(self.heads, found, strict=True))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Share of pairs in which the positive number is larger; ties count half."""
    difference = np.subtract.outer(positive, negative)
    return float((np.sign(difference) / 2 + 0.5).mean())
