"""What must hold for every trait: a class of keys, and a planted head that looks at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from inspect import cleandoc
from itertools import chain, product
from operator import add
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from headcount.analysis import analyze, totals
from headcount.core import Head, LayerId, amount
from headcount.corpora import Batches, Corpus, Data, Layout, Sentence, take_census
from headcount.measures import TRAIT_CLASSES, Sides, Sums, Trait, entries_of, measure_of_traits
from headcount.models import Loaded, encoder_of
from headcount.numbers import percent
from headcount.results import Analysis
from headcount.testing.alone import Pairs
from headcount.testing.checks import LeftOut, check, expect, expect_readable, expect_words, shown
from headcount.testing.examples import random_model, read
from headcount.testing.frames import Frames, drawn_recordings
from headcount.testing.laws import assert_adds, leaving_no_trace
from headcount.testing.patches import Patches, drawn_images
from headcount.testing.planted import PAD, of_words, planted_model, tokenizer
from headcount.testing.programs import Family, Kind, Planted, Program
from headcount.testing.tokens import PUNCTUATION, SHARE, vocabulary, written
from headcount.vocabulary import IMAGES, SOUND, Thresholds, TraitEntry

NUMBER, LENGTH = 100, 12
"""Number of examples, half of which test, and of the words of the longest texts."""
FEW = 6
"""Number of examples of the laws."""
TRUE = Head("encoder.self", 1, 2)
"""The planted head."""
OF_OURS: Mapping[str, Kind] = {
    "first": "first",
    "separator": "separator",
    "punctuation": "punctuation",
    "segment": "segment",
    "class": "first",
    "row": "row",
    "column": "column",
    "frames_near": "near",
}
"""What the planted head looks at for each of our own."""
Which = Literal["planted", "random"]


@dataclass(frozen=True)
class TraitSubject:
    """A trait to check, and what it is checked with."""

    trait: type[Trait]
    words: tuple[str, ...]
    """The words that texts are made of; empty for those of planted models."""
    looks: Kind | None
    """What the planted head looks at; None if the class is one of words."""

    @cached_property
    def entry(self) -> TraitEntry:
        """What the trait is called."""
        return entries_of([self.trait(self.tokenizer)])[self.trait.name]

    @cached_property
    def alone(self) -> type[Trait]:
        """The class as a plug-in's: ours are measured under their own names in one pass."""
        if self.trait.name not in TRAIT_CLASSES.own or SOUND in self.trait.takes:
            return self.trait
        words = {"name": f"{self.trait.name}_alone", "letter": "@", "target": "its keys"}
        return type("Alone", (self.trait,), {**words, "__module__": "alone"})

    @cached_property
    def family(self) -> Family:
        """The architecture that reads what has such keys."""
        if IMAGES in self.trait.takes:
            return "patches"
        if SOUND in self.trait.takes:
            return "frames"
        return "encoder" if self.looks in (None, *Program.kinds) else "pairs"

    @cached_property
    def has(self) -> Mapping[str, bool]:
        """Whether each word is in the class; empty if keys are in it for another reason."""
        is_of_words, made = self.trait.keys is Trait.keys, self.trait()
        return {word: made.has(word) for word in self.words} if is_of_words else {}

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of whole words; those of the class are the planted models' punctuation."""
        if not self.words:
            return tokenizer(self.family)
        is_mark_V = vocabulary()[:, PUNCTUATION] > 0
        free = {is_in: [*np.flatnonzero(is_mark_V == is_in)] for is_in in (False, True)}
        tokens = {PAD: 0}
        for word in self.words:
            if free[self.has.get(word, False)]:
                tokens[word] = 1 + int(free[self.has.get(word, False)].pop())
        return of_words(tokens)

    @cached_property
    def examples(self) -> tuple[Sentence, ...]:
        """Random words, some of which are in the class; pairs of texts, or images."""
        program, number = self.program, NUMBER
        if isinstance(program, Patches):
            return drawn_images(program, number)
        if isinstance(program, Frames):
            return drawn_recordings(number)
        if isinstance(program, Pairs):
            sides = ([written(each) for each in both] for both in program.texts(number, 5))
            return tuple(Sentence(one, second=other) for one, other in sides)
        if not self.words:
            return tuple(Sentence(written(each)) for each in program.texts(number, 5))
        number_of = self.tokenizer.get_vocab()
        rng, known = np.random.default_rng(5), sorted(number_of, key=number_of.__getitem__)[1:]
        inside = [word for word in known if self.has.get(word)]
        others = [word for word in known if not self.has.get(word)] or inside
        share = SHARE[PUNCTUATION] if inside else 0.0
        texts = [
            [str(rng.choice(inside if rng.random() < share else others)) for _ in range(length)]
            for length in rng.integers(LENGTH // 2, LENGTH + 1, number)
        ]
        return tuple(Sentence(" ".join(each)) for each in texts)

    @cached_property
    def program(self) -> Program | Pairs | Patches | Frames:
        """One head that looks at the class, and others that look at nothing with a name."""
        heads = (Planted(TRUE, self.looks or "punctuation", "needed", 1, 1, 3.0),)
        if self.family == "encoder":
            return Program(heads, layers=2, site="encoder.self")
        return {"pairs": Pairs, "patches": Patches, "frames": Frames}[self.family](heads, layers=2)

    def model(self, which: Which) -> Loaded:
        """A model that reads the examples, of which one head looks at the class, or none does."""
        loaded = planted_model(self.program, self.family)
        model = random_model(self.program, self.family) if which == "random" else loaded.model
        reads = loaded.tokenizer and self.tokenizer
        return replace(loaded, model=model, tokenizer=reads)

    def corpus(self, number: int = NUMBER) -> Corpus:
        """Some examples."""
        return Corpus.from_sentences(self.examples[:number])

    def sums(self, examples: Sequence[Sentence], measure: type[Sums]) -> dict[LayerId, Sums]:
        """The sums of each layer of the random model over some examples."""
        found = totals(self.model("random"), Corpus.from_sentences(examples), [measure]).sums
        return {layer: sums for (_, layer), sums in found.items()}


@check("laws")
def classes(given: TraitSubject) -> str:
    """Some keys are in the class and some are not, whichever rows and queries it is asked about."""
    seen, differ = list[Tensor](), list[str]()

    def keys(self: Any, sides: Sides, rows: slice, queries: slice) -> Tensor:
        whole = given.trait.keys(self, sides, slice(None), slice(None))
        seen.append(whole[sides.keys.is_token_BN[:, None].expand_as(whole)])
        for row, query in product({0, len(whole) - 1}, {0, 1, whole.shape[1] - 1}):
            part = slice(row, row + 1), slice(query, query + 1)
            if not torch.equal(whole[part], given.trait.keys(self, sides, *part)):
                differ.append("the keys of one query are others alone than among all")
        return whole[rows, queries]

    asked: Any = type("Asked", (given.trait,), {"keys": keys})
    given.sums(given.examples[:FEW], measure_of_traits([asked(given.tokenizer)]))
    for text in differ[:1]:
        expect(False, text)
    share = float(torch.cat(seen).double().mean())
    number = amount(len(given.words), "word") if given.words else "planted models"
    text = f"{percent(share)} of the keys in texts of {number} are in the class"
    expect(0 < share < 1, f"{text}: give other texts")
    return text


@check("laws")
def blanks(given: TraitSubject) -> str:
    """A word is in the class with the blank that many tokenizers put before it, and without."""
    if not given.has:
        raise LeftOut("the class is not one of words")
    made = given.trait(given.tokenizer)
    for word, is_in in given.has.items():
        expect(made.has(f" {word}") == is_in, f"{word!r} is {is_in}, and {' ' + word!r} is not")
    return f"{amount(len(given.has), 'word')}"


@check("laws")
def adds(given: TraitSubject) -> str:
    """Parts add up to the whole in any order, however examples are batched and padded."""
    examples, measure = given.examples[:FEW], measure_of_traits([given.trait(given.tokenizer)])
    parts = [given.sums([each], measure) for each in examples]
    for layer, sums in given.sums(examples, measure).items():
        single = [part[layer] for part in parts]
        whole = reduce(add, single)
        assert_adds(whole, single)
        for name, each in sums.state().items():
            saw = f"{name} of layer {layer.layer} differs in one batch and one by one"
            torch.testing.assert_close(each, whole.state()[name], rtol=1e-4, atol=1e-4, msg=saw)
    return f"{amount(len(examples), 'example')}, in one batch and one by one"


@check("laws")
def trace(given: TraitSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    loaded, corpus = given.model("random"), given.corpus(1)
    encoder = encoder_of(loaded, corpus)
    batch = next(iter(Batches(corpus, encoder, take_census(corpus, encoder))))
    with leaving_no_trace(loaded.model, batch.inputs):
        analyze(loaded, given.corpus(FEW), traits=[given.alone])
    return f"{len(loaded.model.state_dict())} weights and all outputs are the same bit for bit"


@lru_cache(maxsize=2)
def _analysed(given: TraitSubject, which: Which) -> Analysis:
    return analyze(given.model(which), given.corpus(), traits=[given.alone])


def _having(given: TraitSubject, which: Which) -> dict[str, list[str]]:
    """The heads with the trait's role, by the class itself, and of ours by the pass, too."""
    rows = _analysed(given, which).profiles
    rows = rows.loc[rows["verdict"] == "role"]
    names = (given.alone.name, given.trait.name)
    return {name: rows.loc[rows["trait"] == name, "head"].tolist() for name in names}


@check("truth")
def found(given: TraitSubject) -> str:
    """In a model where one head looks at the class, that head has the role, and no other."""
    if not given.has and given.looks is None:
        raise LeftOut("the class is not one of words: say what the planted head `looks` at")
    for name, heads in _having(given, "planted").items():
        text = f"the role {name} is of {', '.join(heads) or 'no head'}"
        expect(heads == [str(TRUE)], f"{text}, not of {TRUE} alone")
    return f"the role is of {TRUE}, and no other head"


@check("nulls")
def chance(given: TraitSubject) -> str:
    """With random weights, no head has the role."""
    for name, heads in _having(given, "random").items():
        expect(not heads, f"the role {name} is of {', '.join(heads)}")
    return "no head has the role"


@check("words")
def words(given: TraitSubject) -> str:
    """It has a name, a letter and a meaning, and reads well where no or one head has it."""
    its, entry = given.trait, given.entry
    expect_words("the name", its.name)
    expect_words("what heads look at", entry.target.replace("{direction}", "there"))
    least = Thresholds().least(entry.role)
    expect(0 < least <= 1, f"the threshold is {least}, not between 0 and 1")
    about = cleandoc(its.__doc__ or "").partition("\n")[0]
    expect_words("the first line of the docstring", about, is_sentence=True)
    for text in (entry.role.one, entry.role.many, entry.role.about):
        expect_words("the role", text)
    for which in ("random", "planted"):
        analysis = _analysed(given, which)
        shown("analyze", analysis, section="numbers")
        for role in chain.from_iterable(analysis.roles.values()):
            expect_readable("the evidence", role.evidence)
    return f"{entry.letter} for {its.name}: {about}"


TRAIT_CHECKS = (classes, blanks, adds, trace, found, chance, words)
"""What is asked of every trait."""


def trait_subject(
    given: str | type[Trait], data: Data | Corpus | None = None, looks: Kind | None = None
) -> TraitSubject:
    """A trait as given to `check_trait`, and texts whose words may be in its class.

    Args:
        given: The trait, or its name.
        data: Texts in place of our English sample.
        looks: What the planted head looks at, if the class is not one of words, such as `first`.
            Texts are then made of the planted models' words.
    """
    its = TRAIT_CLASSES.find(given)
    looks = looks or OF_OURS.get(its.name)
    if data is None and looks is not None:
        return TraitSubject(its, (), looks)
    every = chain.from_iterable(Layout.split(each.text).words for each in read(data))
    return TraitSubject(its, (*dict.fromkeys(every),), looks)
