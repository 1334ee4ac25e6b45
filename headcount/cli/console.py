"""The console that commands print to: what is printed is text, whatever it looks like."""

from rich.console import Console


def plain_console(soft_wrap: bool = True, stderr: bool = False) -> Console:
    """A console that reads no markup in a path, a name or a message and colours no numbers.

    Args:
        soft_wrap: whether lines are left whole, as paths should be; tables need False.
        stderr: whether to print to standard error.
    """
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False)
