"""Speed: the measured speedup of a pruned model, and its ceiling."""

from headcount.speed.case import Case, Cost, Timing
from headcount.speed.ceiling import LayerFlops, ModelFlops, ceiling, model_flops
from headcount.speed.clock import latency
from headcount.speed.comparison import Options, Speed, compare_speed
from headcount.speed.flops import flops
from headcount.speed.memory import peak_bytes
from headcount.speed.modes import MODES
from headcount.speed.ratio import Ratio
from headcount.speed.rows import TokenRows
from headcount.speed.size import Size
from headcount.speed.write import write_speed

__all__ = [
    "MODES",
    "Case",
    "Cost",
    "LayerFlops",
    "ModelFlops",
    "Options",
    "Ratio",
    "Size",
    "Speed",
    "Timing",
    "TokenRows",
    "ceiling",
    "compare_speed",
    "flops",
    "latency",
    "model_flops",
    "peak_bytes",
    "write_speed",
]
