"""State: the sums so far, in one file, so that a killed run resumes and counts nothing twice."""

from collections.abc import Sequence
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from headcount.files import write_atomically
from headcount.keyed import reading, refuse_other_key
from headcount.measures import Sums
from headcount.measuring import Totals


def save_state(path: Path, totals: Totals, run_key: str) -> None:
    """Write sums and counts, completely or not at all; nothing is pickled."""
    tensors = {
        f"{measure.__name__}/{site}/{layer}/{name}": tensor.contiguous()
        for (measure, (site, layer)), sums in totals.on_cpu().sums.items()
        for name, tensor in sums.state().items()
    }
    counts = {"batches": str(totals.num_batches), "sentences": str(totals.num_sentences)}
    metadata = {"run_key": run_key, **counts}
    write_atomically(path, lambda file: save_file(tensors, file, metadata=metadata))


def load_state(path: Path, run_key: str, measures: Sequence[type[Sums]]) -> Totals:
    """The sums of an interrupted run; empty sums if there is no file.

    Raises:
        InputError: if the file is damaged, or from a run with another model, corpus or options.
    """
    if not path.exists():
        return Totals()
    by_name = {measure.__name__: measure for measure in measures}
    fields: dict[tuple[str, str, str], dict] = {}
    with (
        reading(path, "the sums of an interrupted run"),
        safe_open(path, framework="pt") as file,
    ):
        metadata = file.metadata() or {}
        for key in file.keys():
            *place, name = key.split("/")
            fields.setdefault(tuple(place), {})[name] = file.get_tensor(key)
        refuse_other_key(path, metadata.get("run_key"), run_key)
        sums = {
            (by_name[measure], (site, int(layer))): by_name[measure](**state)
            for (measure, site, layer), state in fields.items()
        }
        return Totals(sums, int(metadata["batches"]), int(metadata["sentences"]))
