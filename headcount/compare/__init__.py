"""Compare two runs: which heads changed roles, and whether the same heads rank high."""

from headcount.compare.comparison import Comparison, compare
from headcount.compare.document import document
from headcount.compare.write import write_comparison

__all__ = ["Comparison", "compare", "document", "write_comparison"]
