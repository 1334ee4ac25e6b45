"""Compaction: a plan and a model make a smaller model, exactly."""

from headcount.compaction.compact import compact

__all__ = ["compact"]
