"""Units: parts of a run that are done one by one, and kept, so that none of them is done twice.

The units of a run have names, and depend on its model, data and options only, neither on where the
run was stopped nor on the number of its processes (`sharing.py`). What is kept has the run's key, a
signature of model, data and options: a run resumes only from files with its own key. The file
before the newest is kept beside it, in case the newest is damaged.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from glob import escape
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from headcount.core.distributed import is_alone, processes, told_by_all
from headcount.core.errors import InputError, OtherRunError
from headcount.core.files import (
    START_AGAIN,
    before,
    parse_json,
    put,
    reading,
    write_atomically,
    write_json,
)
from headcount.core.sharing import shared
from headcount.core.typed_json import JsonObject, Kind, encoded
from headcount.core.wording import amount, shortened

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

SAVE_EVERY = 50
"""Number of batches that `fill` writes between two saves."""

_BATCHES = "batches"

MOST_NAMES = 300
"""Largest number of characters of the names of units in a warning."""


def is_kept(file: Path) -> bool:
    """Whether there is a state: a file, or the one before it, after a kill between two moves."""
    return any(True for _ in _parts_of(file))


def forget(file: Path) -> None:
    """Delete a state, with the one before it and the files of other processes and of units."""
    for each in [*_parts_of(file)]:
        each.unlink(missing_ok=True)  # another process of this run may have been first


def _parts_of(file: Path) -> Iterator[Path]:
    """All files of a state: its own, those of other processes and of units; the newest last."""
    for pattern in ("", ".p*", "-*"):
        for end in (before(file).name.removeprefix(file.name), ""):
            yield from file.parent.glob(f"{escape(file.stem)}{pattern}{file.suffix}{end}")


def latest(file: Path, read: Callable[[Path], T], held: Callable[[T], str]) -> T | None:
    """What a state holds; None if there is none.

    If the file is damaged, the one before it takes its place, with a warning.

    Args:
        file: the file of the state.
        read: reads this file or the one before it.
        held: what a state holds, in words.

    Raises:
        InputError: if both are damaged, or one that can be read belongs to another run.
    """
    earlier = before(file)
    if not file.exists():
        return read(earlier) if earlier.exists() else None
    try:
        return read(file)
    except OtherRunError:
        raise
    except InputError as error:
        if not earlier.exists():
            raise
        try:
            found = read(earlier)
        except OtherRunError:
            raise
        except InputError:
            raise error from None
        put(earlier, file)  # so that the next save keeps a state that can be read
        warnings.warn(
            f"{str(error).removesuffix(START_AGAIN)}The state saved before it takes its place, and "
            f"the later ones are computed again: it holds {held(found)}",
            stacklevel=2,
        )
        return found


@final
class Kept(Mapping[str, T], Generic[T]):
    """Results of the units that are done, by name, in memory and in a file.

    The file is written completely or not at all, and the one before it is kept. Each process has a
    file of its own, and knows what the files of all processes hold.

    Args:
        file: the file; None keeps the results in memory only.
        key: the key of this run.
        what: what the file holds, in words.
        kind: type of a result, which says how it is written (see `typed_json.py`).
        every: smallest number of seconds between two writes; 0 writes after every unit.

    Raises:
        InputError: if the file is damaged, belongs to another run or holds other results.
    """

    def __init__(
        self, file: Path | None, key: str, what: str, kind: Kind[T], every: float = 0.0
    ) -> None:
        self._file, self._key, self._every = file, key, every
        self._results, self._stored = dict[str, T](), dict[str, Any]()
        self._saved, self._is_saved = monotonic(), True
        self.seconds = dict[str, float]()
        """How long each unit took that `once` or `results` did."""
        if file is None:
            return
        rank = 0 if is_alone() else processes().process_index
        self._file = file.with_name(f"{file.stem}.p{rank}{file.suffix}") if rank else file
        others = {file, *file.parent.glob(f"{escape(file.stem)}.p*{file.suffix}")}
        for each in (*sorted(others - {self._file}), self._file):
            if found := latest(each, partial(_read, key, what, kind), _held):
                results, self._stored, seconds = found
                self._results, self.seconds = self._results | results, self.seconds | seconds
            else:
                self._stored = {}
        # What the first process knows goes first, so that all of them resume from one state
        for results, seconds in reversed(told_by_all((self._results, self.seconds))):
            self._results, self.seconds = self._results | results, self.seconds | seconds

    def __getitem__(self, name: str) -> T:
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def results(self, units: Iterable[tuple[str, Callable[[], T]]]) -> Generator[T, None, None]:
        """The result of each unit in turn; those that are not done are done, and kept.

        Processes share the units.

        Args:
            units: the name of each unit, and what does it.
        """
        try:
            timed = ((name, partial(self._timed, name, do)) for name, do in units)
            for name, result in shared(timed, self):
                self._results[name] = result
                yield result
            for seconds in told_by_all(self.seconds):
                self.seconds = seconds | self.seconds
        finally:  # after Ctrl-C too
            self.save()

    def once(self, name: str, do: Callable[[], T]) -> T:
        """The result of one unit, which is done and kept if it is not done yet.

        All processes do it together.
        """
        if name not in self:
            self[name] = self._timed(name, do)
        return self[name]

    def _timed(self, name: str, do: Callable[[], T]) -> T:
        start = perf_counter()
        found = do()
        self.seconds[name] = round(perf_counter() - start, 1)
        return found

    def __setitem__(self, name: str, result: T) -> None:
        self.keep({name: result})

    def keep(self, results: Mapping[str, T]) -> None:
        """Keep results, in place of earlier ones of the same names."""
        self._results |= results
        self._stored |= encoded(results)
        self._is_saved = False
        if monotonic() - self._saved >= self._every:
            self.save()

    def save(self) -> None:
        """Write what is not in the file yet."""
        if self._file is not None and not self._is_saved:
            held = {"key": self._key, "seconds": self.seconds, "done": self._stored}
            write_json(self._file, held | {"sha256": _sha256(held)}, keeps_before=True)
            self._saved, self._is_saved = monotonic(), True


_Read = tuple[dict[str, T], dict[str, Any], dict[str, float]]
"""Results, as they are stored, and the seconds that each took."""


def _read(key: str, what: str, kind: Kind[T], file: Path) -> "_Read[T]":
    with reading(file, what):
        found = parse_json(file.read_text(encoding="utf-8"))
        made, done = found["key"], dict(found["done"])
        rest = {name: value for name, value in found.items() if name != "sha256"}
        of_earlier_versions = _sha256(done)
        if found.get("sha256", of_earlier_versions) not in (_sha256(rest), of_earlier_versions):
            raise ValueError("it was changed since it was written")
        seconds = {str(name): float(each) for name, each in found.get("seconds", {}).items()}
    check_same_key(file, made, key)
    by_name: Any = Mapping[str, kind]  # type: ignore[valid-type]
    results = JsonObject({"done": done}, str(file), START_AGAIN).field("done", by_name)
    return results, done, seconds


def _held(read: "_Read[Any]") -> str:
    """Names of the units that are done, and how much those hold that count or list something."""

    def named(name: str, value: object) -> str:
        number = len(value) if isinstance(value, Mapping) else value
        return f"{name} ({number})" if isinstance(number, int) else name

    names = ", ".join(named(*each) for each in read[0].items())
    return shortened(f"{amount(len(read[0]), 'unit')}: {names}", MOST_NAMES)


def fill(
    kept: Kept[int],
    batches: Sequence[Sequence[T]],
    write: Callable[[Sequence[T]], object],
    flush: Callable[[], object],
    progress: Callable[[int], object],
) -> None:
    """Write batches to files whose size is known before; resumes after the last that is on disk.

    Args:
        kept: the number of batches on disk.
        batches: all batches.
        write: reads a batch and writes what belongs to it to its place in the files.
        flush: brings the files to disk.
        progress: called with the number of items of the batches so far.
    """
    first = kept.get(_BATCHES, 0)
    seen = sum(map(len, batches[:first]))
    for number, batch in enumerate(batches[first:], start=first + 1):
        write(batch)
        seen += len(batch)
        progress(seen)
        if number % SAVE_EVERY == 0 or number == len(batches):
            flush()
            kept.keep({_BATCHES: number})


def write_arrays(file: Path, arrays: "Mapping[str, np.ndarray]", about: Mapping[str, str]) -> None:
    """Write named arrays and texts about them, completely or not at all; nothing is pickled.

    The file before this one is kept.
    """
    from safetensors.numpy import save_file  # only here: texts are read and written without

    sealed = {**about, "sha256": _arrays_sha256(arrays, about)}
    write_atomically(file, lambda part: save_file({**arrays}, part, metadata=sealed), True)


def read_arrays(file: Path, what: str) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
    """The arrays that `write_arrays` wrote, and the texts about them.

    Args:
        file: the file.
        what: what it holds, in words.

    Raises:
        InputError: if it is damaged.
    """
    from safetensors import safe_open

    with reading(file, what), safe_open(file, framework="np") as opened:
        about = opened.metadata() or {}
        arrays = {name: opened.get_tensor(name).copy() for name in opened.keys()}
        found = _arrays_sha256(arrays, about)
        if about.get("sha256", found) != found:  # older files have none
            raise ValueError("it was changed since it was written")
    return arrays, about


def check_same_key(file: Path, made: str | None, key: str) -> None:
    """Check that a file belongs to this run.

    Args:
        file: the file.
        made: its key.
        key: the key of this run.

    Raises:
        OtherRunError: if they differ.
    """
    if made != key:
        before, now = _parts(made or ""), _parts(key)
        differ = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        advice = "Give the same arguments"
        if "headcount" in differ and "headcount" in before:
            advice = f"Resume with headcount {before['headcount']}, which made it"
        raise OtherRunError(
            f"--resume needs the same model, data and options. {file} belongs to the run\n  "
            f"{made}\nand this one would be\n  {key}\nThey differ in {', '.join(differ)}. "
            f"{advice}, or start again with --overwrite instead of --resume."
        )


def _parts(key: str) -> dict[str, str]:
    """The parts of a key, which is a signature such as `model:bert|seed:0`."""
    return {name: value for name, _, value in (part.partition(":") for part in key.split("|"))}


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _arrays_sha256(arrays: "Mapping[str, np.ndarray]", about: Mapping[str, str]) -> str:
    """Hash of named arrays and of the texts about them."""
    import numpy as np

    digest = hashlib.sha256(json.dumps({**about, "sha256": ""}, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {arrays[name].shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
