"""The command line, one file a command."""

from headcount.cli.command import main

__all__ = ["main"]
