"""A corpus: files of any kind, images, or rows in memory, read again on every pass."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import final

from headcount.core import CorpusError, Origin
from headcount.corpora.conllu import is_treebank, read_conllu
from headcount.corpora.delimited import is_quoted
from headcount.corpora.formats import FORMATS, File, check_ending
from headcount.corpora.held import Held, Source, sources_of
from headcount.corpora.images import image_files, is_image, read_image
from headcount.corpora.layout import as_words
from headcount.corpora.lines import ending, is_joined, numbered_lines
from headcount.corpora.messages import media_of, without_media
from headcount.corpora.recordings import read_recordings, recorded
from headcount.corpora.records import check_fields, read_held, read_pair, read_rows, read_tsv
from headcount.corpora.sentence import Sentence
from headcount.corpora.table import Columns, Data, ReadAs, check_limit, keys_of
from headcount.corpora.word_links import Links, link_keys, link_sources, linked
from headcount.vocabulary import IMAGES, SOUND, TEXTS, Inputs, LinkWords, words_of_link

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
        paths: one file or several (`.txt`, `.tsv`, `.csv`, `.jsonl`, `.parquet`, `.conllu`), data
            sets of the hub (`hf://NAME?split=train`), or images and folders of images, whose labels
            take turns; or texts, sentences or rows in memory: a list of strings or of dicts with
            `text`, `words` or `messages`, and `target` and `second`, columns, an object of
            `datasets`, a data frame.
        source: one side of a parallel text, a `.txt` with one example per line or a `.conllu`.
        target: the other side, one example per line; needs `source`.
        limit: largest number of sentences or images.
        pairs: whether the second side is the second sentence of a pair, for models without a
            decoder that read both as one input.
        columns: names of the fields of rows, if they have others, `{"text": "review"}`, or their
            numbers from 0. With them a `.tsv` is a table; without, it is source<TAB>target. Cells
            of a `.csv` have no types, so only its text is found without a name.
        as_words: whether a treebank's words are read joined by spaces ("did n't bark ,"), as papers
            do, in place of its text as it is written.
        stream: whether data sets of the hub are read from there on every pass, and not copied.
        links: relations of your own between words, beside those of a field `links`: functions of a
            sentence that yield pairs of a query and its key or keys, a `Relation` or its name, or
            `misc.KEY` for numbers of words in column 10 of a treebank.

    Raises:
        CorpusError: for a file that is missing or of an unknown kind, and for a column that its
            first row lacks; while reading, for a bad row.

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
        stream: bool = False,
        links: Links | Sequence[Links] = (),
    ) -> None:
        check_limit(limit, "sentence")
        check_fields(columns)
        self._links, self._keys = link_sources(links), link_keys(links)
        self.limit, self.pairs, self.columns, self.as_words = limit, pairs, columns, as_words
        self._targets: Path | None = None
        self._how = ReadAs.of(paths).how
        self._is_part = False
        self._named = sources_of(paths, stream=stream)
        self._sources = [each for named in self._named for each in _each_of(named, columns)]
        self._paths = [each.path for each in self._sources if isinstance(each, File)]
        self._held = [each for each in self._sources if isinstance(each, Held)]
        self._pair = _pair_of_files(source, target)
        self._check_one_kind()
        if not (self._sources or self._pair is not None):
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

    @classmethod
    def of_recordings(
        cls, data: Data, columns: Columns | None = None, limit: int | None = None
    ) -> "Corpus":
        """Recordings with their transcripts, for models that read sound.

        Args:
            data: a folder, a table or a data set, as `read_recordings` reads it.
            columns: `{"audio": NAME, "text": NAME}`.
            limit: largest number of recordings.
        """
        given = [recorded(each) for each in read_recordings(data, columns)]
        corpus = cls.from_sentences(given, limit)
        name = Path(data).name if isinstance(data, str | Path) else ""
        corpus._held = [replace(each, name=name) for each in corpus._held]
        corpus._sources = [*corpus._held]
        return corpus

    def with_targets(self, path: Path) -> "Corpus":
        """The same sentences with the lines of a file as targets, replacing any they had."""
        corpus = copy(self)
        corpus._targets = path
        return corpus

    def within(self, limit: int) -> "Corpus":
        """The same corpus with another limit."""
        corpus = copy(self)
        corpus.limit = limit
        return corpus

    def of_others(self, sentences: Sequence[Sentence]) -> "Corpus":
        """A corpus in memory of the same name, with other sentences."""
        corpus = copy(self)
        corpus._held = [replace(self._held[0], data=tuple(sentences))]
        corpus._sources, corpus.limit = [*corpus._held], None
        return corpus

    @property
    def has_parts(self) -> bool:
        """Whether it is a stream of many files, or a part of one, hashed while it is counted."""
        alone = len(self._sources) == 1 and self._pair is None and self._targets is None
        return alone and (self._is_part or any(held.num_parts > 1 for held in self._held))

    @property
    def parts(self) -> "list[Corpus]":
        """What processes read apart: runs of the files of a stream; else all of it as one."""
        if self._is_part or not self.has_parts or self.limit is not None:
            return [self]
        found = list[Corpus]()
        for part in self._held[0].parts:
            found.append(copy(self))
            found[-1]._sources, found[-1]._held, found[-1]._is_part = [part], [part], True
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files and of data sets of the hub, source before target."""
        if self.inputs is IMAGES:
            return tuple(each.name for each in self._named if isinstance(each, File))
        return tuple(each.name for each in (*self._sources, *self._sides) if each.name)

    @property
    def signed(self) -> dict[str, str]:
        """How a treebank is read, for signatures; empty without one."""
        listed = chain.from_iterable(self._read(each) for each in self._held if each.is_list)
        has_words = any(each.words is not None for each in chain(listed, self._firsts))
        if has_words or any(map(is_treebank, self._files())):
            return {"treebank": "as-words" if self.as_words else "as-written"}
        return {}

    @property
    def link_words(self) -> dict[str, LinkWords]:
        """What links are called, by the name of what gives them."""
        of_keys = {
            key: replace(words_of_link(key), origin=f"column 10, {key}=") for key in self._keys
        }
        return of_keys | {each.name: each.words for each in self._links}

    @property
    def link_sources(self) -> tuple[tuple[object, Origin], ...]:
        """What finds links, and where its code is from."""
        return tuple((each, each.origin) for each in self._links)

    def without_links(self, source: object) -> "Corpus":
        """The corpus without the links that one of its sources gives."""
        found = copy(self)
        found._links = [each for each in self._links if each is not source]
        return found

    @property
    def inputs(self) -> Inputs:
        """The kind of input that the examples are."""
        if any(map(is_image, self._paths)):
            return IMAGES
        kinds = {each.inputs for each in self._firsts}
        return next((each for each in (IMAGES, SOUND) if each in kinds), TEXTS)

    @property
    def has_pictures(self) -> bool:
        """Whether the first texts come with pictures."""
        return any(each.pictures for each in self._firsts)

    @property
    def _sides(self) -> tuple[Path, ...]:
        """The two files of parallel text, or one."""
        return tuple(path for path in self._pair or () if path is not None)

    def _files(self) -> list[Path]:
        return [*self._paths, *self._sides]

    def _check_one_kind(self) -> None:
        """Check that images are alone, and that columns are named of nothing without columns."""
        others = [*self._held, *(path for path in self._paths if not is_image(path))]
        given = self._pair is not None or self.pairs or others
        if any(map(is_image, self._paths)) and given:
            got = str(others[0]) if others else "a source, a target or --pairs"
            raise CorpusError(
                f"Expected images only beside images, got {got}. Analyse texts in another run."
            )
        bare = [path for path in self._paths if is_image(path) or is_treebank(path)]
        if self.columns and (bare := [*bare, *self._sides]):
            raise CorpusError(
                f"Expected columns of a table, got {', '.join(self.columns)} for {bare[0]}. Leave "
                "the columns out."
            )

    def _check_first(self) -> None:
        """Read the first sentence of every source, so that a wrong one is refused at once."""
        self._firsts = list[Sentence]()
        if any(map(is_image, self._paths)):
            return
        for read, source in zip_longest(self._readers(), self._sources):
            for sentence in islice(read, 1):
                if self.pairs:
                    _as_pair(sentence)
                if isinstance(source, Held) or sentence.image or sentence.pictures:
                    self._firsts.append(sentence)

    def _readers(self) -> Iterator[Iterator[Sentence]]:
        """The sentences of each source, or of the two sides."""
        yield from map(self._read, self._sources)
        if self._pair is not None:
            source, target = self._pair
            alone = File(source, self._how)
            yield self._read(alone) if target is None else read_pair(source, target, self._keys)

    def _read(self, source: Source) -> Iterator[Sentence]:
        if isinstance(source, Held):
            return read_held(source, self.columns)
        if is_treebank(source.path):
            return read_conllu(source.path, links=self._keys)
        return _read_file(source, self.columns)

    def __iter__(self) -> Iterator[Sentence]:
        """Read the sentences from the beginning; an empty corpus is an error."""
        found = False
        read = chain.from_iterable(self._readers())
        sentences = islice(without_media(read, media_of, self._how, self.where), self.limit)
        for sentence in self._with_their_targets(sentences):
            found = True
            sentence = as_words(sentence) if self.as_words else sentence
            sentence = linked(sentence, self._links)
            yield _as_pair(sentence) if self.pairs else sentence
        if not (found or self._is_part):
            raise CorpusError(
                f"Expected sentences in {self.where}, got none. Give a corpus with at least one "
                "sentence."
            )

    def sha256(self) -> str:
        """Hash of all bytes of the files in order; independent of limit and file names.

        Of rows in memory and of the hub all sentences are hashed, or those up to the limit if only
        reading tells how many there are; of a stream of many files in any order, as they are read.
        """
        if self.has_parts:
            return hash_of_stream(sum(map(number_of, self)))
        digest = hashlib.sha256()
        are_sides = len(self._sides) == 2
        for path in self._files():
            is_text = not (are_sides and path in self._sides)
            _add_file(digest, File(path, self._how), is_text)
        if self._how.without_media:
            digest.update(b"without media")
        if self._paths and self.columns:
            digest.update(repr(sorted(keys_of(self.columns).items())).encode())
        for held in self._held:
            is_sized = hasattr(held.data, "__len__")
            for each in islice(self._read(held), None if is_sized else self.limit):
                digest.update(_hashed(each))
        return digest.hexdigest()

    def _with_their_targets(self, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
        if self._targets is None:
            yield from sentences
            return
        for sentence, line in zip_longest(sentences, numbered_lines(self._targets)):
            if sentence is None or line is None:
                raise CorpusError(
                    f"Expected one line in {self._targets} for each sentence of "
                    f"{self.where}, got "
                    f"{'more' if sentence is None else 'fewer'}. "
                    "Delete the file to have it recreated."
                )
            yield replace(sentence, target=line[1])

    @property
    def where(self) -> str:
        """What it is read from, for errors."""
        return ", ".join(filter(None, map(str, (*self._sources, *self._sides)))) or "the data"


def _add_file(digest: "hashlib._Hash", file: File, is_text: bool) -> None:
    """Add the bytes of a file to a hash, and what is read otherwise than as it is.

    Args:
        digest: the hash.
        file: the file.
        is_text: whether its lines are texts; otherwise they are one side of parallel text.
    """
    with file.path.open("rb") as opened:
        while block := opened.read(HASH_BLOCK):
            digest.update(block)
    if file.ending == ".tsv" and is_quoted(file.path, file.how.as_is):
        digest.update(b"unquoted")
    if is_text and file.ending == ".txt" and is_joined(file.path, file.how):
        digest.update(b"paragraphs")


def _hashed(sentence: Sentence) -> bytes:
    """What the hash of sentences takes of one."""
    parts = (sentence.text, sentence.words, sentence.tree, sentence.target, sentence.second)
    chat = () if sentence.messages is None else (sentence.messages,)
    shown = (*(each.digest for each in sentence.pictures), *sentence.places)
    return repr((*parts, *((sentence.spans,) if sentence.spans else ()), *chat, *shown)).encode()


def number_of(sentence: Sentence) -> int:
    """The hash of a sentence as a number, of which sums are taken."""
    return int.from_bytes(hashlib.sha256(_hashed(sentence)).digest(), "big")


def number_of_links(sentence: Sentence) -> int:
    """The hash of a sentence's links as a number, of which sums are taken."""
    among = [link.candidates for link in sentence.links]
    parts = (sentence.text, sentence.words, sentence.links, *([among] if any(among) else ()))
    said = repr(parts).encode()
    return int.from_bytes(hashlib.sha256(said).digest(), "big")


def hash_of_stream(total: int) -> str:
    """The hash of a stream, from the sum over its sentences."""
    return f"{total % 2**256:064x}"


def chunks(corpus: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    """Consecutive sentences, `size` at a time, fewer in the last chunk."""
    sentences = iter(corpus)
    while chunk := list(islice(sentences, size)):
        yield chunk


def _read_file(file: File, columns: Columns | None = None) -> Iterator[Sentence]:
    """The sentences of a file, or an image."""
    if is_image(file.path):
        return read_image(file.path)
    if file.ending == ".tsv" and not columns:
        return read_tsv(file)
    return read_rows(file, columns)


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


def _each_of(source: Source, columns: Columns | None) -> Sequence[Source]:
    """A file, the images in a folder, or what is held; the items of a list are read at once."""
    if isinstance(source, Held):
        read = tuple(read_held(source, columns)) if source.is_list else source.data
        return [replace(source, data=read)]
    assert isinstance(source, File)
    if source.path.is_dir():
        return [replace(source, path=path) for path in image_files(source.path)]
    _file(source.path, None if is_image(source.path) else (".txt", *FORMATS, ".conllu"))
    return [source]


def _file(path: str | Path, suffixes: Sequence[str] | None) -> Path:
    path = Path(path)
    if not path.exists():
        raise CorpusError(f"Expected a corpus at {path}, got nothing. Check the path.")
    if path.is_dir():
        raise CorpusError(f"Expected a file at {path}, got a folder. Name the files in it.")
    if suffixes is not None:
        check_ending(path)
    if suffixes is not None and ending(path) not in suffixes:
        raise CorpusError(
            f"Expected a file ending in {', '.join(suffixes)}, got {path}. The ending says how "
            f"a corpus is read, so rename or convert the file. Images end in "
            f"{', '.join(IMAGES.endings)}."
        )
    return path
