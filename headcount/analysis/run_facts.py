"""Facts about a run that its tables do not hold: timings, versions and warnings."""

import platform
from importlib.metadata import version

from headcount import __version__
from headcount.analysis.streaming import Totals
from headcount.corpora import Census
from headcount.tap import Anatomy


def timings_of(timings: dict[str, float], read: Totals) -> dict[str, float]:
    """Seconds of every step, and the rates of measuring; none if a resumed run had read all.

    Args:
        timings: the seconds.
        read: the amounts that were read in them, without those that an interrupted run read.
    """
    amounts = {"sentences_per_s": read.num_sentences, "tokens_per_s": read.num_tokens}
    seconds = max(timings["measure_s"], 1e-3)
    return timings | {name: round(each / seconds, 1) for name, each in amounts.items() if each}


def versions(kernel: str = "blocks") -> dict[str, str]:
    """Versions of the packages that the numbers depend on, if a kernel computed attention."""
    compilers = {"sweep": ("numba",), "triton": ("triton",)}.get(kernel, ())
    names = ("torch", "transformers", "tokenizers", "numpy", *compilers)
    ours = {"python": platform.python_version(), "headcount": __version__}
    return ours | {name: version(name) for name in names}


def warnings_of(census: Census, max_length: int | None, anatomy: Anatomy) -> list[str]:
    """A sentence for everything that was truncated, lost or could not be measured."""
    reported = [*census.warnings(max_length), *census.arc_warnings()]
    blind = [layer.module for layer in anatomy.layers if layer.output is None]
    if blind:
        reported.append(
            f"no output projection was found for {', '.join(blind)}: norms are not measured there"
        )
    return reported
