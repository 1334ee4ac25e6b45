"""Bias of estimates of mutual information whose truth is known, by simulation.

Tokens have the same number of states each. With probability `own` a state is in one of its token's
clusters, else in any; clusters are even, or their sizes follow Zipf's law. Cells are the estimate
less the truth in nats, mean over draws.

    python benchmarks/mutual_information.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tyro

from headcount.papers.evolution.mutual_information import ESTIMATES, information

DESIGNS = {
    "the paper's": (1000, 1000, 10_000),
    "25 states a cluster": (300, 50, 600),
    "100 states a cluster": (300, 50, 150),
    "of the reproduction": (100, 400, 200),
}
"""Tokens, states of each, and clusters."""

OWN = (0.0, 0.25, 0.5, 0.98)


@dataclass(frozen=True)
class Arguments:
    """Simulate states whose information about tokens is known."""

    draws: int = 5
    """Number of draws for each row; the paper's design has one."""


def shares(num_tokens: int, num_clusters: int, own: float, is_even: bool) -> np.ndarray:
    """The probability of each cluster, for every token."""
    weight_C = np.ones(num_clusters) if is_even else 1 / np.arange(1, num_clusters + 1)
    is_own_TC = (
        _turns(num_clusters, num_tokens)
        if num_clusters >= num_tokens
        else (_turns(num_tokens, num_clusters).T)
    )
    own_TC = is_own_TC * weight_C
    own_TC /= own_TC.sum(1, keepdims=True)
    return own * own_TC + (1 - own) * weight_C / weight_C.sum()


def _turns(many: int, few: int) -> np.ndarray:
    """Which of the few each of the many belongs to, in turns; [few, many]."""
    return np.arange(many) % few == np.arange(few)[:, None]


def rows(arguments: Arguments) -> Iterator[tuple[str, str, float, np.ndarray]]:
    """Design, kind of clusters, truth, and the biases of all estimates."""
    for design, (num_tokens, states, num_clusters) in DESIGNS.items():
        draws = 1 if num_tokens * states >= 10**6 else arguments.draws
        for kind in ("even", "Zipf"):
            for own in OWN:
                share_TC = shares(num_tokens, num_clusters, own, kind == "even")
                ratio_TC = share_TC / share_TC.mean(0)
                logarithm_TC = np.log(np.where(share_TC > 0, ratio_TC, 1))
                truth = max(0.0, float((share_TC * logarithm_TC).sum() / num_tokens))
                found = [_estimates(share_TC, states, seed) for seed in range(draws)]
                yield design, kind, truth, np.mean(found, 0) - truth


def _estimates(share_TC: np.ndarray, states: int, seed: int) -> list[float]:
    """The plug-in estimate and the corrected ones of one draw."""
    generator = np.random.default_rng(seed)
    count_TC = np.stack([generator.multinomial(states, row) for row in share_TC])
    token_S = np.repeat(np.arange(len(share_TC)), states)
    cluster_S = np.repeat(np.tile(np.arange(share_TC.shape[1]), len(share_TC)), count_TC.ravel())
    found = {row.quantity: row.value for row in information(token_S, cluster_S, "", seed)}
    return [found[name] for name in ("mi", *ESTIMATES)]


def main() -> None:
    """Print the table as Markdown."""
    names = ("plug-in", *(name.removeprefix("mi-") for name in ESTIMATES))
    print(f"| design | clusters | truth | {' | '.join(names)} |\n|{'---|' * (3 + len(names))}")
    for design, kind, truth, bias in rows(tyro.cli(Arguments)):
        cells = " | ".join(f"{each:+.2f}" for each in bias)
        print(f"| {design} | {kind} | {truth:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
