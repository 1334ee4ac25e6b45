"""A model of a program with texts that follow it: what is right to say of its heads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np

from headcount.analysis import Options as AnalysisOptions
from headcount.analysis import analyze
from headcount.core import Head
from headcount.corpora import Corpus
from headcount.explanation import Prompt
from headcount.importance import Options, assess
from headcount.models import Loaded
from headcount.results import Analysis
from headcount.tasks import CausalLanguageModelling, Task, TokenClassification
from headcount.testing.planted import planted_model
from headcount.testing.programs import Family, Planted, Program
from headcount.testing.tokens import counts, word, written

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
    def of(cls, program: Program, family: Family, texts: int = 100, seed: int = 0) -> "Known":
        """The model of a program, and a number of texts that follow it."""
        return cls(
            program, planted_model(program, family, seed), program.texts(texts, seed), family, seed
        )

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
        """What the analysis says of the heads."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "counts.txt"
            file.write_text("\n".join(f"{word} {count}" for word, count in counts().items()))
            options = AnalysisOptions(frequencies=file)
            return analyze(self.model, Corpus(self.written), options)

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
            at_Q = np.arange(length)
            keys_NQ = self.program.looked_at(planted, bits_NTK, at_Q)
            found.update((keys_NQ - at_Q).ravel().tolist())
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

    # ------------------------------------------------------------ one prediction

    def prompts(
        self, planted: Planted, number: int, shortest: int = 9, is_seen: bool = False
    ) -> tuple[Prompt, ...]:
        """Prompts whose next token has the bit that a head tells; the rival has the other one.

        In the second prompt, the bit of the token that the head looks at is the other one.

        Args:
            planted: A head that writes the label.
            number: Largest number of prompts.
            shortest: Least number of tokens of a prompt.
            is_seen: Whether the token that the head looks at is the target itself, which it then
                must read the bit of.
        """
        found, label = list[Prompt](), planted.label
        assert label is not None and (not is_seen or label == planted.bit)
        for bits_TK in self.texts:
            bits_TK = bits_TK[: 1 + len(bits_TK) - len(found) % 3]
            at = len(bits_TK) - 2
            now_TK, next_K = bits_TK[: at + 1].copy(), bits_TK[at + 1].copy()
            at_Q = np.array([at])
            key = int(self.program.looked_at(planted, now_TK[None], at_Q)[0, 0])
            next_K[label] = now_TK[key, planted.bit]
            if is_seen:
                now_TK[key] = next_K
            rival_K, second_TK = next_K.copy(), now_TK.copy()
            rival_K[label] *= -1
            second_TK[key, planted.bit] *= -1
            both_2TK = np.stack([now_TK, second_TK])
            keys_2Q = self.program.looked_at(planted, both_2TK, at_Q)
            if at + 1 >= shortest and (keys_2Q == key).all():
                texts = (written(now_TK), f" {word(next_K)}", f" {word(rival_K)}")
                found.append(Prompt(*texts, written(second_TK)))
            if len(found) == number:
                break
        return tuple(found)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Share of pairs in which the positive number is larger; ties count half."""
    difference = np.subtract.outer(positive, negative)
    return float((np.sign(difference) / 2 + 0.5).mean())
