"""The console that commands print to: all output is plain text, never markup."""

from rich.console import Console


def plain_console(soft_wrap: bool = True, stderr: bool = False) -> Console:
    """A console that never reads a path, name or message as markup and never colours numbers.

    Args:
        soft_wrap: Whether long lines stay unbroken, as paths need; tables need False.
        stderr: Whether to print to standard error.
    """
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False)
