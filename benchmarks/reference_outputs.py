"""What every command writes and prints on small inputs, to compare two versions of the code.

    python benchmarks/reference_outputs.py make BEFORE       # in a checkout of the version before
    python benchmarks/reference_outputs.py make AFTER        # in one of the version after
    python benchmarks/reference_outputs.py compare BEFORE AFTER

Models are tiny and random, threads and seeds fixed. Tables and records are compared value by
value, to the last bit; documents, pages and printed lines word by word. Times, dates and versions
are left out, as are pictures and states, of which only the names are compared. The exit status is 1
if anything differs.
"""

import argparse
import difflib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("COLUMNS", "200")
sys.path.insert(0, str(Path(__file__).parents[1]))

import pandas as pd
import torch

DATA = Path(__file__).parents[1] / "headcount" / "data"
PICTURES = (".svg", ".png", ".pdf", ".safetensors", ".npy", ".npz", ".onnx", ".pt", ".bin")
"""Endings of files of which only the names are compared."""
LEFT_OUT = ("timings", "seconds", "versions", "files", "sha256", "created", "history", "exported")
"""Fields of records that two runs of one version do not share."""
TIMES = re.compile(r"[\d,.]+ (tokens|examples|steps)/s|[\d,.]+ (s|ms|seconds|minutes)\b")
"""Times in printed lines."""
TIMED = re.compile(r'"\w+_s": |.*\bforward, |─+$')
"""Lines that hold nothing else."""
FACTS = re.compile(
    r'<summary>Timings</summary>.*?</details>|<th scope="row">seconds</th>.*?</td>', re.DOTALL
)
"""Tables and rows of a page that hold nothing else."""

Step = tuple[str, tuple[object, ...]]
"""The name of a step, and its command."""


def make(out: Path) -> None:
    """Run every command into one folder, each step into a folder of its own."""
    from headcount.commands.command_line import main

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    out.mkdir(parents=True)
    os.chdir(out)  # so that printed paths are the same everywhere
    for name, command in steps():
        start, printed, errors = time.time(), StringIO(), StringIO()
        torch.manual_seed(0)
        with redirect_stdout(printed), redirect_stderr(errors):
            try:
                status = main([str(word) for word in command])
            except SystemExit as refused:  # arguments that a command does not know
                status = refused.code
        said = f"{printed.getvalue()}\n--- status {status}\n{warnings_of(errors.getvalue())}"
        Path(f"{name}.printed.txt").write_text(said, encoding="utf-8")
        print(f"{name:<24} status {status}  {time.time() - start:.1f} s", flush=True)
        if status:
            print(errors.getvalue()[-2000:])


def warnings_of(errors: str) -> str:
    """The lines of standard error that are no progress."""
    lines = (line for line in errors.splitlines() if re.match(r"warning|headcount:", line))
    return "\n".join(lines)


