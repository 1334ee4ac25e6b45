"""Document: the tables of a speed comparison in Markdown."""

from headcount.markdown import share, table
from headcount.speed.case import Case, Timing
from headcount.speed.comparison import Speed
from headcount.speed.size import Size

CASE = ("mode", "batch", "tokens")
GAINS = (*CASE, "times as fast (95 %)", "dense against itself", "ceiling", "% of its gain")
"""Columns of speedups and their ceilings."""
COSTS = (*CASE, "latency, ms", "examples/s", "tokens/s", "peak memory, MB")
"""Columns of costs, each with a number for the dense and for the pruned model."""


def document(speed: Speed, names: tuple[str, str]) -> str:
    """Markdown with sizes, speedups, costs, warnings and the machine."""
    machine = speed.machine
    parts = [
        f"# Speed of {names[1]} beside {names[0]}",
        table(("", *names), size_rows(speed.dense, speed.pruned)),
        "Mean ratios of times within rounds, in which the two models took turns. The ceiling is "
        "the ratio of their FLOPs.",
        table(GAINS, [gain_cells(each) for each in speed.timings]),
        "Medians over rounds: dense / pruned model. Memory is the peak of a call beyond weights "
        "and inputs.",
        table(COSTS, [cost_cells(each) for each in speed.timings]),
        "\n".join(f"- {told}" for told in speed.warnings()),
        f"{machine['name']}, {machine['device']}, {machine['threads']} threads, "
        f"{machine['dtype']}, attention {machine['attention']}, load before the run "
        f"{machine['load']}; torch {machine['versions']['torch']}, transformers "
        f"{machine['versions']['transformers']}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def gain_cells(timing: Timing) -> list[str]:
    """One row of the table of speedups."""
    return [
        *_case_cells(timing.case), str(timing.speedup), str(timing.noise),
        f"{timing.ceiling:.2f}", share(timing.reached),
    ]  # fmt: skip


def cost_cells(timing: Timing) -> list[str]:
    """One row of the table of costs."""
    records = [each.record(timing.case) for each in (timing.dense, timing.pruned)]
    scales = {"latency_s": 1e3, "examples_per_s": 1, "tokens_per_s": 1, "peak_bytes": 1e-6}
    pairs = ([each[name] * scale for each in records] for name, scale in scales.items())
    return [*_case_cells(timing.case), *(" / ".join(map(_number, pair)) for pair in pairs)]


def _case_cells(case: Case) -> list[str]:
    added = f" + {case.new_tokens}" if case.new_tokens else ""
    return [case.mode, str(case.batch), f"{case.length}{added}"]


def size_rows(dense: Size, pruned: Size) -> list[list[str]]:
    """Rows of the table of sizes."""
    return [
        ["parameters", *(f"{each.parameters:,}" for each in (dense, pruned))],
        ["parameters, MB", *(f"{each.parameter_bytes / 1e6:,.2f}" for each in (dense, pruned))],
        ["weights on disk, MB", *(_megabytes(each.disk_bytes) for each in (dense, pruned))],
    ]


def _megabytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 1e6:,.2f}"


def _number(value: float) -> str:
    """A number with at least three significant digits; a dash for NaN."""
    if value != value:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
