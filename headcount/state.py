"""State: the sums so far, in one file, so that a killed run goes on and counts nothing twice."""

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from headcount.errors import InputError
from headcount.files import write_atomically
from headcount.measures import Sums
from headcount.measuring import Totals


def save_state(path: Path, totals: Totals, run_key: str) -> None:
    """Write sums and counts, whole or not at all; nothing is pickled."""
    tensors = {
        f"{measure.__name__}/{site}/{layer}/{name}": tensor.contiguous()
        for (measure, (site, layer)), sums in totals.on_cpu().sums.items()
        for name, tensor in sums.state().items()
    }
    counts = {"batches": str(totals.num_batches), "sentences": str(totals.num_sentences)}
    metadata = {"run_key": run_key, **counts}
    write_atomically(path, lambda file: save_file(tensors, file, metadata=metadata))


def load_state(path: Path, run_key: str, measures: Sequence[type[Sums]]) -> Totals:
    """The sums of an interrupted run; empty ones where there is no file.

    Raises:
        InputError: if the file is damaged, or of a run with another model, corpus or options.
    """
    if not path.exists():
        return Totals()
    by_name = {measure.__name__: measure for measure in measures}
    fields: dict[tuple[str, str, str], dict] = {}
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            for key in file.keys():
                *place, name = key.split("/")
                fields.setdefault(tuple(place), {})[name] = file.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} should hold the sums of an interrupted run but can't be read ({error}); "
            "start again with --overwrite"
        ) from error
    if metadata.get("run_key") != run_key:
        raise InputError(
            f"--resume goes on with the same model, corpus and options; {path} is of the run\n  "
            f"{metadata.get('run_key')}\nand this one would be\n  {run_key}\n"
            "Give the same arguments, or start again with --overwrite"
        )
    sums = {
        (by_name[measure], (site, int(layer))): by_name[measure](**state)
        for (measure, site, layer), state in fields.items()
    }
    return Totals(sums, int(metadata["batches"]), int(metadata["sentences"]))
