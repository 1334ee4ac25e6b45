"""Reproductions: a paper's tables and figures, with our numbers beside the published ones."""

from headcount.reproduce.michel2019 import michel2019
from headcount.reproduce.voita2019 import voita2019
from headcount.reproduce.write import write_michel2019, write_voita2019

__all__ = ["michel2019", "voita2019", "write_michel2019", "write_voita2019"]
