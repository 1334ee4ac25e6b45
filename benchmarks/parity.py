"""Whether a change of the code leaves every result as it was: records, tables, pages and output.

Run every command on tiny models before the change and after it, each in its own checkout, and
compare what they wrote:

    PYTHONHASHSEED=0 python -m benchmarks.parity run BEFORE
    PYTHONHASHSEED=0 python -m benchmarks.parity run AFTER
    python -m benchmarks.parity compare BEFORE AFTER

Times, and the hashes of files that hold them, are left out of the comparison.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from traceback import print_exc

CORPUS, PAIRS = "data/sample.conllu", "data/sample.tsv"
TASK = ("--task", "masked-lm", "--data", "train.txt", "--limit", "4")
SETS = (*TASK, "--dev", "dev.txt", "--test", "test.txt")
LIMITS = ("--samples", "20", "--train-limit", "20", "--test-limit", "20", "--allow-overlap")
FEW = ("--occurrences", "5", "--types", "8", "--clusters", "6")
NEEDLES = ("--lengths", "150", "--depths", "0.5", "--needles", "1", "--draws", "1")
STREAMING = ("--lengths", "300", "--per-length", "2", "--needles", "1")
TIMED = ("--batch", "1", "--length", "8", "--rounds", "2")
BRIEF = ("--prompts", "4")
RECIPE = ("--recipe", "tiny", "--set", "layers=1", "pieces=150", "batch_tokens=600", "epochs=1")
SIMILAR = ("--task", "similarity", "--columns", "sentence1=0", "sentence2=1", "score=2")

COMMANDS: dict[str, tuple[str, ...]] = {
    "analyze": ("analyze", "bert", CORPUS, "--limit", "9", "--null", "--out", "analyze"),
    "analyze-other": ("analyze", "bert", "other.conllu", "--limit", "9", "--out", "other"),
    "importance": ("importance", "bert", *TASK, "--out", "analyze"),
    "cluster": ("cluster", "bert", CORPUS, "--limit", "9", "--out", "analyze"),
    "coreference": ("coreference", "bert", "mentions.conll", "--out", "analyze"),
    "probe": ("probe", "bert", "--train", CORPUS, "--test", CORPUS, *LIMITS, "--out", "analyze"),
    "curve": ("curve", "bert", *SETS, "--keep", "2", "--seeds", "1", "--out", "analyze/curve"),
    "sensitivity": ("sensitivity", "bert", *TASK, "--samples", "20", "--out", "sensitivity"),
    "evaluate": ("evaluate", "bert", *TASK, "--out", "evaluate"),
    "analyze-llama": ("analyze", "llama", CORPUS, "--limit", "6", "--out", "llama-out"),
    "skills": ("skills", "llama", *NEEDLES, *BRIEF, "--out", "llama-out"),
    "explain": ("explain", "llama", "A dog", "--target", " ran", "--out", "llama-out"),
    "explain-several": (
        *("explain", "llama", "--prompts", "prompts.jsonl", "--effects", "corrupt", "zero"),
        *("--texts", CORPUS, "--heads", "dec.1.2", "--out", "explain"),
    ),
    "explain-circuit": (
        *("explain", "llama", "--prompts", "circuits.jsonl", "--elsewhere", "prompts.jsonl"),
        *("--circuit", "--others", "second", "mean", "resample", "--steps", "6", "--exact", "2"),
        *("--out", "circuit"),
    ),
    "explain-units": (
        *("explain", "llama", "--prompts", "circuits.jsonl", "--units", "heads", "mlps"),
        *("--circuit", "--steps", "4", "--exact", "2", "--out", "units"),
    ),
    "explain-parts": (
        *("explain", "llama", "--prompts", "circuits.jsonl", "--backups", "2"),
        *("--each-position", "--effects", "corrupt", "zero", "restored", "relp", "attribution"),
        *("--out", "parts"),
    ),
    "cache": ("cache", "llama", *STREAMING, "--out", "cache"),
    "align": (
        *("align", "marian", "pairs.tsv", "--gold", "gold", "--split-punctuation"),
        *("--out", "align"),
    ),
    "prune": ("prune", "bert", *SETS, "--keep", "4", "--out", "prune"),
    "finetune": (
        *("finetune", "bert", *SETS, "--set", "updates=4", "save_every=2", "warmup=0"),
        *("--out", "finetune"),
    ),
    "compact": ("compact", "bert", "--plan", "prune/plan.json", "--out", "compact"),
    "export": ("export", "compact", "--to", "onnx", "--limit", "7"),
    "speed": ("speed", "bert", "compact", *TIMED, "--out", "speed"),
    "report": ("report", "analyze", "--pruned", "prune", "--confirm", "other"),
    "compare": ("compare", "analyze", "other", "--out", "compare"),
    "train": ("train", "translation", "--data", PAIRS, *RECIPE, "--out", "train"),
    "follow": ("follow", "step-5", "step-10", *TASK, "--method", "norm", "--out", "follow"),
    "evolve": ("evolve", "bert", CORPUS, *FEW, "--out", "evolve"),
    "michel2019": (
        *("reproduce", "michel2019", "encoder", *SIMILAR, "--data", "similar.tsv"),
        *("--samples", "50", "--out", "michel2019"),
    ),
    "doctor": ("doctor", "bert"),
    "sample": ("sample", "sample"),
    "refused": ("analyze", "nowhere/at/all", CORPUS, "--out", "refused"),
    "demo": ("demo", "--out", "demo"),
}
"""Every command, by the name of the file that gets what it prints."""

HELP = (
    *("analyze", "cluster", "align", "coreference", "probe", "evolve", "serve", "explain"),
    *("skills", "importance", "sensitivity", "evaluate", "cache", "prune", "curve", "compact"),
    *("speed", "export", "train", "finetune", "follow", "report", "compare", "reproduce"),
    *("doctor", "demo", "sample"),
)
"""Commands whose help is compared."""

MENTIONS = """\
#begin document (d0); part 000
d0 0 0 The DT (1
d0 0 1 dog NN 1)
d0 0 2 saw VBD -
d0 0 3 Ann NNP (2)
d0 0 4 . . -

