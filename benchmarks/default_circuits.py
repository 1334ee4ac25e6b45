"""What `headcount explain --circuit` finds and costs by default, on five tasks of 64 prompts.

    python benchmarks/default_circuits.py MODEL OUT [TASK ...]

Two tasks come with headcount (`indirect-objects-flipped`, `arithmetic`); the prompts of three are
made here, from 16 sets of names or nouns, and written to OUT: `names` (indirect objects whose
second prompt has a third name), `agreement` (of a verb with the first of two nouns) and `years` (a
later year of the same century). Each task is explained in a process of its own. Printed are the
seconds of processor time, the sizes from which on 80 % stays, areas at MIB's sizes, and the
stable circuit.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from headcount.explanation import Explained

SHIPPED = ("indirect-objects-flipped", "arithmetic")
PAIRS = "Mary John Tom Sarah Anna Paul Emma James Alice Robert Kevin Laura Kate Justin Jane Steve"
THIRD = (
    "Ben Carol Alan Rachel Simon Linda Oscar Julia Henry Clara Bruce Diana Felix Grace Neil Rose"
)
MORE = "David Peter Lucy Mark Susan Eric Helen Frank Martha Brian Nancy Scott Karen Jason Lisa Ryan"
SCENES = (
    "When {0} and {1} went to the store, {2} gave a drink to",
    "After {0} and {1} sat down for lunch, {2} passed the salt to",
)
NOUNS = (
    "key cabinet, picture mountain, author book, label bottle, price apple, sound train, "
    "door house, road village, letter friend, owner shop, colour flower, name street, "
    "teacher school, taste drink, roof church, leader group"
)
VERBS = ((" is", " are"), (" was", " were"))
THINGS = (
    "war siege strike voyage reign trial project drought famine festival journey campaign debate "
    "exhibition conflict lease"
)


def names() -> Iterator[dict[str, str]]:
    """Indirect objects; the second prompt has a third name in the second place."""
    for one, other, third in zip(PAIRS.split(), MORE.split(), THIRD.split(), strict=True):
        for scene, (a, b) in product(SCENES, [(one, other), (other, one)]):
            yield {
                "prompt": scene.format(a, b, b),
                "target": f" {a}",
                "against": f" {b}",
                "corrupt": scene.format(a, b, third),
            }


def agreement() -> Iterator[dict[str, str]]:
    """A verb agrees with the first of two nouns; the second prompt has it in the other number."""
    for pair in NOUNS.split(", "):
        noun, other = pair.split()
        for number, verbs in product((0, 1), VERBS):
            subject = (noun, f"{noun}s")
            end = "s" if number == 0 else ""
            yield {
                "prompt": f"The {subject[number]} of the old {other}{end}",
                "target": verbs[number],
                "against": verbs[1 - number],
                "corrupt": f"The {subject[1 - number]} of the old {other}{end}",
            }


def years() -> Iterator[dict[str, str]]:
    """A later decade; the second prompt begins in the first decade of the century."""
    for block, thing in enumerate(THINGS.split()):
        for n, century in enumerate((14, 15, 17, 18)):
            decade = 2 + (block + n) % 5
            yield {
                "prompt": f"The {thing} lasted from the year {century}{decade}{block % 8 + 1} to "
                f"the year {century}",
                "target": str(decade + 2),
                "against": str(decade - 2),
                "corrupt": f"The {thing} lasted from the year {century}0{block % 8 + 1} to the "
                f"year {century}",
            }


MADE = {"names": names, "agreement": agreement, "years": years}


def main() -> None:
    """Explain each task and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("tasks", nargs="*", default=[*MADE, *SHIPPED])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for task in given.tasks:
        prompts = task
        if task in MADE:
            prompts = given.out / f"{task}.jsonl"
            rows = [json.dumps(each) for each in MADE[task]()]
            prompts.write_text("\n".join(rows) + "\n", encoding="utf-8")
        folder, before = given.out / task, _seconds()
        arguments = ["explain", given.model, "--prompts", prompts, "--circuit", "--out", folder]
        subprocess.run([sys.executable, "-m", "headcount", *map(str, arguments)], check=True)
        print(f"{task}: {_seconds() - before:.0f} s of processor time", flush=True)
        _print(Explained.read(folder))


def _seconds() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print(found: Explained) -> None:
    print(f"  predicted {found.record.value:.2f} nats")
    stays = {
        (row.others, row.ranking): row.stays
        for row in found.circuits
        if row.level == 0.8 and row.order == "signed"
    }
    for area in found.areas:
        if (area.sizes, area.scale) == ("mib", "linear"):
            print(
                f"  {area.others} {area.ranking}: 80 % stays from",
                f"{stays[area.others, area.ranking]}; CPR {area.cpr:.2f} ({area.cpr_low:.2f} to",
                f"{area.cpr_high:.2f}), CMD {area.cmd:.2f} ({area.cmd_low:.2f} to",
                f"{area.cmd_high:.2f})",
            )
    for row in found.stability:
        print(
            f"  agreement of {row.heads} by {row.ranking}: {row.value:.2f} ({row.low:.2f} to",
            f"{row.high:.2f}), halves {row.halves:.2f}, chance {row.chance:.2f},",
            f"enough {row.enough}",
        )
    print("  stable:", [(row.head, row.verdict) for row in found.stable if row.verdict == "in"])
    for row in found.kept:
        ends = f"({row.low:.2f} to {row.high:.2f})"
        print(f"  {row.prompts} {row.kept} {row.heads}: {row.value:.2f} {ends}")


if __name__ == "__main__":
    main()
