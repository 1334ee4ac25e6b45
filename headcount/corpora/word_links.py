"""Links of one's own between words: where they come from, and how spans and plain texts get words.

A relation of one's own is a function of a sentence, or a `Relation` with words of its own:

    class Negation(headcount.Relation):
        name, query, key = "negation", "verb", "negation"

        def links(self, sentence):
            tree = sentence.tree
            for word, verb in enumerate(tree.heads):
                if sentence.words[word].lower() in ("not", "n't", "never") and verb >= 0:
                    yield verb, word

    headcount.Corpus("train.conllu", links=Negation)

A third part of what is found, a sequence of words, narrows the words that are compared.

A text without words is split into words, signs and endings such as 's. A span of words counts by
its head word: that of the tree, or without one the last word before its first preposition, relative
pronoun or comma.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc, isclass
from itertools import chain
from typing import Any, ClassVar, final

from headcount.core import (
    REPAIR,
    CorpusError,
    InputError,
    Origin,
    Registry,
    amount,
    guarded,
    origin_of_module,
)
from headcount.corpora.layout import Layout
from headcount.corpora.mentions import head_by_parse, head_without_parse
from headcount.corpora.sentence import Link, Sentence
from headcount.vocabulary import LinkWords, words_of_link

Word = int | range
"""A word by its 0-based index, or a span of words, which counts by its head word."""
Words = Word | Sequence[Word]
Found = Link | tuple[Word, Words] | tuple[Word, Words, Words]
"""A link, or a query with its key or keys, any of which is right, and the words among which a key
is chosen, if not all words are."""


class Relation(ABC):
    """A relation of one's own between words of a sentence."""

    registry: ClassVar[str] = "headcount.corpora.word_links:RELATIONS"
    name: ClassVar[str]
    """Name of its links."""
    query: ClassVar[str] = "word"
    """Noun of the word that looks, e.g. "verb"."""
    key: ClassVar[str] = ""
    """Noun of the words that are right, e.g. "negation"; the name if it is empty."""
    candidate: ClassVar[str] = ""
    """Noun of the words among which a key is chosen, e.g. "noun", if links name them."""
    source: ClassVar[str] = ""
    """Paper that describes the relation."""
    needs_tree: ClassVar[bool] = False
    """Whether links are read off a tree, so that a text without one is refused."""

    @abstractmethod
    def links(self, sentence: Sentence) -> Iterable[Found]:
        """The links of a sentence, which has words, and a tree if the corpus is a treebank."""


RELATIONS: Registry[type[Relation]] = Registry("relations", "a relation", {})
"""Relations by name; headcount brings none."""

Links = str | type[Relation] | Relation | Callable[[Sentence], Iterable[Found]]
"""What gives links: a relation or its name, `misc.KEY` of a treebank, or a function."""

MISC = "misc."
"""Start of what names a key in column 10 of a treebank."""


@final
@dataclass(frozen=True)
class LinkSource:
    """Something that finds links in sentences, and what they are called."""

    name: str
    find: Callable[[Sentence], Iterable[Found]]
    words: LinkWords
    origin: Origin
    needs_tree: bool = False

    def links(self, sentence: Sentence) -> Iterator[Link]:
        """The links of a sentence that has words.

        Raises:
            PluginError: if the code of a plug-in fails, or finds something else than links.
        """
        self._check_tree(sentence)
        with guarded(self.origin, f"link words of {sentence.origin} as {self.name}", self):
            for found in self.find(sentence) or ():
                yield self._link(found, sentence)

    def _check_tree(self, sentence: Sentence) -> None:
        """Check that a sentence has a tree, if links need one."""
        if self.needs_tree and sentence.tree is None:
            raise CorpusError(
                f"{sentence.origin}: expected a treebank (.conllu) for links of {self.name}, which "
                "are read off trees, got a text without one. Leave the links out."
            )

    def _link(self, found: Any, sentence: Sentence) -> Link:
        if isinstance(found, Link):
            link = found
        else:
            is_link = isinstance(found, tuple) and len(found) in (2, 3)
            parts: Any = [_several(each) for each in found] if is_link else [[None]]
            if not all(isinstance(each, int | range) for each in chain(*parts)):
                raise InputError(
                    f"Expected a link of {self.name} to be words' numbers, (query, key) or (query, "
                    f"keys) or (query, keys, candidates), got {found!r:.80}. {REPAIR}"
                )
            link = _link_of(self.name, parts, sentence)
        check_link(link, sentence)
        return link


def _several(words: Any) -> list[Any]:
    return [*words] if isinstance(words, list | tuple | set) else [words]


def _link_of(name: str, parts: Sequence[Sequence[Word]], sentence: Sentence) -> Link:
    """A link of a query, keys and candidates; those that are not words are left to `check_link`."""
    [query], keys, *among = ([head_word(word, sentence) for word in part] for part in parts)
    return Link(name, query, (*keys,), *((*each,) for each in among))


def link_sources(given: Links | Sequence[Links]) -> list[LinkSource]:
    """What gives links, by name or itself; keys of a treebank are not among them.

    Raises:
        InputError: for a name that no relation has, or for something else.
    """
    alone = isinstance(given, str | type | Relation) or callable(given)
    several: Sequence[Any] = [given] if alone else given  # type: ignore[assignment]
    return [_source(each) for each in several if not _is_key(each)]


