"""Pruning: which heads go, under an exact budget; one file a method."""

from headcount.pruning.budget import Units
from headcount.pruning.method import Choice, Method, Ranking, Setting
from headcount.pruning.plan import Plan

__all__ = ["Choice", "Method", "Plan", "Ranking", "Setting", "Units"]