d0 0 0 It PRP (1)
d0 0 1 barked VBD -
#end document
"""
PROMPTS = (("The old dog", " ran"), ("The old dog", " barked"))
CIRCUITS = (
    ("The old dog barked at", " sister", " ran", "the", "children"),
    ("She doesn't believe that", " last", " sister", "her", "trees"),
    ("A painter bought two", " cat", " night", "green", "tired"),
    ("Did you hear the", " ran", " sister", "rain", "village"),
    ("The old dog barked at", " dog", " river", "old", "tall"),
    ("She doesn't believe that", " moon", " cat", "no", "some"),
    ("A painter bought two", " moon", " cat", "wet", "brown"),
    ("Did you hear the", " moon", " children", "wind", "river"),
)
"""Beginning, target, rival, last word, and the last word of the second prompt."""


def prepare(folder: Path) -> None:
    """Write tiny models and data into a new folder."""
    from headcount.core import DATA
    from tests import saved

    folder.mkdir(parents=True)
    shutil.copytree(DATA, folder / "data", ignore=shutil.ignore_patterns("en-de*"))
    for name in ("bert", "encoder", "marian", "llama"):
        getattr(saved, name)(folder / name)
    for step in (5, 10):
        shutil.copytree(folder / "bert", folder / f"step-{step}")
    pairs = (folder / PAIRS).read_text(encoding="utf-8").splitlines()
    for number, name in enumerate(("train", "dev", "test")):
        texts = [pair.split("\t")[0] for pair in pairs[8 * number : 8 * number + 8]]
        (folder / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "mentions.conll").write_text(MENTIONS)
    (folder / "pairs.tsv").write_text("A dog barked.\tEin Hund bellte.\n")
    (folder / "gold").write_text("0-0 1-1 2-2 3-3\n")
    sides = [pair.split("\t")[0] for pair in pairs[:17]]
    rows = (f"{a}\t{b}\t{n % 5}\n" for n, (a, b) in enumerate(zip(sides, sides[1:], strict=False)))
    (folder / "similar.tsv").write_text("".join(rows), encoding="utf-8")
    sentences = (folder / CORPUS).read_text(encoding="utf-8").split("\n\n")
    (folder / "other.conllu").write_text("\n\n".join(sentences[60:]), encoding="utf-8")
    asked = ({"prompt": a, "target": b, "corrupt": "The old sea"} for a, b in PROMPTS)
    (folder / "prompts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))
    asked = (
        {"prompt": f"{text} {last}", "target": a, "against": b, "corrupt": f"{text} {other}"}
        for text, a, b, last, other in CIRCUITS
    )
    (folder / "circuits.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))


def run(folder: Path, only: Sequence[str]) -> None:
    """Run the commands in a folder, and keep what they print in files there."""
    import torch

    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "100"
    if not folder.exists():
        prepare(folder)
    os.chdir(folder)
    printed = Path("printed")
    printed.mkdir(exist_ok=True)
    helps = {f"help-{name}": (name, "--help") for name in HELP}
    always = {"help": ("--help",), "completion": ("--completion", "bash"), **helps}
    for name, words in (always | COMMANDS).items():
        if not only or name in only:
            print(name, file=sys.stderr, flush=True)
            (printed / f"{name}.txt").write_text(_printed(words), encoding="utf-8")


def _printed(words: Sequence[str]) -> str:
    """The status of a command, and what it prints."""
    from headcount.__main__ import main

    sys.argv = ["headcount", *words]
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        try:
            main()
        except SystemExit as done:
            status = done.code
        except BaseException as error:  # what was not foreseen is a difference as well
            status = type(error).__name__
            print_exc()
    refused = errors.getvalue() if status else ""
    return f"status {status}\n{output.getvalue()}{refused}"


TIMES = re.compile(
    r"(\(s\)|per s)</th><td class=number>[\d.,e+]+"
    r"|[\d.,]+\s*(tokens/s|ms|seconds|s\b|minutes|MB|GB)"
    r"|\d+ of \d+ seconds|[\d.]+\s*×|[\d.]+ times|as fast \([^)]*\)"
    r"|seconds</th><td>[^<]*|batch \d+, \d+ tokens\W.*"
)
"""Numbers that no two runs share: times, speeds, and memory that was in use."""
MEASURED = {
    *("timings", "files", "sha256", "seconds", "peak_memory", "tokens_per_s", "latency"),
    *("written", "machine", "speed", "speedup", "cases", "train_runtime"),
    *("train_samples_per_second", "train_steps_per_second"),
}
"""Fields of records that hold times, or hashes of what does."""
HASH = re.compile(r"\b[0-9a-f]{64}\b")
OF_TIMES = ("/state/", "speed/", "printed/speed", "trainer_state.json", "training_args.bin")
"""Files that hold little but times, or what an interrupted run would resume from."""


def contents(path: Path) -> object:
    """What a file holds, without what differs between any two runs."""
    if path.suffix == ".parquet":
        import pandas as pd

        frame = pd.read_parquet(path).drop(columns="seconds", errors="ignore")
        return frame.to_json(double_precision=15), dict(frame.dtypes.astype(str))
    if path.suffix == ".json":
        with suppress(ValueError):
            return _without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix in (".md", ".html", ".txt", ".jsonl", ".svg", ".py", ".conllu", ".tsv"):
        text = path.read_text(encoding="utf-8")
        return HASH.sub("", TIMES.sub("", text)).splitlines()
    return None if path.suffix in (".pdf", ".png", ".onnx", ".bin") else path.read_bytes()


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_times(each) for name, each in value.items() if name not in MEASURED}
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    return value


def differences(one: Path, other: Path) -> Iterator[str]:
    """What differs between two folders of runs."""
    names = [
        {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        for folder in (one, other)
    ]
    for name in sorted(names[0] ^ names[1]):
        yield f"{name} is only in {one if name in names[0] else other}"
    for name in sorted(names[0] & names[1]):
        if any(part in name for part in OF_TIMES):
            continue
        left, right = contents(one / name), contents(other / name)
        if left != right:
            yield f"{name} differs{_where(left, right)}"


def _where(left: object, right: object) -> str:
    """The first line in which two texts differ."""
    if not (isinstance(left, list) and isinstance(right, list)):
        left, right = ([repr(each)] for each in (left, right))
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a != b:
            at = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
            near = slice(max(0, at - 60), at + 60)
            return f" in line {number}:\n  {a[near]!r}\n  {b[near]!r}"
    return f": {len(left)} and {len(right)} lines"


def main(what: str, *words: str) -> int:
    """Run the commands, or compare two runs; returns the exit status."""
    if what == "run":
        run(Path(words[0]).resolve(), words[1:])
        return 0
    found = list(differences(Path(words[0]), Path(words[1])))
    print("\n".join(found) or "no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