def link_keys(given: Links | Sequence[Links]) -> tuple[str, ...]:
    """The keys in column 10 of a treebank that name links."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Sequence):
        return ()
    return tuple(str(each).removeprefix(MISC) for each in several if _is_key(each))


def _is_key(given: object) -> bool:
    return isinstance(given, str) and given.startswith(MISC)


def _source(given: Links) -> LinkSource:
    relation = RELATIONS[given] if isinstance(given, str) else given
    if isclass(relation) and issubclass(relation, Relation):
        relation = RELATIONS.find(relation)()  # type: ignore[arg-type]
    if isinstance(relation, Relation):
        kind = type(relation)
        name = relation.name
        origin = RELATIONS.origin_of(kind)
        about = cleandoc(kind.__doc__ or "").partition("\n")[0]
        key = relation.key or words_of_link(name).key
        names = relation.query, key, about, relation.source, str(origin), relation.candidate
        words = LinkWords(*names)
        return LinkSource(name, relation.links, words, origin, relation.needs_tree)
    if not callable(relation):
        raise InputError(
            f"Expected a function of a sentence, or a relation, to find links, got {given!r}. Give "
            "a function that yields pairs of a query and a key."
        )
    name = getattr(relation, "__name__", type(relation).__name__)
    origin = origin_of_module(getattr(relation, "__module__", "") or "")
    about = cleandoc(relation.__doc__ or "").partition("\n")[0]
    words = replace(words_of_link(name), about=about, origin=str(origin))
    return LinkSource(name, relation, words, origin)


def linked(sentence: Sentence, sources: Sequence[LinkSource]) -> Sentence:
    """The sentence with further links; one without words is split into some.

    Raises:
        CorpusError: for a pair, a chat or an image, which have no words.
    """
    if not sources:
        return sentence
    sentence = in_words(sentence)
    found = (link for source in sources for link in source.links(sentence))
    return replace(sentence, links=(*dict.fromkeys((*sentence.links, *found)),))


def in_words(sentence: Sentence) -> Sentence:
    """The sentence with words; a text is split into some.

    Raises:
        CorpusError: for a pair, a chat or an image.
    """
    if sentence.words is not None:
        return sentence
    if sentence.second is not None or sentence.messages is not None or sentence.image is not None:
        raise CorpusError(
            f"{sentence.origin}: expected a text to link words of, got a pair, a chat or an image. "
            "Leave the links out."
        )
    layout = Layout.split(sentence.text)
    return replace(sentence, words=layout.words, spans=layout.spans)


def head_word(word: Word, sentence: Sentence) -> int:
    """A word, or the head word of a span."""
    if isinstance(word, int):
        return word
    words = sentence.words or ()
    if not word or word.start < 0 or word.stop > len(words) or word.step != 1:
        raise InputError(f"Expected a span inside the {amount(len(words), 'word')}, got {word!r}")
    if sentence.tree is not None:
        return head_by_parse(sentence.tree, word.start, word.stop - 1)
    return word.start + head_without_parse(words[word.start : word.stop])


def check_link(link: Link, sentence: Sentence) -> None:
    """Check that the words of a link are words of its sentence.

    Raises:
        InputError: if one is not.
    """
    count = len(sentence.words or ())
    for word in (*link.words, *link.candidates):
        if not isinstance(word, int) or not 0 <= word < count:
            raise InputError(
                f"{sentence.origin}: expected a link {link.name} between words 0 to {count - 1}, "
                f"got {word!r}. Words are counted from 0."
            )


def are_links(cell: object) -> bool:
    """Whether a field of a row that nobody named looks like links."""
    items = cell if isinstance(cell, list | tuple) else ()
    return bool(items) and all(
        isinstance(each, Mapping) and {"name", "query", "keys"} <= {*each} for each in items
    )


def links_of_rows(cell: object, sentence: Sentence) -> Sentence:
    """A sentence with the links of a row's field: dicts with `name`, `query` and `keys`.

    A query, each key and each of `candidates`, which may be left out, is a word's number from 0, or
    a span [FIRST, LAST].

    Raises:
        CorpusError: if the field holds something else.
    """
    sentence, found = in_words(sentence), list[Link]()
    for each in cell if isinstance(cell, list | tuple) else [cell]:
        try:
            assert isinstance(each, Mapping)
            parts = [[each["query"]], _several(each["keys"]), _several(each.get("candidates", []))]
            link = _link_of(str(each["name"]), [[*map(_word, part)] for part in parts], sentence)
            check_link(link, sentence)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            why = f" ({error})" if isinstance(error, InputError) else ""
            raise CorpusError(
                f"{sentence.origin}: expected links such as "
                '{"name": "negation", "query": 3, "keys": [5]} with words counted from 0, or '
                f"[FIRST, LAST] for several in place of one, got {each!r:.80}{why}. Fix the line."
            ) from error
        found.append(link)
    return replace(sentence, links=(*found,))


def _word(cell: Any) -> Word:
    """A word or a span of a row."""
    if isinstance(cell, list | tuple):
        first, last = cell
        return range(int(first), int(last) + 1)
    if isinstance(cell, bool) or int(cell) != cell:
        raise ValueError(f"{cell!r} is no word")
    return int(cell)
