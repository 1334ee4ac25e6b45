"""Files: each is written completely or not at all, also if the power is cut.

Paths that files name stay inside their folder, and writing follows no link.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path, PureWindowsPath
from typing import Any

from headcount.core.errors import InputError
from headcount.core.wording import HIDDEN, shortened, visible


def make_folder(folder: Path, named: Path | None = None) -> None:
    """Create a folder if there is none.

    Args:
        folder: the folder.
        named: the folder for the message, if the user knows it by another name.

    Raises:
        InputError: if it can't be made, as under /proc.
    """
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        raise InputError(
            f"{named or folder} can't be made ({error.strerror}). Name another folder."
        ) from error
    for each in new:
        _sync(each.parent)


_PART = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)\.part")
"""Pattern of the temporary names of `write_atomically`."""


def write_atomically(
    path: Path, write: Callable[[Path], object], keeps_before: bool = False
) -> None:
    """Call `write` with a temporary path beside `path`, then put the file in its place.

    Args:
        path: the file.
        write: writes it.
        keeps_before: whether an earlier file stays, as `before(path)`.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        if keeps_before and path.exists():
            os.replace(path, before(path))
        put(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def before(path: Path) -> Path:
    """Where the file is kept that was at a path before the one that is there."""
    return path.with_name(f"{path.name}.1")


def put(new: Path, place: Path) -> None:
    """Move a file or folder to its place: after a power cut it is there completely, or not."""
    _flush(new)
    os.replace(new, place)
    _sync(place.parent)


def flush(path: Path) -> None:
    """Bring a file that another library wrote, or a folder and its files, to the disk."""
    _flush(path)
    _sync(path.parent)


def _flush(path: Path) -> None:
    if path.is_dir():
        for each in sorted(path.iterdir()):
            if not each.is_symlink():
                _flush(each)
    if path.is_dir() or path.is_file():  # opening a pipe would wait
        _sync(path)


_NO_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)
"""Errors of file systems that can't flush folders, and of folders that may not be listed."""


def _sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    if os.name == "nt":
        return  # can't open folders, and flushes only files that are open for writing
    try:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NO_FLUSH):
            raise


LOCK = ".headcount.lock"
"""File that locks its folder where the file system can't."""


def is_leftover(path: Path) -> bool:
    """Whether a file is no result: a lock, or what a process left that was killed in a write."""
    found = _PART.fullmatch(path.name)
    return path.name == LOCK or (found is not None and not is_running(int(found["process"])))


def is_running(process: int) -> bool:
    """Whether another process has this number; this one's was that of one that was killed."""
    if process == os.getpid():
        return False  # it has the number of the one that was killed
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True


def entries(folder: Path) -> list[Path]:
    """The files and folders in a folder, without leftovers, as `is_leftover` says; sorted."""
    found = folder.iterdir() if folder.exists() else ()
    return sorted(path for path in found if not is_leftover(path))


def remove_leftovers(folder: Path, names: Callable[[str], bool] = lambda name: True) -> None:
    """Remove what killed processes left of files with certain names."""
    for path in list(folder.iterdir()) if folder.is_dir() else ():
        part = _PART.fullmatch(path.name)
        if part and names(part["name"]) and is_leftover(path) and not path.is_dir():
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str, keeps_before: bool = False) -> None:
    """Write UTF-8 text, completely or not at all."""
    write_atomically(path, lambda file: file.write_text(text, encoding="utf-8"), keeps_before)


def write_readable(path: Path, text: str) -> None:
    """Write a document or page, completely or not at all, with signs for control characters."""
    write_text(path, visible(text))


