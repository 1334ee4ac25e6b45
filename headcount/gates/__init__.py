"""Gates in training: drawn, relaxed or fixed. Any transformers Trainer gains them in two lines."""

from headcount.gates.fixed import Fixed
from headcount.gates.gating import gating
from headcount.gates.hard_concrete import HardConcrete
from headcount.gates.head_gates import HeadGates, LearnedGates
from headcount.gates.layout import Layout
from headcount.gates.pressure import Budget, Constant, Pressure
from headcount.gates.quota import Quota, quotas
from headcount.gates.subset import Subset
from headcount.gates.training import GateTraining

__all__ = [
    "Budget", "Constant", "Fixed", "GateTraining", "HardConcrete", "HeadGates", "Layout",
    "LearnedGates", "Pressure", "Quota", "Subset", "gating", "quotas",
]  # fmt: skip
