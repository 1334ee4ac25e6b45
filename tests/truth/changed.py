"""Known models that are no longer clean: with noise on all weights, and trained on."""

import copy
from dataclasses import replace

import numpy as np
import torch

from headcount.testing import Known, vocabulary

ACCURACY = 0.9
"""Share of the label's bits that a noisy model still gets right."""
STEPS, RATE, BATCH = 50, 1e-6, 16


def noisy(known: Known) -> Known:
    """With every weight multiplied by 1 + s e, e normal, and s so that accuracy falls to 90 %."""
    low, high = -14.0, 0.0  # powers of 2
    for _ in range(12):
        middle = (low + high) / 2
        if accuracy(_shaken(known, 2.0**middle)) >= ACCURACY:
            low = middle
        else:
            high = middle
    return _shaken(known, 2.0**low)


def _shaken(known: Known, size: float) -> Known:
    other = copy.deepcopy(known.model.model)
    generator = torch.Generator().manual_seed(known.seed)
    with torch.no_grad():
        for each in other.parameters():
            each.mul_(1 + size * torch.randn(each.shape, generator=generator))
    return replace(known, model=replace(known.model, model=other))


def trained(known: Known) -> Known:
    """After some steps of Adam on other texts of the program."""
    other = copy.deepcopy(known.model.model).train()
    rng = np.random.default_rng((7, known.seed))
    optimizer = torch.optim.Adam(other.parameters(), lr=RATE)
    more = known.program.texts(STEPS * BATCH, known.seed + 1000, shortest=24)
    classes = [known.program.classes(each, number) for number, each in enumerate(more)]
    for _ in range(STEPS):
        chosen = rng.choice(len(more), BATCH, replace=False)
        ids_EN = torch.tensor(np.stack([_ids(more[number]) for number in chosen]))
        causal = known.program.is_causal
        labels_EN = ids_EN if causal else torch.tensor([classes[number] for number in chosen])
        other(input_ids=ids_EN, labels=labels_EN).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return replace(known, model=replace(known.model, model=other.eval()))


def accuracy(known: Known, texts: int = 20) -> float:
    """Share of the bits that heads tell of which the model says what the program says."""
    program, right = known.program, list[bool]()
    for bits_TK in known.texts[:texts]:
        with torch.no_grad():
            logits_TV = known.model.model(torch.tensor(_ids(bits_TK))[None]).logits[0]
        for number, label in enumerate(program.labels):
            writers = program.writers(label)
            odds_T = sum(
                each.evidence * program.reads(each, [bits_TK])[0] for each in writers
            ) + np.zeros(len(bits_TK))
            codes_V = vocabulary()[:, label]
            scores_TV = logits_TV[:, 1:].numpy()
            if not program.is_causal:
                codes_V = 2 * (np.arange(logits_TV.shape[1]) >> number & 1) - 1
                scores_TV = logits_TV.numpy()
            said_T = codes_V[scores_TV.argmax(1)]
            right += (said_T == np.sign(odds_T))[np.abs(odds_T) > 1].tolist()
    return float(np.mean(right)) if right else 1.0


def _ids(bits_TK: np.ndarray) -> np.ndarray:
    return 1 + ((bits_TK > 0) @ (1 << np.arange(bits_TK.shape[1])))