def write_json(path: Path, value: Any, keeps_before: bool = False) -> None:
    """Write JSON that a person can read, completely or not at all; NaN is refused.

    Characters that a terminal could obey are written as escapes.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    escaped = HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    write_text(path, f"{escaped}\n", keeps_before)


START_AGAIN = "Start again with --overwrite instead of --resume."
"""What to do about a damaged file of an interrupted run."""


@contextmanager
def reading(
    file: Path,
    what: str,
    advice: str = START_AGAIN,
) -> Iterator[None]:
    """Report what a file should hold, and what to do, if it can't be read inside the block.

    Raises:
        InputError: in place of the original error.
    """
    check_is_no_pipe(file)
    try:
        yield
    except InputError:
        raise  # it already says so
    except Exception as error:  # damaged bytes may raise anything in the library that reads them
        raise InputError(
            f"Expected {what} in {file}, but it can't be read: {reason(error)}. {advice}"
        ) from error


_NO_TENSOR = re.compile(r"GLOBAL (\S+) was not an allowed global")
LONGEST = 400
"""Largest number of characters of a reason: some libraries list all that they know."""


def reason(error: BaseException) -> str:
    """What went wrong, in one line: the system's words, the first sentence, or the error's name."""
    return shortened(_reason(error), LONGEST)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if str(error).startswith("Weights only load failed"):  # goes on to say how to run its code
        held = _NO_TENSOR.search(str(error))
        if held is None:
            return "its pickle is damaged, or holds more than tensors"
        return f"its pickle holds {held[1]!r}, which is no tensor and could run code"
    text = str(error).partition("; use sys.set_int_max_str_digits()")[0]  # no user can call it
    lines = [line.strip().rstrip(".") for line in text.strip().splitlines()] or [""]
    if lines[0].endswith(":") and len(lines) > 1:  # the cause is in the next line
        lines[0] += f" {lines[1]}"
    named = isinstance(error, KeyError | TypeError | AttributeError | IndexError) or not lines[0]
    return f"{type(error).__name__}: {lines[0]}".removesuffix(": ") if named else lines[0]


def cache_folder(kind: str) -> Path:
    """A folder of what headcount keeps for this user; `HEADCOUNT_CACHE` names another place."""
    from platformdirs import user_cache_path  # only here: most commands keep nothing

    named = os.environ.get("HEADCOUNT_CACHE")
    return (Path(named) if named else user_cache_path("headcount")) / kind


def short_hash(content: str | bytes, num_digits: int = 12) -> str:
    """The first digits of the SHA-256 of what a signature names.

    >>> short_hash("headcount"), short_hash(b"headcount", 8)
    ('ea42dacce10e', 'ea42dacc')
    """
    content = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:num_digits]


def sha256_of(file: Path) -> str:
    """Hash of a file, read piece by piece."""
    check_is_no_pipe(file)
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def parse_json(text: str) -> Any:
    """The value in a JSON text.

    Raises:
        ValueError: if it is no JSON, or an object names a field twice.
    """
    return json.loads(text, object_pairs_hook=_named_once)


def _named_once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"it names {next(n for n in names if names.count(n) > 1)!r} twice")
    return found


def check_is_no_pipe(file: Path) -> None:
    """Check that a file is none that makes its reader wait for a writer, or never ends.

    Pipes of the shell, as in `--plan <(...)`, have names below /dev.

    Raises:
        InputError: if it is a named pipe, a socket or a device.
    """
    is_special = file.exists() and not (file.is_file() or file.is_dir())
    if is_special and not (file.parts[:2] == ("/", "dev") and file.is_fifo()):
        raise InputError(
            f"Expected a file, but {file} is a named pipe, a socket or a device. Replace it by a "
            "file."
        )


def read_json(file: Path, what: str, advice: str) -> Any:
    """The value in a JSON file.

    Args:
        file: the file.
        what: what it should hold, for errors.
        advice: what to do if it can't be read, for errors.

    Raises:
        InputError: if it can't be read, for whatever reason.
    """
    with reading(file, what, advice):
        return parse_json(file.read_text(encoding="utf-8"))


def parquet(file: Path) -> Any:
    """The table in one Parquet file, as pyarrow has it; never a folder of tables."""
    import pyarrow.parquet as pq  # only here: files are named and claimed without

    return pq.ParquetFile(file).read()


DATA = Path(str(resources.files("headcount") / "data"))
"""The folder of the models and data sets that come with the package."""
SAMPLE = DATA / "sample.conllu"
"""Texts of ours, with trees."""


def inside(folder: Path, name: str) -> Path:
    """The path of a file or folder that a file in `folder` names.

    A folder of the hub's cache holds links to the cache's blobs, which count as inside.

    Raises:
        InputError: If the path leaves the folder, directly or by a link.
    """
    path = PureWindowsPath(name)  # knows both separators, and drives
    if path.anchor or ".." in path.parts or "\0" in name:
        raise InputError(
            f"Expected paths inside {folder} in its files, got {name!r}. Move the file into the "
            "folder."
        )
    check_inside(folder, folder / name)
    return folder / name


def check_inside(folder: Path, path: Path) -> None:
    """Check that no link leads from a folder's file or sub-folder to a place outside it.

    Raises:
        InputError: If one does, or links lead in a circle.
    """
    try:
        target, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as error:  # Python 3.11 raises a RuntimeError for a circle
        raise InputError(f"{path} is a link that leads in a circle. Remove it.") from error
    store = target.parent
    is_blob = store.name == "blobs" and store.parent.name.startswith(("models--", "datasets--"))
    if not (target.is_relative_to(root) or is_blob):
        raise InputError(
            f"Expected files inside {folder}, but {path.name} is a link to {target}. Copy the file "
            "into the folder."
        )


def check_no_links(out: Path) -> None:
    """Check that writing below a folder for results changes nothing elsewhere.

    The folder itself may be a link: the user named it.

    Raises:
        InputError: If there is a link anywhere below it.
    """
    for folder, folders, files in os.walk(out):
        for name in (*folders, *files):
            if (path := Path(folder, name)).is_symlink():
                raise InputError(
                    f"Expected no links in a folder for results, but {path} is one, to "
                    f"{os.readlink(path)}. Remove it, or name another folder."
                )


def check_not_read(out: Path, read: Iterable[Path]) -> None:
    """Check that a folder that will be replaced entirely holds nothing that the run reads.

    Raises:
        InputError: If a path to read is inside the folder.
    """
    for path in read:
        if path.exists() and out.resolve() in (path.resolve(), *path.resolve().parents):
            raise InputError(
                f"This run reads {path}, but would replace all of {out}. Name another folder."
            )


def name_of(path: str | Path) -> str:
    """The last part of a local path; any other text, such as a hub name, unchanged.

    >>> name_of("/home/me/model"), name_of("google-bert/bert-base-cased")
    ('model', 'google-bert/bert-base-cased')
    """
    text, place = str(path), Path(path)
    is_local = isinstance(path, Path) or place.is_absolute() or text.startswith((".", "~"))
    if not is_local and ("/" not in text or not exists(place)):
        return text
    return place.name or place.resolve().name or text


def exists(path: Path) -> bool:
    """Whether there is a file or folder; False for text that can be no path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
