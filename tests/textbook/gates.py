"""Gates by definition: one head at a time, in the papers' words.

References: Louizos et al. 2018, section 2.2, https://arxiv.org/abs/1712.01312; Voita et al. 2019,
section 5, https://arxiv.org/abs/1905.09418; Li et al. 2021, section 4, https://arxiv.org/abs/2108.04657
"""

import math

BETA, LOW, HIGH = 0.33, -0.1, 1.1


def hard_concrete(log_a: float, u: float) -> float:
    """Stretch a binary concrete variable from (0, 1) to (-0.1, 1.1), then fold it into [0, 1]."""
    s = 1 / (1 + math.exp(-(math.log(u / (1 - u)) + log_a) / BETA))
    return min(1.0, max(0.0, s * (HIGH - LOW) + LOW))


def share_open(log_a: float, draws: int = 20000) -> tuple[float, float]:
    """How often a gate is above 0, and how often it is 1, over evenly spaced u."""
    gates = [hard_concrete(log_a, (number + 0.5) / draws) for number in range(draws)]
    return sum(gate > 0 for gate in gates) / draws, sum(gate == 1 for gate in gates) / draws


def relaxed_subset(r: list[float], k: int, temperature: float) -> list[float]:
    """Draw k times softly without replacement: a drawn head becomes less likely in later draws."""
    gates = [0.0] * len(r)
    for _ in range(k):
        largest = max(r)
        weights = [math.exp((each - largest) / temperature) for each in r]
        p = [weight / sum(weights) for weight in weights]
        for head in range(len(r)):
            gates[head] += p[head]
            r = [*r[:head], r[head] + math.log(max(1 - p[head], 1e-38)), *r[head + 1 :]]
    return gates
