"""How well estimates, learned and random rankings of heads find circuits, at few sizes.

    python benchmarks/rankings.py MODEL indirect-objects [PROMPTS ...] --steps 120 --seeds 0 1 2
        --effects estimate integrated-5 integrated-10 relp

Each half of the prompts ranks the heads for the other: by each effect, by the mean of their ranks
if there are several, and by Matryoshka attribution (`--steps`), once a seed. Circuits are judged by
the second prompt, as `headcount explain --circuit --others second` does, but at MIB's sizes and at
4, 8, 16, 24, 32 and 40 heads alone, which costs a fifth. It prints faithfulness with its intervals;
then, for each file of prompts, a table of CPR and CMD at MIB's sizes, the size from which on 80 %
stays, and the seconds of processor time that a ranking takes (of a mean of ranks: all its effects).
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import headcount
from headcount.explanation import SIGNED, ExplainOptions, Plan, Reader, circuits, read_prompts
from headcount.explanation import circuit_rows as rows
from headcount.explanation.matryoshka import learned
from headcount.explanation.searching import rankings
from headcount.explanation.singles import Singles
from headcount.models import Loaded

MORE = (4, 8, 16, 24, 32, 40)


def main() -> None:
    """Rank, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("prompts", nargs="+")
    parser.add_argument("--effects", nargs="+", default=["estimate"])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--number", type=int, default=10**6)
    given = parser.parse_args()
    loaded = headcount.load(given.model)
    options = ExplainOptions(
        effects=tuple(given.effects),
        circuit=True,
        others=("second",),
        steps=given.steps,
        draws=given.draws,
        seed=given.seeds[0],
    )
    for name in given.prompts:
        judge(loaded, name, options, given.seeds, given.number)


def judge(
    loaded: Loaded, name: str, options: ExplainOptions, seeds: Sequence[int], number: int
) -> None:
    """Rank the heads for some prompts, judge the rankings and print."""
    reader = Reader(loaded, options)
    cases = [reader.case(each) for each in read_prompts(name)[:number]]
    plan = Plan.of(loaded, cases, options, ())
    (end,), _ = circuits.ends_of(plan)
    seconds = {"random": 0.0}
    singles, effects = Singles.measured(replace(plan, effects=plan.effects[:0]), tell), {}
    for effect in plan.effects:
        start = time.process_time()
        effects |= Singles.measured(replace(plan, effects=[effect]), tell).effects
        seconds[effect.name] = time.process_time() - start
    singles = replace(singles, plan=plan, effects=effects)
    seconds["mean_of_ranks"] = sum(seconds.values())
    ranked = rankings(singles, {})
    for seed in seeds:
        start = time.process_time()
        seeded = replace(end, plan=replace(plan, options=replace(options, seed=seed)))
        ranked += [replace(each, ranking=f"learned {seed}") for each in learned(seeded, tell)]
        seconds[f"learned {seed}"] = time.process_time() - start
    num = len([*loaded.heads])
    sizes = np.array(sorted({0, num, *rows._mib_sizes(num), *MORE}))
    curves = circuits.curves_of([end], ranked, tell, sizes)
    for curve in curves:
        print(name, curve.ranking, curve.order)
        for row in curve.rows():
            print(
                f"  {row.heads:4d} {row.value:6.2f} ({row.low:.2f} to {row.high:.2f})", row.shared
            )
    print("\n".join(table(name, curves, seconds)), flush=True)


def table(name: str, curves: Sequence[rows.Curve], seconds: dict[str, float]) -> Iterator[str]:
    """A line for each ranking."""
    by = {(each.ranking, each.order): each for each in curves}
    yield f"| {name} | 80 % from | stays | CPR | CMD | CPR, log | CMD, log | seconds |"
    for (ranking, order), curve in by.items():
        if order != SIGNED:
            continue
        at_80 = next(each for each in curve.circuits() if each.level == 0.8)
        found = {
            each.scale: (
                f"{each.cpr:.2f} ({each.cpr_low:.2f} to {each.cpr_high:.2f}) | "
                f"{each.cmd:.2f} ({each.cmd_low:.2f} to {each.cmd_high:.2f})"
            )
            for each in rows.areas(curve, by.get((ranking, "size"), curve))
            if each.sizes == "mib"
        }
        yield (
            f"| {ranking} | {at_80.heads} | {at_80.stays} | {found['linear']} | {found['log']} | "
            f"{seconds[ranking]:.0f} |"
        )


def tell(what: str, done: int, of: int) -> None:
    """Print how far it has come, now and then."""
    if done in (1, of) or done % 16 == 0:
        print(f"{time.process_time():7.0f} s  {what} {done}/{of}", flush=True)


if __name__ == "__main__":
    main()
