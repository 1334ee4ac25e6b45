"""What probes add to the page of an analysis: what each head adds to the attention probe."""

from collections.abc import Mapping
from typing import final

from headcount import numbers
from headcount.pages import CardPart, PagePart, ProbeHead
from headcount.probing.result import Probed
from headcount.results import Analysis


def probe_heads(found: Probed | None) -> dict[str, ProbeHead]:
    """What each head adds to the attention probe, the most first."""
    weights = () if found is None else found.weights
    ordered = sorted(weights, key=lambda each: -each.contribution)
    return {
        each.head: ProbeHead(
            each.head,
            numbers.nats(each.from_dependent, "+"),
            numbers.nats(each.from_head, "+"),
            f"{numbers.nats(each.contribution, '+')} nats",
            numbers.rank(place, len(ordered)),
        )
        for place, each in enumerate(ordered)
    }


@final
class ProbingPart(PagePart):
    """What heads add to the attention probe, on their cards."""

    def cards(self, run: Analysis) -> Mapping[str, CardPart]:
        """What each head adds."""
        found = probe_heads(run.of(Probed))
        return {head: CardPart(probe=each) for head, each in found.items()}


PART = ProbingPart()