def steps() -> Iterator[Step]:
    """Every command, after its inputs are made."""
    from tests import pictures, saved

    bert, encoder = saved.bert(Path("in/bert")), saved.encoder(Path("in/encoder"))
    marian, gpt2 = saved.marian(Path("in/marian")), saved.gpt2(Path("in/gpt2"))
    few, rest = _few_sentences(Path("in"), 0, 120), _few_sentences(Path("in"), 120, 168)
    links, pairs = _few_pairs(Path("in"))
    similar, documents = _similar(Path("in/similar.tsv"), pairs), _documents(Path("in/gum.conllu"))
    train, dev = _texts(Path("in"), pairs)
    images, vit = (
        pictures.write_images(Path("in/images"), 12, pictures.LABELS),
        _vit(Path("in/vit")),
    )
    lm = ("--task", "masked-lm", "--data", train, "--dev", dev)
    sim = ("--task", "similarity", "--columns", "sentence1=0", "sentence2=1", "score=2")
    sim += ("--data", similar)
    mt = ("--task", "translation", "--data", pairs, "--num-beams", "1")

    yield "doctor", ("doctor", bert)
    yield "analyze", ("analyze", bert, few, "--null", "--out", "analyze", "--csv")
    yield "analyze_json", ("analyze", bert, few, "--out", "analyze_json", "--json")
    yield "analyze_marian", ("analyze", marian, pairs, "--out", "analyze_marian")
    yield "analyze_gpt2", ("analyze", gpt2, train, "--induction", "--out", "analyze_gpt2")
    yield "analyze_vit", ("analyze", vit, images, "--out", "analyze_vit")
    yield "cluster", ("cluster", bert, few, "--out", "analyze")
    yield "coreference", ("coreference", bert, documents, "--out", "analyze")
    probed = ("--train", few, "--test", rest)
    yield "probe", ("probe", bert, *probed, "--samples", "20", "--out", "analyze")
    yield "importance", ("importance", encoder, *sim, "--samples", "60", "--out", "importance")
    yield "importance_lm", ("importance", bert, *lm[:4], "--samples", "60", "--out", "analyze")
    yield "importance_mt", ("importance", marian, *mt, "--samples", "60", "--out", "analyze_marian")
    split = ("--split-punctuation",)
    yield "align", ("align", marian, pairs, "--gold", links, "--out", "analyze_marian", *split)
    yield "sensitivity", ("sensitivity", bert, *lm[:4], "--samples", "60", "--out", "sensitivity")
    yield "evaluate", ("evaluate", marian, *mt, "--out", "evaluate")
    yield "evaluate_lm", ("evaluate", bert, *lm[:4], "--out", "evaluate_lm")
    types = ("--occurrences", "5", "--types", "8", "--clusters", "6")
    yield "evolve", ("evolve", bert, marian, few, *types, "--out", "evolve")
    curve = ("--methods", "gradient", "random", "--seeds", "2", "--keep", "2", "4")
    yield "curve", ("curve", bert, *lm, *curve, "--out", "analyze/curve")
    pruned = ("--keep", "4", "--method", "gradient", "--recover", "2", "--test", dev)
    yield "prune", ("prune", bert, *lm, *pruned, "--analysis", "analyze", "--out", "pruned")
    yield "report", ("report", "analyze", "--pruned", "pruned")
    yield "prune_auto", ("prune", bert, *lm, "--keep", "3", "--out", "pruned_auto")
    l0 = ("--method", "l0", "--method.tuning.updates", "5")
    yield "prune_l0", ("prune", bert, *lm, *l0, "--keep", "3", "--out", "pruned_l0")
    yield "compact", ("compact", bert, "--plan", "pruned/plan.json", "--out", "compact")
    yield "finetune", ("finetune", bert, *lm, "--set", "updates=2", "--out", "finetuned")
    yield "compare", ("compare", "analyze", "analyze_json", "--out", "compared")
    yield "match", ("compare", "analyze", "analyze_json", "--match", "--out", "matched")
    follow = ("--task", "masked-lm", "--data", train, "--method", "norm")
    yield "follow", ("follow", bert, "finetuned", *follow, "--out", "follow")
    recipe = ("--recipe", "tiny", "--set", "layers=1", "pieces=120", "batch_tokens=600", "epochs=2")
    yield "train", ("train", "masked-lm", "--data", train, *recipe, "--out", "trained")
    paper = ("reproduce", "michel2019", encoder, *sim, "--samples", "50", "--out", "michel2019")
    yield "michel2019", paper
    voita = ("--treebank", few, "--out", "voita2019")
    yield "voita2019", ("reproduce", "voita2019", encoder, *sim, *voita)
    table = ("--keep", "4", "2", "--tune", "updates=3", "--scratch", "updates=2")
    table += ("--table", "2", "--out", "table2")
    yield "table2", ("reproduce", "voita2019", bert, *lm, *table)
    prune = ("--prune", "--keep", "4", "2", "--quantity", "loss", "--out", "michel_prune")
    yield "michel_prune", ("reproduce", "michel2019", bert, *lm, *prune)
    li = ("--keep", "4", "2", "--tune", "updates=2", "--out", "li2021")
    yield "li2021", ("reproduce", "li2021", bert, *lm, *li)
    yield "kobayashi2020", ("reproduce", "kobayashi2020", bert, few, "--out", "kobayashi2020")
    for name in ("clark2019", "coenen2019", "hewitt2019"):
        yield name, ("reproduce", name, bert, *probed, "--out", name)
    yield "refused", ("analyze", bert, "in/none.txt", "--out", "refused")


def _few_sentences(folder: Path, first: int, last: int) -> Path:
    blocks = (DATA / "sample.conllu").read_text(encoding="utf-8").split("\n\n")
    path = folder / f"from{first}.conllu"
    path.write_text("\n\n".join(blocks[first:last]) + "\n\n", encoding="utf-8")
    return path


def _few_pairs(folder: Path) -> tuple[Path, Path]:
    found = []
    for name, kept in (("sample.links", "few.links"), ("sample.tsv", "few.tsv")):
        lines = (DATA / name).read_text(encoding="utf-8").splitlines()[:33]
        (folder / kept).write_text("\n".join(lines) + "\n", encoding="utf-8")
        found.append(folder / kept)
    return found[0], found[1]


