"""How well estimates, learned and random rankings of heads find circuits, at few sizes.

    python benchmarks/rankings.py MODEL indirect-objects --steps 120

Each half of the prompts ranks the heads for the other by the estimate of patching and by
Matryoshka attribution (`--steps`). Circuits are judged by the second prompt, as `headcount explain
--circuit --others second` does, but at MIB's sizes and at 4, 8, 16, 24, 32 and 40 heads alone,
which costs a fifth. It prints faithfulness with its intervals, CPR and CMD at MIB's sizes, and the
size from which on 80 % stays.
"""

import argparse
import time

import numpy as np

import headcount
from headcount.explanation import SIGNED, ExplainOptions, Plan, Reader, circuits, read_prompts
from headcount.explanation import circuit_rows as rows
from headcount.explanation.matryoshka import learned
from headcount.explanation.plan import Singles

MORE = (4, 8, 16, 24, 32, 40)


def main() -> None:
    """Rank, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("prompts")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=10**6)
    given = parser.parse_args()
    loaded = headcount.load(given.model)
    options = ExplainOptions(
        effects=("estimate",),
        circuit=True,
        others=("second",),
        steps=given.steps,
        draws=given.draws,
        seed=given.seed,
    )
    reader = Reader(loaded, options)
    cases = [reader.case(each) for each in read_prompts(given.prompts)[: given.number]]
    plan = Plan.of(loaded, cases, options, ())
    start = time.time()

    def tell(what: str, done: int, of: int) -> None:
        print(f"{time.time() - start:7.0f} s  {what} {done}/{of}", flush=True)

    ends, _ = circuits.ends_of(plan)
    singles = Singles.measured(plan, tell)
    ranked = [*circuits.rankings(singles, {}), *learned(ends[0], tell)]
    num = len([*loaded.heads])
    sizes = np.array(sorted({0, num, *rows._mib_sizes(num), *MORE}))
    circuits.sizes_of = lambda num, few=False: sizes  # type: ignore[assignment]
    curves = circuits.curves_of(ends, ranked, tell)
    for curve in curves:
        print(curve.ranking, curve.order)
        for row in curve.rows():
            print(
                f"  {row.heads:4d} {row.value:6.2f} ({row.low:.2f} to {row.high:.2f})", row.shared
            )
        stays = next(each.stays for each in curve.circuits() if each.level == 0.8)
        print(f"  80 % stays from {stays}")
    by = {(each.ranking, each.order): each for each in curves}
    for (ranking, order), curve in by.items():
        if order == SIGNED:
            for area in rows.areas(curve, by.get((ranking, "size"), curve)):
                if area.sizes == "mib":
                    print(
                        ranking, area.scale, f"CPR {area.cpr:.2f} ({area.cpr_low:.2f} to", end=" "
                    )
                    print(
                        f"{area.cpr_high:.2f}), CMD {area.cmd:.2f} ({area.cmd_low:.2f} to", end=""
                    )
                    print(f" {area.cmd_high:.2f})")


if __name__ == "__main__":
    main()
