"""Unused options: options that were set but that nothing in this run reads raise an error."""

from headcount.errors import InputError


def refuse_idle(command: object, option: str, read_by: str, advice: str) -> None:
    """Raise an error if an option that nothing would read is not at its default.

    Args:
        command: Arguments, with defaults in their class.
        option: Name of the field.
        read_by: The part that would read the option.
        advice: How to ask for that part.

    Raises:
        InputError: If the option was set.
    """
    if getattr(command, option) != getattr(type(command), option):
        raise InputError(
            f"--{option.replace('_', '-')} only affects {read_by}. {advice}, or leave the option "
            "out."
        )
