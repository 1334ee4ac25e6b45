"""What other tools say of models of which every head is known, beside headcount.

    python benchmarks/truth_peers.py --python captum=CAPTUM/bin/python \
        --python transformerlens=LENS/bin/python --python kvpress=KVPRESS/bin/python \
        --python nnsight=NNSIGHT/bin/python --python causalheadgating=GATES/bin/python

Each tool runs in an environment of its own, by its own documentation (`benchmarks/peers/known_*`),
on the same saved models and texts; the script with a threshold on mean attention needs none.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth import Answers, rows
from headcount.cache.scores import GroupScores
from headcount.core import Head, Kept
from headcount.importance import Options, assess
from headcount.importance.gate_sets import gate_sets
from headcount.testing import Known, written
from tests.truth.questions import GATES, STREAMING, WORTHLESS, Answer, answer, far_above_near, pairs
from tests.truth.random_programs import drawn

PEERS = Path(__file__).parent / "peers"
NAMES = {
    "threshold": ("positional", "sink", "punctuation"),
    "transformerlens": ("positional -1", "induction"),
    "headcount": ("positional", "sink", "punctuation", "induction", "rare"),
}
"""Names that each tool has; other heads are not asked for."""


def by_headcount(known: Known) -> dict[str, list]:
    """What headcount says, as the scripts of the others write it."""
    roles = known.analysis().roles
    names = [
        [f"{each.role} {each.offset}" if each.offset is not None else each.role for each in some]
        for some in (roles[str(head)] for head in known.heads)
    ]
    options = Options(("ablation", "gradient"), layers=False, one_left=False, samples=99)
    frame = assess(known.model, known.task(), options).heads.frame
    gates = gate_sets(known.model.model, known.task(), GATES)
    return {
        "names": names,
        "ablation": frame["ablation_delta"].tolist(),
        "gradient": frame["gradient"].tolist(),
        "causal gates": (gates.facilitating_SH - gates.interfering_SH).mean(0).tolist(),
        "distance": GroupScores(known.model, known.written, STREAMING).of("distance").tolist(),
    }


def told(known: Known, tool: str, said: dict[str, list]) -> Iterator[Answer]:
    """What is right of what a tool says."""
    program = known.program
    if names := said.get("names"):
        of = dict(zip(known.heads, map(set, names), strict=True))
        expected = {head: _name(known, head) for head in known.heads}
        ours = [h for h, name in expected.items() if name and name.startswith(NAMES[tool])]
        yield answer(f"{tool}: named", (expected[h] in of[h] for h in ours), ours)
        alone = (of[h] == {expected[h]} for h in ours)
        yield answer(f"{tool}: named, and nothing else", alone, ours)
        idle = [h for h in known.heads if program.of(h).kind in ("idle", "mean")]
        yield answer(f"{tool}: idle heads without a name", (not of[h] for h in idle), idle)
    of_purpose = {head: program.of(head).purpose for head in known.heads}
    for method, scores in said.items():
        score = dict(zip(known.heads, scores, strict=True))
        if method == "distance":
            yield from far_above_near(f"{tool}: {method}", known, score)
        elif method != "names":
            above = [score[h] for h in known.heads if of_purpose[h] == "needed"]
            below = [score[h] for h in known.heads if of_purpose[h] in WORTHLESS]
            yield pairs(f"{tool}: needed above worthless by {method}", above, below)


def _name(known: Known, head: Head) -> str | None:
    role = known.role_of(known.program.of(head))
    return role and (role[0] if role[1] is None else f"{role[0]} {role[1]}")


def asked(pythons: dict[str, str], seed: int) -> Answers:
    """The answers of every tool about the model of a seed."""
    known = drawn(seed, "llama", 60)
    with TemporaryDirectory() as name:
        folder = Path(name)
        known.model.model.save_pretrained(folder / "small")
        assert known.model.tokenizer is not None
        known.model.tokenizer.save_pretrained(folder / "small")
        (folder / "few.txt").write_text("\n".join(known.written))
        long = [each[:12] for each in known.texts]
        repeated = [written(np.concatenate([each, each])) for each in long]
        (folder / "repeated.txt").write_text("\n".join(repeated))
        found = [*told(known, "headcount", by_headcount(known))]
        for tool, python in pythons.items():
            command = [python, "-W", "ignore", PEERS / f"known_{tool}.py"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            said = json.loads((folder / "answer.json").read_text())
            found += told(known, tool, said)
    return Answers(tuple(found))


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask other tools about known models.")
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--python", action="append", default=[], metavar="TOOL=PYTHON")
    parser.add_argument("--out", type=Path, default=Path("truth"), help="folder of what is done")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pythons = {"threshold": sys.executable} | dict(each.split("=") for each in given.python)
    key = f"texts:60|tools:{' '.join(pythons)}"
    kept = Kept(given.out / "peers.json", key, "the answers of tools about some models", Answers)
    units = ((str(seed), partial(asked, pythons, seed)) for seed in range(given.models))
    found = defaultdict[str, list[Answer]](list)
    for seed, one in enumerate(kept.results(units)):
        for each in one.answers:
            found[each.question].append(each)
            for wrong in each.wrong:
                print(f"{seed}: {each.question}: not {wrong}", flush=True)
    print("\n".join(rows(found)))


if __name__ == "__main__":
    main()
