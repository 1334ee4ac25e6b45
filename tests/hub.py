"""Simulated answers of the hub."""

from types import SimpleNamespace
from typing import Any, cast

from huggingface_hub.errors import RemoteEntryNotFoundError


def no_entry() -> RemoteEntryNotFoundError:
    """The answer that a model has no such file."""
    response = cast(Any, SimpleNamespace(headers={}, request=None))
    return RemoteEntryNotFoundError("no such file", response=response)
