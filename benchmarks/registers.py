"""The kernel for GPUs, compiled without one: its registers, and whether it spills.

Numbers that don't fit into registers are kept in memory, which is slow: then this ends with an
error. Every shape of tiles in `SHAPES` is compiled once. It needs triton (`make kernels`).

    python benchmarks/registers.py --capability 90
"""
# pyright: reportMissingImports=false

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
import tyro
from torch import Tensor, nn
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from headcount.tap import Counted, Reduction, Statistics, device_sweep
from headcount.tap.call import Call
from headcount.tap.kernel_blocks import AttentionCall
from headcount.tap.kernel_triton import Triton
from headcount.tap.seen_keys import MaskFacts

NUM_TOKENS = 256
POINTERS = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.int8: "*i8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
"""Triton's types of pointers to tensors."""


@dataclass(frozen=True)
class Arguments:
    """Compile the kernel for a GPU that is not there, and print its registers."""

    capability: int = 90
    """Compute capability of the GPU: 90 is an H100."""


@dataclass(frozen=True)
class Case:
    """An attention call."""

    dtype: torch.dtype
    dim: int
    mask: str = "causal"
    softcap: float | None = None
    position_bias: bool = False


CASES = (
    Case(torch.bfloat16, 64),
    Case(torch.bfloat16, 128),
    Case(torch.bfloat16, 256),
    Case(torch.bfloat16, 64, "gaps"),
    Case(torch.bfloat16, 256, softcap=50.0),
    Case(torch.bfloat16, 64, position_bias=True),
    Case(torch.float32, 64),
    Case(torch.float32, 256),
    Case(torch.float32, 64, position_bias=True),
    Case(torch.float32, 256, "gaps"),
)


@dataclass
class Recorder:
    """Stands for a kernel: keeps what it is given instead of running it."""

    kernel: Any
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __getitem__(self, grid: object) -> "Recorder":
        return self

    def __call__(self, *given: Any, **options: Any) -> None:
        """Keep a call."""
        self.calls.append((given, options))


def recorded(case: Case) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Kernels that a call launches, with what they are given."""
    query_Q1, key = torch.arange(NUM_TOKENS)[:, None], torch.arange(NUM_TOKENS)
    seen = key <= query_Q1 if case.mask == "causal" else (key + query_Q1) % 3 > 0
    mask = seen.expand(2, 1, -1, -1).contiguous()
    query = torch.randn(2, 4, NUM_TOKENS, case.dim).to(case.dtype)
    bias = torch.zeros(1, 4, NUM_TOKENS, NUM_TOKENS, dtype=case.dtype)
    kwargs = {"softcap": case.softcap, "position_bias": bias if case.position_bias else None}
    tensors = (query, query[:, :2], query[:, :2], mask)
    module = nn.Module()
    vars(module)["num_key_value_groups"] = 2
    call = AttentionCall(Call(module, *tensors, kwargs), MaskFacts(mask))
    is_token = torch.ones(2, NUM_TOKENS, dtype=torch.bool)
    counted = Counted(is_token, is_token, is_token, is_token & (key % 17 > 0), (-2, -1, 0, 1, 2))
    columns = torch.zeros(2, 4, NUM_TOKENS, 6)
    asked = Statistics.zeros(counted, columns, list(Reduction), columns)
    kernels = {name: getattr(device_sweep, name) for name in ("log_sums", "sweep")}
    recorders = {name: Recorder(kernel) for name, kernel in kernels.items()}
    _replace(recorders)
    try:
        Triton().begin(call, asked, 0)
    finally:
        _replace(kernels)
    for each in recorders.values():
        distinct = {str(sorted(options.items())): (given, options) for given, options in each.calls}
        for given, options in distinct.values():
            yield each.kernel, given, options


def _replace(kernels: Mapping[str, Any]) -> None:
    for name, kernel in kernels.items():
        setattr(device_sweep, name, kernel)


def compiled(kernel: Any, given: tuple[Any, ...], options: dict[str, Any], target: Any) -> Any:
    """A kernel in machine code, for arguments of these types."""
    constants: dict[tuple[int, ...], Any] = {}
    hints: dict[tuple[int, ...], Any] = {}

    def typed(value: Any, *path: int) -> Any:
        if isinstance(value, tuple):
            return tuple(typed(each, *path, index) for index, each in enumerate(value))
        if value is None or isinstance(value, int) and value == 1:
            constants[path] = value
            return "constexpr"
        if isinstance(value, float):
            return "fp32"
        if isinstance(value, Tensor) or value % 16 == 0:
            hints[path] = [["tt.divisibility", 16]]
        return POINTERS[value.dtype] if isinstance(value, Tensor) else "i32"

    names = kernel.arg_names
    types = {name: typed(value, place) for place, (name, value) in enumerate(zip(names, given))}  # noqa: B905
    launch = {name: options.pop(name) for name in ("num_warps", "num_stages")}
    for name, value in options.items():
        types[name], constants[(names.index(name),)] = "constexpr", value
    source = ASTSource(fn=kernel, signature=types, constexprs=constants, attrs=hints)
    return triton.compile(source, target=target, options=launch)


def resources(machine_code: bytes) -> tuple[int, int]:
    """Registers a thread, and bytes that it keeps in memory instead."""
    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(machine_code)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", printed)
    assert found is not None, printed
    return int(found[1]), int(found[2])


def main() -> None:
    """Print a table of the kernel's registers; end with an error if it spills."""
    target, has_spills = GPUTarget("cuda", tyro.cli(Arguments).capability, 32), False
    print("| numbers | size of a head | mask | kernel | tile | warps | registers | spilled bytes |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        kind = case.mask + (", soft cap" if case.softcap else "")
        kind += ", position bias" if case.position_bias else ""
        for kernel, given, options in recorded(case):
            tile, warps = f"{options['QUERIES']} x {options['KEYS']}", options["num_warps"]
            registers, spilled = resources(compiled(kernel, given, options, target).asm["cubin"])
            has_spills |= spilled > 0
            cells = (str(case.dtype)[6:], case.dim, kind, kernel.fn.__name__, tile, warps)
            print("|", *[f"{cell} |" for cell in (*cells, registers, spilled)], flush=True)
    if has_spills:
        sys.exit("Expected numbers in registers alone, but some are spilled to memory.")


if __name__ == "__main__":
    main()
