"""Other tools beside headcount on the same jobs: code, seconds, memory, and answers that agree.

    OMP_NUM_THREADS=1 python benchmarks/peers.py SMOLLM2 OUT --rounds 3

Every file in benchmarks/peers is a user's whole program. The environment of a tool has what is
installed here, unless its requirements say otherwise, and is made in OUT. Programs take turns as
processes, without the hub. What is done is kept in OUT, so that a run that was stopped goes on.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import tyro

PROGRAMS = Path(__file__).parent / "peers"
PROMPT = "Then, Mary and John went to the store. John gave a drink to"
OURS = "headcount"
REQUIRED = {
    "transformerlens": ("transformer-lens==4.3.0",),
    "bertviz": ("bertviz==1.4.1",),
    "inseq": ("--no-deps", "inseq==0.7.1", "captum==0.9.0", "treescope", "typeguard==2.13.3"),
    "nnsight": ("nnsight==0.8.1",),
    "captum": ("captum==0.9.0",),
    "kvpress": ("kvpress==0.5.5",),
    "interpkit": ("interpkit==0.7.0",),
    "circuitkit": ("circuitkit==0.2.0",),
    "causalheadgating": ("nam-causal-head-gating==0.1.0",),
}
"""What pip installs for a tool. inseq requires CUDA 11 beside torch, which nothing here uses."""

JOBS = {
    "load": "the model and its tokenizer, and nothing else",
    "statistics": "entropy and confidence of all heads over 12 sentences",
    "ablation": "the loss of 4 sentences without each head, of the smaller model",
    "gates": "a gate for each head, trained on the same, by 5 updates in each stage",
    "prediction": f"what makes “{PROMPT}” end in “ Mary” and not in “ John”",
    "cache": "a plan in which half of the key/value groups keep few tokens, chosen on paragraphs",
    "pruned": "the smaller model with two thirds of its heads, in a folder",
}
"""What the jobs ask for."""


@dataclass(frozen=True)
class Arguments:
    """Time other tools beside headcount, and compare their answers."""

    model: tyro.conf.Positional[Path]
    """Folder of a language model of Llama's architecture, SmolLM2-135M-Instruct in the docs."""
    out: tyro.conf.Positional[Path]
    """Folder for environments, inputs and what is done."""
    rounds: int = 3
    """Number of times that every program runs."""
    jobs: tuple[str, ...] = tuple(JOBS)
    """Jobs to run."""
    layers: int = 6
    """Number of layers that the smaller model has, which serves the jobs that take long."""


@dataclass(frozen=True)
class Run:
    """One run of a program, or the last line of its error."""

    program: str
    seconds: float
    """CPU seconds of the process."""
    gigabytes: float
    """Largest memory of the process."""
    error: str = ""


def environment(tool: str, out: Path) -> Path:
    """The interpreter of a tool, in an environment that is made where there is none."""
    if tool not in REQUIRED:
        return Path(sys.executable)
    folder = out / "environments" / tool
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        paths = [each for each in sys.path if each.endswith("site-packages")]
        lines = (f"import site; site.addsitedir({path!r})\n" for path in paths)
        (packages / "others.pth").write_text("".join(lines))
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIRED[tool]], check=True)
        (folder / "installed").touch()
    return python


def write_inputs(model: Path, out: Path, layers: int) -> None:
    """The inputs of all programs: a model as plain Llama, a smaller one, and texts."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from headcount.core import DATA
    from headcount.corpora import Corpus

    dense = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(model)
    config = LlamaConfig.from_pretrained(model)
    config.__dict__.pop("quantization_config", None)  # what the weights were read from
    for name, number in (("model", config.num_hidden_layers), ("small", layers)):
        config.num_hidden_layers = number
        plain = LlamaForCausalLM(config)
        plain.load_state_dict(dense.state_dict(), strict=name == "model")
        plain.save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
    texts = [each.text for each in Corpus(DATA / "sample.conllu")]
    paragraphs = [" ".join(texts[start : start + 3]) for start in range(0, len(texts), 3)]
    for name, lines in (("texts", texts[:12]), ("few", texts[:4]), ("long", paragraphs)):
        (out / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (out / "prompt.txt").write_text(PROMPT)


def programs(jobs: Sequence[str]) -> list[Path]:
    """The programs of some jobs, ours first in each."""
    order = {job: number for number, job in enumerate(JOBS)}
    found = [path for path in PROGRAMS.glob("*.py") if job_of(path) in jobs]
    return sorted(found, key=lambda path: (order[job_of(path)], tool_of(path) != OURS, path.stem))


def job_of(program: Path) -> str:
    return program.stem.split("_")[0]


def tool_of(program: Path) -> str:
    return program.stem.split("_")[1]


def run(program: Path, out: Path) -> Run:
    """Run a program in a folder of its own, with the inputs in it."""
    folder = out / "runs" / program.stem
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("model", "small", "texts.txt", "few.txt", "long.txt", "prompt.txt"):
        if not (folder / name).exists():
            (folder / name).symlink_to(out / name)
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    (folder / "answer.json").unlink(missing_ok=True)
    try:
        python = environment(tool_of(program), out)
    except subprocess.CalledProcessError:
        needed = " ".join(REQUIRED[tool_of(program)])
        return Run(program.stem, 0.0, 0.0, f"could not be installed: {needed}")
    with (folder / "log.txt").open("w") as log:
        command = [python, "-W", "ignore", program]
        started = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    lines = (folder / "log.txt").read_text().strip().splitlines()
    error = lines[-1] if started.returncode else ""
    return Run(program.stem, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, error)


def code_lines(program: Path) -> int:
    """Lines of code, without the docstring, comments and empty lines."""
    code = program.read_text().split('"""', 2)[2]
    return sum(1 for line in code.splitlines() if line.strip() and not line.startswith("#"))


