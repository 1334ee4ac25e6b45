"""Pruning: choosing which heads are pruned under an exact budget, with one file per method."""

from headcount.pruning.budget import Keep, Units
from headcount.pruning.learned import plan_of
from headcount.pruning.method import Choice, Method, Ranking, Setting
from headcount.pruning.order import Order
from headcount.pruning.plan import Plan

__all__ = ["Choice", "Keep", "Method", "Order", "Plan", "Ranking", "Setting", "Units", "plan_of"]
