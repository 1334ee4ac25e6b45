"""Record: what run.json says about a run besides its numbers."""

import platform
from importlib.metadata import version

from headcount.corpora import Census
from headcount.models.anatomy import Anatomy


def counts_of(census: Census) -> dict[str, int]:
    """The amounts that were measured and left out."""
    return {
        "sentences": census.num_sentences,
        "tokens": census.num_tokens,
        "target_tokens": census.num_target_tokens,
        "words": census.num_words,
        "truncated": census.num_truncated,
        "words_cut": census.num_words_cut,
        "words_lost": census.num_words_lost,
        "longest": census.longest,
    }


def timings_of(timings: dict[str, float], num_sentences: int) -> dict[str, float]:
    """Seconds of every step, and the rate of the main one."""
    return timings | {"sentences_per_s": round(num_sentences / max(timings["measure_s"], 1e-3), 1)}


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on."""
    names = ("headcount", "torch", "transformers", "tokenizers", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def warnings_of(census: Census, max_length: int | None, anatomy: Anatomy) -> list[str]:
    """A sentence for everything that was truncated, lost or could not be measured."""
    told = []
    if census.num_truncated:
        told.append(
            f"{census.num_truncated:,} of {census.num_sentences:,} sentences were longer than the "
            f"model's limit of {max_length} tokens and were truncated"
        )
    if census.num_words_cut or census.num_words_lost:
        told.append(
            f"{census.num_words_cut:,} words were cut off by truncation and "
            f"{census.num_words_lost:,} have no piece in the model's vocabulary; their "
            "dependency arcs are not counted"
        )
    blind = [layer.module for layer in anatomy.layers if layer.output is None]
    if blind:
        told.append(
            f"no output projection was found for {', '.join(blind)}: norms are not measured there"
        )
    return told
