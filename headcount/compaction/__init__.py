"""Compaction: make a smaller model from a model and a plan, exactly."""

from headcount.compaction.compact import compact
from headcount.compaction.restore import restorable, restored

__all__ = ["compact", "restorable", "restored"]
