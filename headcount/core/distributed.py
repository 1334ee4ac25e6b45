"""Processes: how many are running, and whether all of them live.

torchrun starts them, accelerate connects them, and each tells the next one through torch's TCPStore
every second that it lives.
"""

import atexit
import os
import pickle
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import cache
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar, final
from uuid import uuid4

from headcount.core.capability import capabilities
from headcount.core.errors import InputError

if TYPE_CHECKING:
    from accelerate import PartialState

T = TypeVar("T")

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
"""Environment variables that launchers set to the number of processes; accelerate reads them."""
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Environment variables that launchers set to the number of this process, from 0."""


def processes() -> "PartialState":
    """The rank of this process and the number of processes: one, unless torchrun started several.

    Only sums of a few kilobytes are exchanged, so gloo on the CPU is enough, whatever the model's
    device.
    """
    from accelerate import PartialState

    return PartialState(cpu=True)


MEETING = 60.0
"""Seconds in which all processes of a command must meet."""


def meet() -> None:
    """Meet all processes of a command, which begin at about the same time.

    One that ended before is not waited for as long as one that works; needs no torch if there is
    one process. In a script of a user, where one process may come much later than the others, it is
    torch's time that counts.
    """
    distributed: Any = None if is_alone() else import_module("torch.distributed")
    if distributed is None or distributed.is_initialized():
        return
    from accelerate import PartialState

    PartialState(cpu=True, timeout=timedelta(seconds=MEETING))
    _meeting()
    group: Any = import_module("torch.distributed.distributed_c10d")
    group._get_default_store().set_timeout(group.default_pg_timeout)
    group._set_pg_timeout(group.default_pg_timeout)


def is_alone() -> bool:
    """Whether no launcher started several processes, or this one works on a unit that is its own.

    Needs no torch.
    """
    return _started() < 2 or _IN_UNIT.get()


def is_main_process() -> bool:
    """Whether this is the process that writes and prints; needs no torch, and waits for none."""
    return _started() < 2 or not any(int(os.environ.get(name) or 0) for name in RANKS)


def wait_for_everyone() -> None:
    """Wait until all processes are here, as long as they live; needs no torch if there is one.

    Raises:
        InputError: if another process ended.
    """
    if not is_alone():
        _meeting().wait()


def check_everyone_lives() -> None:
    """Check that all processes live, as far as they have told so; waits for none.

    Raises:
        InputError: if another process ended.
    """
    if not is_alone():
        _meeting().check()


def check_alike(facts: Mapping[str, object]) -> None:
    """Check that some facts, such as the model and the data, are the same in all processes.

    Args:
        facts: what must be the same, by names for the message.

    Raises:
        InputError: for the first fact that differs, in all processes.
    """
    _check_alike(told_by_all({name: str(fact) for name, fact in facts.items()}))


def _check_alike(every: Sequence[Mapping[str, str]]) -> None:
    for name in every[0]:
        found = dict[str | None, int]()
        for rank, each in enumerate(every):
            found.setdefault(each.get(name), rank)
        if len(found) > 1:
            shown = ", ".join(f"{fact} in process {rank}" for fact, rank in found.items())
            raise InputError(
                f"Expected the same {name} in all processes, got {shown}. Start all of them with "
                "the same arguments, files, packages and settings."
            )


def leave() -> None:
    """Tell the other processes, if this one has met any, that it ends, which they may wait for."""
    if _meeting.cache_info().currsize:
        _meeting().leave()


@final
class _Pickler(pickle.Pickler):
    """Pickles of a tensor the numbers that it shows, not the larger tensor that it is a view of."""

    def reducer_override(self, each: Any) -> Any:
        import torch

        if isinstance(each, torch.Tensor) and each.is_cpu and not each.requires_grad:
            with suppress(TypeError):  # bfloat16, which numpy lacks
                return torch.from_numpy, (each.numpy(),)
        return NotImplemented


def _packed(told: object) -> bytes:
    packed = BytesIO()
    _Pickler(packed).dump(told)
    return packed.getvalue()


def told_by_all(mine: T) -> list[T]:
    """What each process tells, in the order of the processes, once all are here."""
    if is_alone():
        return [mine]
    from accelerate.utils import gather_object

    wait_for_everyone()
    return [*map(pickle.loads, gather_object([_packed(mine)]))]


def told_by(process: int, tell: Callable[[], T]) -> T:
    """What one process tells all; the others only listen."""
    if is_alone():
        return tell()
    from accelerate.utils import broadcast_object_list

    is_me = processes().process_index == process
    told: list[Any] = [_packed(tell()) if is_me else None]
    return pickle.loads(broadcast_object_list(told, from_process=process)[0])


def told_once(mine: T) -> list[T]:
    """What processes tell of the units that they did, once of those that did the same ones."""
    return told_by_all(mine)[:: together()]


def taken(units: Iterable[T]) -> Iterator[T]:
    """The units that this process does: each is taken by the first process that is free.

    Processes that have one model, which is split over them, do the same: they take turns with the
    others.

    Args:
        units: all units, which all processes list in the same order.
    """
    if is_alone():
        yield from units
        return
    if (size := together()) > 1:
        us = processes()
        for unit in islice(units, us.process_index // size, None, us.num_processes // size):
            yield unit
            check_everyone_lives()
        return
    numbers = _meeting().numbers()
    mine = next(numbers)
    for number, unit in enumerate(units):
        if number == mine:
            yield unit
            check_everyone_lives()
            mine = next(numbers)


def work_together(size: int) -> None:
    """From now on as many processes in a row do the same units, together: they have one model.

    Nothing else changes: each has its own state, and the main process writes.
    """
    global _together
    _together = size


def together() -> int:
    """Number of processes that have one model, which is split over them; 1 if each has its own."""
    return _together


_together = 1


def own_folder(folder: Path) -> Path:
    """A folder in a run's folder for what this process alone reads; the main process's is that."""
    return folder if is_main_process() else folder / f"p{processes().process_index}"


@contextmanager
def own_unit() -> Iterator[None]:
    """Inside, this process works alone, on a unit that it has taken: nothing in it is shared."""
    token = _IN_UNIT.set(True)
    try:
        yield
    finally:
        _IN_UNIT.reset(token)


_IN_UNIT = ContextVar("_IN_UNIT", default=False)
"""Whether this process works on a unit of its own."""

BEAT = 1.0
"""Seconds between two signs of life."""
SILENT = 30.0
"""Seconds without a sign of life after which a process counts as ended."""
NO_STORE = "the process that connects all of them can't be reached"


def ended(why: str) -> InputError:
    """The error that another process of this run ended."""
    return InputError(
        f"Another process of this run ended ({why}). Its own message says why. Start all of them "
        "again, with --resume if the command has that option."
    )


@final
class _Meeting:
    """What the processes of a run tell each other through a store, beside their collectives.

    Every process watches the next one, so that a few messages a second are enough for any number.

    Raises:
        InputError: if their versions, threads or processors differ, on which last digits depend.
    """

    def __init__(self) -> None:
        from accelerate.utils import broadcast_object_list, gather_object

        us = processes()
        _check_alike(gather_object([_circumstances()]))
        self.rank, self.size = us.process_index, us.num_processes
        self._name = str(broadcast_object_list([uuid4().hex])[0])
        self._store, self._lost, self._calls = self._connected(), "", 0
        Thread(target=self._beat, daemon=True).start()
        atexit.register(self.leave)

    def _connected(self) -> Any:
        """A connection to the store over which the launcher's processes have met."""
        distributed: Any = import_module("torch.distributed")
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = distributed.TCPStore(host, port, is_master=False)
        return distributed.PrefixStore(self._name, store)

    def _beat(self) -> None:
        """Tell that this process lives, and see whether the next one does, until one does not."""
        following, seen, since = (self.rank + 1) % self.size, -1, monotonic()
        try:
            store = self._connected()
            while not self._lost:
                store.add(f"beat {self.rank}", 1)
                if (count := store.add(f"beat {following}", 0)) != seen:
                    seen, since = count, monotonic()
                elif monotonic() - since > SILENT:
                    store.set("lost", f"no sign of life from process {following}")
                if store.check(["lost"]):
                    self._lost = store.get("lost").decode()
                sleep(BEAT)
        except RuntimeError:
            self._lost = NO_STORE

    def leave(self) -> None:
        """Tell the others, who may wait for this process, that it ends."""
        with suppress(RuntimeError):
            self._store.set("lost", f"process {self.rank} left")

    def _add(self, key: str, number: int) -> int:
        try:
            return self._store.add(key, number)
        except RuntimeError as error:
            raise ended(self._lost or NO_STORE) from error

    def check(self) -> None:
        """Raise an error if another process ended."""
        if self._lost:
            raise ended(self._lost)

    def wait(self) -> None:
        """Wait without a time limit, as long as all processes live, until all are here."""
        self._calls += 1
        here = f"here {self._calls}"
        count, pause = self._add(here, 1), 0.001
        while count < self.size:
            self.check()
            sleep(pause)
            count, pause = self._add(here, 0), min(0.1, 2 * pause)
        processes().wait_for_everyone()  # none leaves, with the store, before the last has asked

    def numbers(self) -> Iterator[int]:
        """Numbers from 0 in ascending order, each of which only one process gets."""
        self._calls += 1
        name = f"taken {self._calls}"
        while True:
            yield self._add(name, 1) - 1


