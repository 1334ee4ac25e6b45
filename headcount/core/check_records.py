"""Records of checks: that those of a plug-in were run, and what became of them.

`headcount check` writes one for each plug-in into the user's cache, and `headcount doctor` reads
it. It is for the version, or the content of a file, that was checked.
"""

import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

from headcount import __version__
from headcount.core.errors import InputError
from headcount.core.files import cache_folder, short_hash, write_json
from headcount.core.typed_json import JsonObject


@final
@dataclass(frozen=True)
class CheckRecord:
    """Numbers of checks by what became of them."""

    plugin: str
    """Name and version of the plug-in."""
    passed: int = 0
    """Also those that failed as expected."""
    failed: int = 0
    left_out: int = 0
    headcount: str = __version__
    """Version of headcount whose checks they were."""

    def plus(self, passed: int = 0, failed: int = 0, left_out: int = 0) -> "CheckRecord":
        """The record with further checks."""
        return replace(
            self,
            passed=self.passed + passed,
            failed=self.failed + failed,
            left_out=self.left_out + left_out,
        )

    @property
    def sentence(self) -> str:
        """What became of them, as the end of a sentence."""
        numbers = {"passed": self.passed, "failed": self.failed, "left out": self.left_out}
        counts = ", ".join(f"{number} {state}" for state, number in numbers.items() if number)
        return f"checks: {counts or 'none'}"

    def write(self) -> None:
        """Write the record into the user's cache; a warning if that is impossible."""
        file = _file(self.plugin)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, asdict(self))
        except OSError as error:
            warnings.warn(
                f"the record of the checks can't be kept in {file}: {error}", stacklevel=2
            )


def checks_of(plugin: str) -> str:
    """What became of a plug-in's checks, as the end of a sentence."""
    file = _file(plugin)
    if not file.exists():
        return "checks not run"
    try:
        found = JsonObject.read(file, "headcount check", "the user's cache").decode(CheckRecord)
    except InputError:
        return "checks not run, or their record is damaged"
    by = "" if found.headcount == __version__ else f" (of headcount {found.headcount})"
    return f"{found.sentence}{by}"


def _file(plugin: str) -> Path:
    """The file of a plug-in's record."""
    return cache_folder("plugins") / f"{short_hash(plugin, 16)}.json"
