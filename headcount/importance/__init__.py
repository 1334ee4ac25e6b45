"""Importance: scores of heads by gradient, relevance, measured ablation, norm and sink."""

from headcount.importance.ablation import (
    ablation,
    all_but_one,
    single_heads,
    whole_layers,
    whole_sites,
)
from headcount.importance.agreement import Agreement, agreement
from headcount.importance.assessment import METHODS, Assessment, Methods, assess
from headcount.importance.correlation import effects
from headcount.importance.folder import write_assessment
from headcount.importance.gradient import gradient
from headcount.importance.norm import norm
from headcount.importance.relevance import relevance
from headcount.importance.significance import holm, loss_deltas
from headcount.importance.sink import sink
from headcount.importance.sweep import Ablation, Swept, sweep
from headcount.importance.token_relevance import relevance_of_tokens

__all__ = [
    "METHODS",
    "Ablation",
    "Agreement",
    "Assessment",
    "Methods",
    "Swept",
    "ablation",
    "agreement",
    "all_but_one",
    "assess",
    "effects",
    "gradient",
    "holm",
    "loss_deltas",
    "norm",
    "relevance",
    "relevance_of_tokens",
    "single_heads",
    "sink",
    "sweep",
    "whole_layers",
    "whole_sites",
    "write_assessment",
]
