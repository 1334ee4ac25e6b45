"""What is checked of a command line before it is parsed."""

from collections.abc import Sequence

from headcount.core import InputError, amount

MAY_BE_EMPTY = ("--prefix",)
"""Options whose text may be empty."""


def check_not_empty(arguments: Sequence[str]) -> None:
    """Check that no argument is an empty text, which as a path would be the working directory.

    Raises:
        InputError: If one is; names the option.
    """
    option = "an argument"
    for each in arguments:
        option = each.partition("=")[0] if each.startswith("--") else option
        if option not in MAY_BE_EMPTY and (not each or each == f"{option}="):
            raise InputError(
                f"Expected a value for {option}, got an empty text. Give one, or leave it out. The "
                "working directory is written as a dot."
            )


def check_given_once(arguments: Sequence[str]) -> None:
    """Check that no option is given twice, since the values of the first would be lost.

    Raises:
        InputError: If one is; names it.
    """
    given = [each.partition("=")[0].replace("_", "-") for each in arguments if each[:2] == "--"]
    twice = next((option for option in given if given.count(option) > 1), None)
    if twice is not None:
        times = amount(given.count(twice), "time")
        raise InputError(
            f"Expected {twice} once, got it {times}. Give all its values after one {twice}."
        )
