"""The command line: one file per command."""

from headcount.cli.command import main

__all__ = ["main"]
