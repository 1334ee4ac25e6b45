"""A random Llama of a billion parameters, with all weights on disk against all in memory.

Each job runs in a process of its own: seconds of CPU time and the peak of memory are those of the
whole process, with imports and loading. The folders of compact models must be equal to the byte.

    python benchmarks/offload.py --folder FOLDER --tokenizer HuggingFaceTB/SmolLM2-135M-Instruct
"""

import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

Job = Literal["compact", "analyze", "analyze without induction"]
TEXTS = ("The old dog barked at the moon.", "She sent her sister a letter.", "It rained all night.")


@dataclass(frozen=True)
class Arguments:
    """Compare a large model on disk with the same in memory."""

    folder: Path
    """Folder for the model and what is made of it; needs 7 GB."""
    tokenizer: str
    """A tokenizer of at most 49,152 pieces."""
    jobs: tuple[Job, ...] = ("compact", "analyze without induction", "analyze")
    """What is compared."""
    layers: int = 22
    """Number of layers; 22 make 1.2 billion parameters."""
    run: Literal["disk", "memory"] | None = None
    """Run the first job in this process, on a model whose weights are there."""

    @property
    def model(self) -> Path:
        """Folder of the random model."""
        return self.folder / "model"

    def make(self) -> None:
        """Write the model and its tokenizer."""
        from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

        sizes: Any = {
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "vocab_size": 49152,
        }
        heads: Any = {"num_attention_heads": 32, "num_key_value_heads": 4}
        torch.set_default_dtype(torch.bfloat16)
        torch.manual_seed(1)
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, num_hidden_layers=self.layers))
        model.save_pretrained(self.model)
        AutoTokenizer.from_pretrained(self.tokenizer).save_pretrained(self.model)

    def measured(self, job: Job, where: str) -> None:
        """Do a job."""
        from headcount import Corpus, Options, analyze, load, save_compact
        from headcount.core import Plan

        torch.set_num_threads(1)
        loaded = load(self.model, device_map={"": "disk"} if where == "disk" else None)
        out = self.folder / f"{job} {where}"
        if job == "compact":
            some = {layer: tuple(range(0, 32, 2)) for layer in range(0, self.layers, 2)}
            save_compact(loaded, Plan({"decoder.self": some}), out)
        else:
            options = Options(induction=job == "analyze")
            found = analyze(loaded, Corpus([*TEXTS]), options)
            out.mkdir(exist_ok=True)
            found.heads.frame.to_csv(out / "heads.csv")

    def compare(self, job: Job) -> None:
        """Run a job on disk and in memory, and print what both took."""
        files = list[dict[str, str]]()
        for where in ("disk", "memory"):
            words = ["--folder", self.folder, "--tokenizer", self.tokenizer, "--jobs", job]
            words += ["--layers", str(self.layers), "--run", where]
            start = time.perf_counter()
            process = subprocess.Popen([sys.executable, __file__, *words])
            _, status, usage = os.wait4(process.pid, 0)
            files.append(hashes(self.folder / f"{job} {where}"))
            print(
                f"{job:<26}{where:<8}{usage.ru_utime + usage.ru_stime:8.0f} CPU s"
                f"{time.perf_counter() - start:8.0f} s{usage.ru_maxrss / 2**20:8.2f} GiB"
                f"   status {status}",
                flush=True,
            )
        print(f"{job:<26}{'the same files' if files[0] == files[1] else 'OTHER FILES'}", flush=True)


def hashes(folder: Path) -> dict[str, str]:
    """The hash of each file in a folder."""
    found = dict[str, str]()
    for path in sorted(folder.rglob("*")):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def main(arguments: Arguments) -> None:
    """Make the model if it is not there, and compare."""
    if arguments.run is not None:
        arguments.measured(arguments.jobs[0], arguments.run)
        return
    if not arguments.model.exists():
        arguments.make()
    for job in arguments.jobs:
        arguments.compare(job)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
