"""A corpus: files of any kind, images, or rows in memory, read again on every pass."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import final

from headcount.core import CorpusError
from headcount.corpora.conllu import read_conllu
from headcount.corpora.held import IMAGE_SUFFIXES, Held, is_held
from headcount.corpora.images import image_files, is_image, read_image
from headcount.corpora.parallel import read_pair, read_tsv
from headcount.corpora.reading import named_files
from headcount.corpora.records import check_fields, read_held, read_jsonl
from headcount.corpora.sentence import Sentence
from headcount.corpora.table import Columns, Data, check_limit
from headcount.corpora.text import numbered_lines, read_text
from headcount.corpora.written import as_words

READERS: dict[str, Callable[[Path], Iterator[Sentence]]] = {
    ".txt": read_text,
    ".jsonl": read_jsonl,
    ".conllu": read_conllu,
    ".tsv": read_tsv,
}
SOURCE_SUFFIXES = (".txt", ".conllu")
HASH_BLOCK = 1 << 20


def check_is_corpus(corpus: object) -> None:
    """Check that something is a corpus.

    Raises:
        CorpusError: if it is not; says how to make one.
    """
    if not isinstance(corpus, Corpus):
        raise CorpusError(
            f"Expected a Corpus, got {corpus!r:.80}. "
            "Pass headcount.Corpus(FILE), or headcount.Corpus(TEXTS)."
        )


@final
class Corpus:
    """The sentences, or the images, of some files in order; every `for` rereads the files.

    Args:
        paths: one file or several (`.txt`, `.jsonl`, `.conllu`, `.tsv`), or images and folders of
            images, whose labels take turns; or texts, sentences or rows in memory: a list of
            strings or of dicts with `text`, `words` or `messages`, and `target` and `second`,
            columns, an object of `datasets`, a data frame.
        source: one side of a parallel text, a `.txt` with one example per line or a `.conllu`.
        target: the other side, one example per line; needs `source`.
        limit: largest number of sentences or images.
        pairs: whether the second side is the second sentence of a pair, for models without a
            decoder that read both as one input.
        columns: names of the fields of rows, if they have others: `{"text": "review"}`.
        as_words: whether a treebank's words are read joined by spaces ("did n't bark ,"), as papers
            do, in place of its text as it is written.

    Raises:
        CorpusError: for a file that is missing or of an unknown kind; while reading, for a bad row.

    >>> [sentence.text for sentence in Corpus(["Der Hund bellt.", "Она спит."])]
    ['Der Hund bellt.', 'Она спит.']
    """

    def __init__(
        self,
        paths: Data = (),
        source: str | Path | None = None,
        target: str | Path | None = None,
        limit: int | None = None,
        *,
        pairs: bool = False,
        columns: Columns | None = None,
        as_words: bool = False,
    ) -> None:
        check_limit(limit, "sentence")
        check_fields(columns)
        is_memory = is_held(paths)
        listed = [] if is_memory else named_files(paths)
        self.limit, self.pairs, self.columns, self.as_words = limit, pairs, columns, as_words
        self._targets: Path | None = None
        self._held: Callable[[], Iterable[Sentence]] = tuple
        """Reads the sentences in memory."""
        self._is_endless = is_memory and not hasattr(paths, "__len__")
        if is_memory:
            self._held = partial(read_held, Held(paths), columns)
        self._is_listed = is_memory and isinstance(paths, Sequence)
        if self._is_listed:  # bad items are refused at once
            self._held = partial(tuple, tuple(self._held()))
        self._named = tuple(map(Path, listed))
        self._paths = tuple(file for path in listed for file in _files_at(path))
        self._pair = _pair_of_files(source, target)
        self._check_one_kind()
        if not (is_memory or self._paths or self._pair is not None):
            raise CorpusError("Expected a corpus, got nothing. Give at least one file.")
        self._check_first()

    @classmethod
    def from_sentences(
        cls,
        sentences: Sequence[str | Sentence],
        limit: int | None = None,
        *,
        as_words: bool = False,
    ) -> "Corpus":
        """Hold strings or sentences in memory, even those that look like names of files."""
        held = [
            Sentence(item.strip(), origin=f"row {number}") if isinstance(item, str) else item
            for number, item in enumerate(sentences, start=1)
        ]
        if not held:
            raise CorpusError("Expected a corpus, got no sentence. Give at least one sentence.")
        return cls(held, limit=limit, as_words=as_words)

    def with_targets(self, path: Path) -> "Corpus":
        """The same sentences with the lines of a file as targets, replacing any they had."""
        corpus = copy(self)
        corpus._targets = path
        return corpus

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files, source before target."""
        if self.is_images:
            return tuple(path.resolve().name for path in self._named)
        return tuple(path.name for path in self._files())

    @property
    def signed(self) -> dict[str, str]:
        """How a treebank is read, for signatures; empty without one."""
        held = self._held() if self._is_listed else islice(self._held(), 1)
        has_words = any(each.words is not None for each in held)
        if has_words or ".conllu" in {path.suffix for path in self._files()}:
            return {"treebank": "as-words" if self.as_words else "as-written"}
        return {}

    @property
    def is_images(self) -> bool:
        """Whether the examples are images."""
        first = islice(self._held(), 1)
        return any(map(is_image, self._paths)) or any(each.image for each in first)

    def _check_one_kind(self) -> None:
        others = [path for path in self._paths if not is_image(path)]
        given = self._pair is not None or self.pairs or others
        if any(map(is_image, self._paths)) and given:
            got = str(others[0]) if others else "a source, a target or --pairs"
            raise CorpusError(
                f"Expected images only beside images, got {got}. Analyse texts in another run."
            )

    def _check_first(self) -> None:
        """Read the first sentence of every source, so that a wrong one is refused at once."""
        for read in (self._held, *self._readers()):
            for sentence in islice(read(), 1):
                if self.pairs:
                    _as_pair(sentence)

    def _readers(self) -> Iterator[Callable[[], Iterable[Sentence]]]:
        """Functions that read the sentences of each file of text, or of the two sides."""
        for path in self._paths:
            if path.suffix == ".jsonl":
                yield partial(read_jsonl, path, self.columns)
            elif not is_image(path):
                yield partial(READERS[path.suffix], path)
        if self._pair is not None:
            yield partial(_pair_sentences, *self._pair)

    def __iter__(self) -> Iterator[Sentence]:
        """Read the sentences from the beginning; an empty corpus is an error."""
        found = False
        for sentence in self._with_their_targets(islice(self._sentences(), self.limit)):
            found = True
            sentence = as_words(sentence) if self.as_words else sentence
            yield _as_pair(sentence) if self.pairs else sentence
        if not found:
            raise CorpusError(
                f"Expected sentences in {self._where}, got none. Give a corpus with at least one "
                "sentence."
            )

    def sha256(self) -> str:
        """Hash of all bytes of the corpus in order; independent of limit and file names.

        Of rows in memory all sentences are hashed, or those up to the limit if only reading tells
        how many there are.
        """
        digest = hashlib.sha256()
        for path in self._files():
            with path.open("rb") as file:
                while block := file.read(HASH_BLOCK):
                    digest.update(block)
        if self._paths and self.columns:
            digest.update(repr(sorted(self.columns.items())).encode())
        for sentence in islice(self._held(), self.limit if self._is_endless else None):
            parts = (sentence.text, sentence.words, sentence.tree, sentence.target, sentence.second)
            chat = () if sentence.messages is None else (sentence.messages,)
            parts = (*parts, sentence.spans) if sentence.spans else parts
            digest.update(repr(parts + chat).encode())
        return digest.hexdigest()

    def _sentences(self) -> Iterator[Sentence]:
        yield from self._held()
        for path in filter(is_image, self._paths):
            yield from read_image(path)
        for read in self._readers():
            yield from read()

    def _with_their_targets(self, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
        if self._targets is None:
            yield from sentences
            return
        for sentence, line in zip_longest(sentences, numbered_lines(self._targets)):
            if sentence is None or line is None:
                raise CorpusError(
                    f"Expected one line in {self._targets} for each sentence of "
                    f"{self._where}, got "
                    f"{'more' if sentence is None else 'fewer'}. "
                    "Delete the file to have it recreated."
                )
            yield replace(sentence, target=line[1])

    @property
    def _where(self) -> str:
        return ", ".join(map(str, self._files())) or "the data"

    def _files(self) -> tuple[Path, ...]:
        pair = self._pair or (None, None)
        return self._paths + tuple(path for path in pair if path is not None)


def chunks(corpus: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    """Consecutive sentences, `size` at a time, fewer in the last chunk."""
    sentences = iter(corpus)
    while chunk := list(islice(sentences, size)):
        yield chunk


def _pair_sentences(source: Path, target: Path | None) -> Iterator[Sentence]:
    return READERS[source.suffix](source) if target is None else read_pair(source, target)


def _as_pair(sentence: Sentence) -> Sentence:
    """The sentence and its target as one input."""
    if sentence.target is None or sentence.words is not None:
        raise CorpusError(
            f"{sentence.origin}: expected a pair of sentences, got "
            f"{'one sentence' if sentence.target is None else 'the words of a treebank'}. Give a "
            ".tsv of two columns, or two .txt files, or omit --pairs."
        )
    return replace(sentence, target=None, second=sentence.target)


def _pair_of_files(
    source: str | Path | None, target: str | Path | None
) -> tuple[Path, Path | None] | None:
    if source is None:
        if target is not None:
            raise CorpusError(f"Expected a source beside the target {target}, got none. Give one.")
        return None
    source = _file(source, SOURCE_SUFFIXES)
    return source, None if target is None else _file(target, None)


def _files_at(path: str | Path) -> list[Path]:
    """A file, or the images in a folder."""
    path = Path(path)
    if path.is_dir():
        return image_files(path)
    return [_file(path, None if is_image(path) else tuple(READERS))]


def _file(path: str | Path, suffixes: Sequence[str] | None) -> Path:
    path = Path(path)
    if not path.exists():
        raise CorpusError(f"Expected a corpus at {path}, got nothing. Check the path.")
    if path.is_dir():
        raise CorpusError(f"Expected a file at {path}, got a folder. Name the files in it.")
    if suffixes is not None and path.suffix not in suffixes:
        raise CorpusError(
            f"Expected a file ending in {', '.join(suffixes)}, got {path}. The ending says how "
            f"a corpus is read, so rename or convert the file. Images end in "
            f"{', '.join(IMAGE_SUFFIXES)}."
        )
    return path
