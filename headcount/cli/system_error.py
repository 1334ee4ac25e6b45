"""System errors that a user can fix: a full disk or GPU, a path that can't be used."""

import errno
import os

import torch

TOLD = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
REFUSED = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG,
    errno.EBUSY, errno.EXDEV,
)  # fmt: skip


def mendable(error: BaseException) -> str | None:
    """The advice for one of these errors; None for any other."""
    return full_disk(error) or full_memory(error) or refused_path(error)


def full_disk(error: BaseException) -> str | None:
    """The advice for an error that a full disk caused, directly or through another error.

    It is recognised by the system's message, whichever library was writing: libraries in other
    languages raise their own exceptions with that message in them.
    """
    lines = [line for line in str(error).splitlines() if any(words in line for words in TOLD)]
    if lines:
        return (
            f"The disk is full ({lines[0]}). Free some space, then run the command again, with "
            "--resume if it has that option. Earlier files are unchanged, and complete checkpoints "
            "are kept."
        )
    came_of = error.__cause__ or error.__context__
    return None if came_of is None else full_disk(came_of)


def full_memory(error: BaseException) -> str | None:
    """The advice for an error that full GPU memory caused."""
    if not isinstance(error, torch.OutOfMemoryError):
        return None
    return (
        f"The device is out of memory ({str(error).splitlines()[0]}). Lower --max-tokens or "
        "batch_tokens if the command has them, or use --dtype bfloat16; add --resume if it has "
        "that."
    )


def refused_path(error: BaseException) -> str | None:
    """The advice for an error about a file or folder that can't be read or made."""
    if not (isinstance(error, OSError) and error.filename and error.errno in REFUSED):
        return None
    return (
        f"{os.fspath(error.filename)} can't be used ({error.strerror}). Name another path, or "
        "change its permissions."
    )
