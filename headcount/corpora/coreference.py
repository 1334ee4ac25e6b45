"""Documents with coreference: CoNLL-U with entities in MISC, CoNLL-2012, and GAP.

- `.conllu`: `Entity=` in column 10, as GUM and CorefUD write it: `(e1-person-...` opens a mention,
  `e1)` closes it, `(e1-person)` is a mention of one word. `# newdoc` begins a document. Mentions of
  empty nodes alone are left out.
- `.conll`, or a name that ends in `_conll`: `#begin document`, columns separated by white space,
  the word in the fourth and entities in the last: `(3`, `3)`, `(3)`, joined by `|`. OntoNotes' tags
  of parts of speech in the fifth column give the kinds of mentions, where there are any.
- `.tsv` with GAP's header: a document per line, with a pronoun and two names.

References: https://universaldependencies.org/misc.html#Entity; Pradhan et al. (2012),
https://aclanthology.org/W12-4501; Webster et al. (2018), https://arxiv.org/abs/1810.05201

GAP: a pronoun and two names in a passage of Wikipedia, and which of them it means.

Reference: Mind the GAP (Webster et al., 2018), https://arxiv.org/abs/1810.05201
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headcount.core import CorpusError, amount
from headcount.corpora.conllu import columns_of_line, read_conllu
from headcount.corpora.layout import Layout, as_words
from headcount.corpora.lines import ending, numbered_lines
from headcount.corpora.mentions import (
    ONTONOTES,
    PRONOUNS,
    Mention,
    head_by_parse,
    head_without_parse,
    kind_by_tag,
    kind_without_parse,
)
from headcount.corpora.sentence import Sentence, Span

COLUMNS = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()


def _span(row: dict[str, str], column: str, spans: Sequence[Span], origin: str) -> tuple[int, int]:
    """First and last word of a pronoun or name."""
    text, offset = row[column], row[f"{column}-offset"]
    if not offset.isdecimal() or not row["Text"].startswith(text, int(offset)):
        raise CorpusError(
            f"{origin}: expected {text!r} at offset {offset} of the text, got something else. Fix "
            "the line."
        )
    first, last = int(offset), int(offset) + len(text)
    its = [place for place, (start, end) in enumerate(spans) if start < last and end > first]
    return its[0], its[-1]


@final
@dataclass(frozen=True)
class NameQuestion:
    """Which of two names a pronoun means, as GAP asks."""

    pronoun: int
    """Number of the pronoun among the mentions of its document."""
    names: tuple[int, int]
    """Numbers of both names."""
    is_right: tuple[bool, bool]
    """Whether the pronoun means each of them; it may mean neither."""


@final
@dataclass(frozen=True)
class Document:
    """A text with its mentions of entities."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    """The words of every sentence."""
    mentions: tuple[Mention, ...]
    """In the order of their first words, longer ones first."""
    origin: str
    """File and line where it begins."""
    question: NameQuestion | None = None
    """Which of two names a pronoun means; None if the document does not ask."""
    written: tuple[Sentence, ...] | None = None
    """Every sentence as it is written, and where its words are; None if that is not known."""

    def read(self, with_words_joined: bool = False) -> tuple[Sentence, ...]:
        """The sentences as they are written, or, by choice or if need be, their words joined."""
        if self.written is not None:
            return tuple(map(as_words, self.written)) if with_words_joined else self.written
        return tuple(
            Sentence(" ".join(words), words, origin=self.origin) for words in self.sentences
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)


def read_documents(paths: Sequence[str | Path]) -> list[Document]:
    """The documents of some files.

    Raises:
        CorpusError: for a file that is missing or of an unknown kind, a broken line, and files
            without any entity.
    """
    found = list[Document]()
    for path in map(Path, paths):
        documents = list(_reader(path)(path))
        if not any(document.mentions for document in documents):
            raise CorpusError(
                f"Expected mentions of entities in {path}, got none: Entity= in column 10 of "
                "CoNLL-U, or (3) in the last column of CoNLL-2012. Give a corpus annotated with "
                "coreference."
            )
        found += documents
    return found


def _reader(path: Path) -> "Callable[[Path], Iterator[Document]]":
    if not path.is_file():
        raise CorpusError(f"Expected a file with documents, got {path}. Check the path.")
    if ending(path) == ".conllu":
        return _read_conllu
    if ending(path) == ".conll" or path.name.endswith("_conll"):
        return _read_conll2012
    if ending(path) == ".tsv":
        return _read_gap
    raise CorpusError(
        f"Expected a file ending in .conllu, .conll, _conll or .tsv (GAP), got {path}. The ending "
        "says how documents are read, so rename or convert the file."
    )


@final
@dataclass
class _Brackets:
    """Mentions that are open at some point of a document, and those that are closed."""

    spans: list[tuple[int, int, str]] = field(default_factory=list)
    open: list[tuple[str, int, str]] = field(default_factory=list)
    """Name of the entity, its first word, and where it was opened."""
    parts: dict[str, int] = field(default_factory=dict)
    """First word of the discontinuous mentions of which parts are closed, by entity."""

    def start(self, entity: str, word: int, origin: str) -> None:
        self.open.append((entity, word, origin))

    def close(self, entity: str, word: int, origin: str) -> None:
        for place in reversed(range(len(self.open))):
            if self.open[place][0] == entity:
                _, first, _ = self.open.pop(place)
                self._add(entity, first, word)
                return
        raise CorpusError(
            f"{origin}: the mention of entity {entity} ends here but never began. Fix the line."
        )

    def _add(self, entity: str, first: int, last: int) -> None:
        if last < first:  # of empty nodes alone
            return
        name, _, part = entity.partition("[")
        number, _, count = part.rstrip("]").partition("/")
        if not part:
            self.spans.append((first, last, name))
        elif number == "1":
            self.parts[name] = first
        elif number == count:
            self.spans.append((self.parts.pop(name, first), last, name))

    def finish(self) -> list[tuple[int, int, str]]:
        """The mentions of a document: first and last word, and entity."""
        for entity, _, origin in self.open:
            raise CorpusError(
                f"{origin}: the mention of entity {entity} begins here but never ends. Fix it."
            )
        return sorted(set(self.spans), key=lambda span: (span[0], -span[1], span[2]))


def _read_conllu(path: Path) -> Iterator[Document]:
    """Documents of a treebank; entities are read in a pass of their own."""
    trees = iter(list(read_conllu(path, strict=True)))
    found, words = _Brackets(), 0
    sentences = list[Sentence]()
    name, origin, inside = path.name, f"{path}:1", False

    def document() -> Document:
        return _parsed(name, sentences, found.finish(), origin)

    for number, line in numbered_lines(path):
        if line.startswith("# newdoc"):
            if sentences:
                yield document()
            found, words, sentences = _Brackets(), 0, []
            name, origin = line.partition("=")[2].strip() or path.name, f"{path}:{number}"
        if not line.strip() or line.startswith("#"):
            inside = False
            continue
        if not inside:
            inside = True
            sentences.append(next(trees))
        columns = line.split("\t")
        if "-" in columns[0]:
            continue
        is_word = columns[0].isdecimal()
        entities = [part for part in columns[9].split("|") if part.startswith("Entity=")]
        for text in entities:
            _read_entities(text.partition("=")[2], found, words, is_word, f"{path}:{number}")
        words += is_word
    if sentences:
        yield document()


def _read_entities(text: str, found: _Brackets, word: int, is_word: bool, origin: str) -> None:
    """Open and close mentions at a word, or at an empty node before word `word`."""
    last = word if is_word else word - 1
    rest = text
    while rest:
        if rest[0] == "(":
            size = min(
                (place for mark in "()" if (place := rest.find(mark, 1)) > 0), default=len(rest)
            )
            entity = rest[1:size].partition("-")[0]
            found.start(entity, word, origin)
            if rest[size : size + 1] == ")":
                found.close(entity, last, origin)
                size += 1
        else:
            size = rest.find(")") + 1
            if size == 0:
                raise CorpusError(
                    f"{origin}: expected (ENTITY-... or ENTITY) in Entity=, got {rest!r}. Fix it."
                )
            found.close(rest[: size - 1].partition("-")[0], last, origin)
        rest = rest[size:]


def _parsed(
    name: str,
    written: Sequence[Sentence],
    spans: Sequence[tuple[int, int, str]],
    origin: str,
) -> Document:
    """The document whose mentions have heads and kinds by its trees."""
    sentences = [each.words or () for each in written]
    parses = [each.tree for each in written if each.tree is not None]
    place_of = [
        (number, word) for number, each in enumerate(sentences) for word in range(len(each))
    ]
    mentions = []
    for start, end, entity in spans:
        number, first = place_of[start]
        last = min(first + end - start, len(sentences[number]) - 1)
        head = head_by_parse(parses[number], first, last)
        kind = kind_by_tag(parses[number].tags[head], sentences[number][head])
        mentions.append(Mention(start, end, start + head - first, entity, kind))
    return Document(name, tuple(sentences), tuple(mentions), origin, written=tuple(written))


def _unparsed(
    name: str,
    sentences: Sequence[tuple[str, ...]],
    tags: Sequence[str],
    spans: Sequence[tuple[int, int, str]],
    origin: str,
) -> Document:
    """The document whose mentions have heads by rules, and kinds by tags or by rules."""
    words = [word for sentence in sentences for word in sentence]
    begins, count = set[int](), 0
    for sentence in sentences:
        begins.add(count)
        count += len(sentence)
    lower = {word for word in words if word[:1].islower()}
    mentions = []
    for start, end, entity in spans:
        its = words[start : end + 1]
        head = start + head_without_parse(its)
        kind = kind_without_parse(its, words[head], head in begins, lower)
        if tags[head] not in ("-", "_", "*"):
            kind = kind_by_tag(ONTONOTES.get(tags[head], "NOUN"), words[head])
        mentions.append(Mention(start, end, head, entity, kind))
    return Document(name, tuple(sentences), tuple(mentions), origin)


def _read_conll2012(path: Path) -> Iterator[Document]:
    found, name, origin = _Brackets(), path.name, f"{path}:1"
    sentences, sentence, tags = list[tuple[str, ...]](), list[str](), list[str]()

    def document() -> Document:
        if sentence:
            sentences.append(tuple(sentence))
        return _unparsed(name, sentences, tags, found.finish(), origin)

    for number, line in numbered_lines(path):
        if line.startswith("#begin"):
            found, sentences, sentence, tags = _Brackets(), [], [], []
            name = line.removeprefix("#begin document").strip()
            origin = f"{path}:{number}"
        elif line.startswith("#end"):
            yield document()
            sentences, sentence = [], []
        elif not line.strip():
            if sentence:
                sentences.append(tuple(sentence))
                sentence = []
        else:
            columns = line.split()
            if len(columns) < 6:
                raise CorpusError(
                    f"{path}:{number}: expected the columns of CoNLL-2012, with the word in the "
                    f"fourth and entities in the last, got {amount(len(columns), 'column')}. Fix "
                    "the line."
                )
            has_entities = len(line.rstrip().split("\t")) == len(line.split("\t"))
            if has_entities:
                _read_conll_entities(columns[-1], found, len(tags), f"{path}:{number}")
            sentence.append(columns[3])
            tags.append(columns[4])
    if sentences or sentence:
        yield document()


def _read_conll_entities(text: str, found: _Brackets, word: int, origin: str) -> None:
    if text in ("-", "_"):
        return
    for part in text.split("|"):
        entity = part.strip("()")
        if not entity or not (part.startswith("(") or part.endswith(")")):
            raise CorpusError(
                f"{origin}: expected entities such as (3, 3) or (3) in the last column, got "
                f"{text!r}. Fix the line."
            )
        if part.startswith("("):
            found.start(entity, word, origin)
        if part.endswith(")"):
            found.close(entity, word, origin)


def _read_gap(path: Path) -> Iterator[Document]:
    """Passages of GAP: the head of a name, which is proper, is its last word.

    Raises:
        CorpusError: for another header, a line with other columns, or text that is not at its
            offset.
    """
    lines = numbered_lines(path)
    header = next(lines, (1, ""))[1].split("\t")
    if header != COLUMNS:
        raise CorpusError(
            f"{path}:1: expected GAP's header, {' '.join(COLUMNS)}, got "
            f"{' '.join(header)[:60]!r}. Give GAP's .tsv, a .conllu or a .conll."
        )
    for number, line in lines:
        cells = columns_of_line(path, number, line, len(COLUMNS))
        yield _passage(dict(zip(COLUMNS, cells, strict=True)), f"{path}:{number}")


def _passage(row: dict[str, str], origin: str) -> Document:
    layout = Layout.split(row["Text"])
    words = layout.words
    means_a, means_b = (row[f"{name}-coref"].upper() == "TRUE" for name in "AB")
    entities = {"Pronoun": "it", "A": "it" if means_a else "A", "B": "it" if means_b else "B"}
    spans = [(*_span(row, name, layout.spans, origin), entity) for name, entity in entities.items()]
    order = sorted(range(3), key=spans.__getitem__)
    mentions = tuple(
        Mention(start, end, end, entity, "pronoun" if words[end].lower() in PRONOUNS else "proper")
        for start, end, entity in (spans[place] for place in order)
    )
    pronoun, first, second = (order.index(place) for place in range(3))
    question = NameQuestion(pronoun, (first, second), (means_a, means_b))
    written = (Sentence(layout.text, words, origin=origin, spans=layout.spans),)
    return Document(row["ID"], (words,), mentions, origin, question, written)
