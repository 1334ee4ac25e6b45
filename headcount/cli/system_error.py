"""Errors of the system that a user can mend: a full disk or GPU, a path that can't be used."""

import errno
import os

import torch

TOLD = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
REFUSED = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG,
    errno.EBUSY, errno.EXDEV,
)  # fmt: skip


def mendable(error: BaseException) -> str | None:
    """What to do about an error, if it is one of these; None for any other."""
    return full_disk(error) or full_memory(error) or refused_path(error)


def full_disk(error: BaseException) -> str | None:
    """What to do about an error, if it, or what it came of, is that nothing more can be written.

    Known by what the system says of it, whichever library was writing: those in other languages
    raise exceptions of their own with the system's words in them.
    """
    lines = [line for line in str(error).splitlines() if any(words in line for words in TOLD)]
    if lines:
        return (
            f"room on the disk was expected, there is no more ({lines[0]}): make some, then give "
            "the command again, with --resume where it has one; what was there before is as it "
            "was, and whole checkpoints are kept"
        )
    came_of = error.__cause__ or error.__context__
    return None if came_of is None else full_disk(came_of)


def full_memory(error: BaseException) -> str | None:
    """What to do about an error, if it is that a GPU's memory is full."""
    if not isinstance(error, torch.OutOfMemoryError):
        return None
    return (
        f"more memory of the device was expected ({str(error).splitlines()[0]}): give fewer tokens "
        "at a time, by --max-tokens or batch_tokens where the command has them, with --resume "
        "where it has that, or --dtype bfloat16"
    )


def refused_path(error: BaseException) -> str | None:
    """What to do about an error, if it is that a file or folder can't be read or made."""
    if not (isinstance(error, OSError) and error.filename and error.errno in REFUSED):
        return None
    return (
        f"a path that can be used was expected; {os.fspath(error.filename)} can't "
        f"({error.strerror}): name another, or change what may be done with it"
    )