def _similar(path: Path, pairs: Path) -> Path:
    texts = [line.split("\t")[0] for line in pairs.read_text(encoding="utf-8").splitlines()]
    rows = [f"{one}\t{two}\t{len(one) % 6}" for one, two in zip(texts, texts[1:], strict=False)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _texts(folder: Path, pairs: Path) -> tuple[Path, Path]:
    texts = [line.split("\t")[0] for line in pairs.read_text(encoding="utf-8").splitlines()]
    for name, part in (("train", texts[:24]), ("dev", texts[24:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder / "train.txt", folder / "dev.txt"


def _documents(path: Path) -> Path:
    """Documents in which a pronoun means a name."""
    names, lines = ("Anna", "Peter", "Maria", "Paul"), list[str]()
    for number in range(12):
        name, pronoun = names[number % 4], ("she", "he")[number % 2]
        words = [name, "saw", "the", "dog", ".", pronoun, "was", "happy", "."]
        marks = {0: "Entity=(1-person)", 2: "Entity=(2-animal", 3: "Entity=2)"}
        marks[5] = "Entity=(1-person)"
        lines += [f"# newdoc id = d{number}", "# global.Entity = GRP-etype"]
        tags = {0: "PROPN", 5: "PRON", 3: "NOUN", 2: "DET", 1: "VERB", 6: "AUX", 7: "ADJ"}
        for place, word in enumerate(words):
            tag, mark = tags.get(place, "PUNCT"), marks.get(place, "_")
            head, relation = (2, "nsubj") if place != 1 else (0, "root")
            row = (place + 1, word, word, tag, "_", "_", head, relation, "_", mark)
            lines.append("\t".join(map(str, row)))
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _vit(folder: Path) -> Path:
    from tests import pictures

    torch.manual_seed(0)
    pictures.planted().save_pretrained(folder)
    pictures.processor().save_pretrained(folder)
    return folder


def compare(before: Path, after: Path) -> int:
    """Print every difference; returns the number of files with one."""
    names = [
        {path.relative_to(each).as_posix() for path in each.rglob("*") if path.is_file()}
        for each in (before, after)
    ]
    names = [{name for name in each if not name.startswith("in/")} for each in names]
    for which, only in (("before", names[0] - names[1]), ("after", names[1] - names[0])):
        for name in sorted(only):
            print(f"only {which}: {name}")
    different = len(names[0] ^ names[1])
    for name in sorted(names[0] & names[1]):
        lines = list(differences(before / name, after / name))
        if lines:
            different += 1
            print(f"{name}:\n" + "\n".join(f"    {line:.400}" for line in lines[:40]))
    print(f"{len(names[0] & names[1])} files, {different} differ")
    return different


def differences(before: Path, after: Path) -> Iterator[str]:
    """The differences between two files of one name."""
    if before.suffix in PICTURES or "state" in before.parts:
        return
    read: Callable[[Path], Any] = {".parquet": _table, ".json": _json}.get(before.suffix, _words)
    one: Any = read(before)
    two: Any = read(after)
    if isinstance(one, list):
        yield from (
            line
            for line in difflib.unified_diff(one, two, n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))
        )
        return
    for key in sorted(one.keys() | two.keys()):
        old, new = one.get(key, "nothing"), two.get(key, "nothing")
        if old != new:
            yield f"{key}: {old!r:.180} -> {new!r:.180}"


def _table(path: Path) -> dict[str, Any]:
    frame = pd.read_parquet(path)
    return dict(_flat({str(name): frame[name].tolist() for name in frame}))


def _json(path: Path) -> dict[str, Any]:
    return dict(_flat(json.loads(path.read_text(encoding="utf-8"))))


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and text of a nested value with its place."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in LEFT_OUT:
                yield from _flat(each, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        yield f"{place}.length", len(value)
        for number, each in enumerate(value):
            yield from _flat(each, f"{place}[{number}]")
    else:
        yield place, None if value is pd.NA or value != value else value


def _words(path: Path) -> list[str]:
    text = FACTS.sub("", path.read_text(encoding="utf-8", errors="replace"))
    text = TIMES.sub("TIME", text)
    lines = re.sub(r"(</\w+>)", r"\1\n", text).splitlines()
    return [" ".join(line.split()) for line in lines if not TIMED.match(line.strip())]


def main() -> int:
    """Make the outputs, or compare two folders of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("make").add_argument("out", type=Path)
    compared = kinds.add_parser("compare")
    compared.add_argument("before", type=Path)
    compared.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.kind == "make":
        make(given.out)
        return 0
    return int(compare(given.before, given.after) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