def answers(program: Path) -> str:
    """What a program answers, and what it does not: its docstring."""
    return program.read_text().split('"""')[1].rstrip(".")


def differences(program: Path, out: Path) -> Iterator[str]:
    """How far its numbers are from ours, where both give them."""
    ours, theirs = (
        json.loads(path.read_text()) if path.exists() else {}
        for path in (
            out / "runs" / name / "answer.json"
            for name in (f"{job_of(program)}_{OURS}", program.stem)
        )
    )
    for name in ours.keys() & theirs.keys() if tool_of(program) != OURS else ():
        if not isinstance(ours[name], list):
            yield f"{name}: {theirs[name]}, headcount's {ours[name]}"
            continue
        pairs = list(zip(ours[name], theirs[name], strict=True))
        if isinstance(ours[name][0], bool):
            yield f"{name}: {sum(a == b for a, b in pairs)} of {len(pairs)} alike"
        else:
            yield f"{name}: {max(abs(a - b) for a, b in pairs):.1g}"


def rows(found: Sequence[Run], jobs: Sequence[str], out: Path) -> Iterator[Sequence[object]]:
    """Rows of the table."""
    for program in programs(jobs):
        runs = [each for each in found if each.program == program.stem]
        if not runs:
            continue
        seconds, memory = [each.seconds for each in runs], max(each.gigabytes for each in runs)
        time = f"{median(seconds):.1f} ({min(seconds):.1f}-{max(seconds):.1f})"
        answer = runs[-1].error or answers(program)
        apart = "; ".join(sorted(differences(program, out)))
        cells = (code_lines(program), time, f"{memory:.2f} GB", apart, answer)
        yield job_of(program), tool_of(program), *cells


def versions(out: Path) -> Iterator[str]:
    """What each tool runs with."""
    ask = (
        "import json, importlib.metadata as m; "
        "print(json.dumps([m.version(n) for n in ('torch', 'transformers')]))"
    )
    for tool, required in {OURS: (), **REQUIRED}.items():
        if tool == OURS or (out / "environments" / tool / "installed").exists():
            printed = subprocess.check_output([environment(tool, out), "-c", ask], text=True)
            its_torch, its_transformers = json.loads(printed)
            named = next((each for each in required if "==" in each), tool)
            yield f"{named} (torch {its_torch}, transformers {its_transformers})"


def main() -> None:
    """Run all programs in turns, and print the table."""
    arguments = tyro.cli(Arguments)
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "prompt.txt").exists():  # in a process of its own: a child begins with our memory
        given = (arguments.model.resolve(), out, arguments.layers)
        writing = get_context("spawn").Process(target=write_inputs, args=given)
        writing.start()
        writing.join()
    kept = out / "runs.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    found = [Run(**json.loads(line)) for line in lines]
    for number in range(arguments.rounds):
        for program in programs(arguments.jobs):
            if sum(each.program == program.stem for each in found) > number:
                continue
            found.append(run(program, out))
            print(number, found[-1], file=sys.stderr, flush=True)
            with kept.open("a") as file:
                file.write(json.dumps(asdict(found[-1])) + "\n")
    for job in arguments.jobs:
        print(f"- `{job}`: {JOBS[job]}.")
    print("\n| job | tool | lines | CPU seconds | memory | apart from headcount | answers |")
    print("|---|---|---|---|---|---|---|")
    for row in rows(found, arguments.jobs, out):
        print("|", " | ".join(map(str, row)), "|")
    print("\n" + "\n".join(versions(out)))


if __name__ == "__main__":
    main()
