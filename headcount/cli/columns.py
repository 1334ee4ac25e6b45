"""Columns of a task's data, as the command line names them."""

from collections.abc import Sequence

from headcount.errors import InputError


def named_columns(columns: Sequence[str]) -> dict[str, str | int] | None:
    """The mapping that ROLE=NAME or ROLE=NUMBER arguments describe; None without arguments.

    >>> named_columns(["source=en", "target=de"])
    {'source': 'en', 'target': 'de'}
    """
    pairs = [column.partition("=") for column in columns]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise InputError(f"Expected columns as ROLE=NAME, got {role + equals + name!r}.")
    roles = [role for role, _, _ in pairs]
    twice = sorted({role for role in roles if roles.count(role) > 1})
    if twice:
        raise InputError(f"Expected one column for each role, got several for {', '.join(twice)}.")
    return {role: name for role, _, name in pairs} or None
