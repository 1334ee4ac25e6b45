"""Columns of a task's data on the command line."""

from collections.abc import Sequence

from headcount.errors import InputError


def named_columns(columns: Sequence[str]) -> dict[str, str | int] | None:
    """ROLE=NAME, or ROLE=NUMBER, as a mapping; None where nothing was given.

    >>> named_columns(["source=en", "target=de"])
    {'source': 'en', 'target': 'de'}
    """
    pairs = [column.partition("=") for column in columns]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise InputError(f"columns are given as ROLE=NAME, came {role + equals + name!r}")
    roles = [role for role, _, _ in pairs]
    twice = sorted({role for role in roles if roles.count(role) > 1})
    if twice:
        raise InputError(f"every role has one column, came several for {', '.join(twice)}")
    return {role: name for role, _, name in pairs} or None
