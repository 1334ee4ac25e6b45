"""Compaction: a plan and a model make a smaller model, exactly."""

from headcount.compaction.compact import compact
from headcount.compaction.restore import restorable, restored

__all__ = ["compact", "restorable", "restored"]
