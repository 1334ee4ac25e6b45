"""Idle options: set, and read by nothing that was asked for. They are refused, not passed over."""

from headcount.errors import InputError


def refuse_idle(command: object, option: str, read_by: str, advice: str) -> None:
    """Refuse an option that is not at its default; to be called where nothing would read it.

    Args:
        command: the arguments, with defaults in their class.
        option: name of the field.
        read_by: what would read it.
        advice: how that is asked for.

    Raises:
        InputError: if the option was set.
    """
    if getattr(command, option) != getattr(type(command), option):
        raise InputError(
            f"--{option.replace('_', '-')} is of {read_by}: {advice}, or leave the option out"
        )