@cache
def _meeting() -> _Meeting:
    return _Meeting()


def _circumstances() -> dict[str, str]:
    """What the last digits of numbers depend on beside model, data and options."""
    import torch

    packages = ("headcount", "torch", "transformers", "numpy")
    versions = {f"version of {name}": version(name) for name in packages}
    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    threads = str(torch.get_num_threads())
    return {**versions, "number of threads": threads, "kind of processor": processor}


def check_single_process() -> None:
    """Check that only one process runs; waits for no other one.

    Raises:
        InputError: under torchrun, where each process would repeat all of the work.
    """
    if not is_alone():
        names = sorted(each.name for each in capabilities() if each.shares_work)
        raise InputError(
            f"Expected one process, got {_started()}. Run it without torchrun, which works with "
            f"{', '.join(names)} (curve and prune with methods that train nothing) and gates in "
            "your own training (docs/gates.md)."
        )


def check_one_folder(folder: Path) -> None:
    """Check that all processes see one folder, which the main process has made.

    Raises:
        InputError: if this process sees another one, as on hosts without a shared disk.
    """
    if is_alone():
        return
    from accelerate.utils import broadcast_object_list

    us = processes()
    name = broadcast_object_list([f".seen-{uuid4().hex}"])[0]
    if us.is_main_process:
        (folder / name).touch()
    us.wait_for_everyone()
    is_seen = (folder / name).exists()
    us.wait_for_everyone()
    if us.is_main_process:
        (folder / name).unlink()
    if not is_seen:
        raise InputError(
            f"Expected one folder for all processes, but the main process's {folder} is another "
            f"folder than that of process {us.process_index}. Name a folder on a disk that all "
            "hosts share."
        )


def _started() -> int:
    """Number of processes that a launcher started; 1 without a launcher."""
    return max(int(os.environ.get(name) or 1) for name in SIZES)
