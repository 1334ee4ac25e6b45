"""A full disk: known by what the system says of it, whichever library was writing."""

import os
from errno import EDQUOT, EFBIG, ENOSPC

TOLD = tuple(os.strerror(number) for number in (ENOSPC, EDQUOT, EFBIG))


def is_full(error: BaseException) -> bool:
    """Whether an error, or what it came of, is that nothing more can be written.

    Libraries in other languages raise exceptions of their own with the system's words in them.
    """
    came_of = error.__cause__ or error.__context__
    told = any(words in str(error) for words in TOLD)
    return told or (came_of is not None and is_full(came_of))


def told_full(error: BaseException) -> str:
    """What to do about it, with the error's first line, which may name the file."""
    return (
        f"room on the disk was expected, there is no more ({str(error).splitlines()[0]}): make "
        "some, then give the command again, with --resume where it has one; what was there before "
        "is as it was, and whole checkpoints are kept"
    )
