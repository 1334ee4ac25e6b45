"""A full disk: known by what the system says of it, whichever library was writing."""

import os
from errno import EDQUOT, EFBIG, ENOSPC

TOLD = tuple(os.strerror(number) for number in (ENOSPC, EDQUOT, EFBIG))


def full_disk(error: BaseException) -> str | None:
    """What to do about an error, if it, or what it came of, is that nothing more can be written.

    Libraries in other languages raise exceptions of their own with the system's words in them.
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
