"""What must hold for every trait: a class of keys, and a planted head that looks at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from inspect import cleandoc
from itertools import chain
from operator import add
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from headcount.analysis import analyze, totals
from headcount.core import DATA, Head, LayerId, amount
from headcount.corpora import Corpus, Layout
from headcount.measures import Sides, Sums, Trait, entries_of, measure_of_traits
from headcount.models import Loaded
from headcount.numbers import percent
from headcount.results import Analysis
from headcount.testing.architectures import POSITIONS
from headcount.testing.checks import LeftOut, check, expect
from headcount.testing.examples import at_random, made_at_random
from headcount.testing.laws import leaving_no_trace
from headcount.testing.planted import planted_model, tokenizer
from headcount.testing.programs import Kind, Planted, Program
from headcount.testing.sums_laws import assert_adds
from headcount.testing.tokens import PUNCTUATION, SHARE, vocabulary
from headcount.testing.wording import expect_readable, expect_words, shown

TEXTS, LENGTH = 100, 12
"""Number of texts, half of which test, and of the words of the longest ones."""
FEW = 6
"""Number of texts of the laws."""
TRUE = Head("encoder.self", 1, 2)
"""The planted head."""


@dataclass(frozen=True)
class TraitSubject:
    """A trait to check, the words that texts are made of, and what the planted head looks at."""

    trait: type[Trait]
    words: tuple[str, ...]
    looks: Kind

    @cached_property
    def has(self) -> Mapping[str, bool]:
        """Whether each word is in the class; empty if keys are in it for another reason."""
        made = self.trait(tokenizer())
        is_of_words = self.trait.keys is Trait.keys
        return {word: made.has(word) for word in self.words} if is_of_words else {}

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of whole words; those of the class are the planted models' punctuation."""
        is_mark_V = vocabulary()[:, PUNCTUATION] > 0
        free = {is_in: [*np.flatnonzero(is_mark_V == is_in)] for is_in in (False, True)}
        tokens = {"<pad>": 0}
        for word in self.words:
            if free[self.has.get(word, False)]:
                tokens[word] = 1 + int(free[self.has.get(word, False)].pop())
        backend = Tokenizer(models.WordLevel(tokens, "<pad>"))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        limit = {"pad_token": "<pad>", "model_max_length": POSITIONS - 2}
        return PreTrainedTokenizerFast(tokenizer_object=backend, **limit)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Random words, some of which are in the class, in texts of unequal length."""
        rng, known = np.random.default_rng(5), [*self.tokenizer.get_vocab()][1:]
        inside = [word for word in known if self.has.get(word)]
        others = [word for word in known if not self.has.get(word)]
        share = SHARE[PUNCTUATION] if inside else 0.0
        texts = [
            [str(rng.choice(inside if rng.random() < share else others)) for _ in range(length)]
            for length in rng.integers(LENGTH // 2, LENGTH + 1, TEXTS)
        ]
        return tuple(map(" ".join, texts))

    def model(self, which: Literal["planted", "random"]) -> Loaded:
        """A model that reads the words, of which one head looks at the class, or none does."""
        if which == "random":
            return Loaded(at_random("encoder").model.model, self.tokenizer, "random encoder")
        head = Planted(TRUE, self.looks, "needed", 1, 1, 3.0)
        program = Program((head,), layers=2, site="encoder.self")
        return Loaded(planted_model(program, "encoder").model, self.tokenizer, "planted encoder")

    def sums(self, texts: Sequence[str], measure: type[Sums]) -> dict[LayerId, Sums]:
        """The sums of each layer of the random model over some texts."""
        found = totals(self.model("random"), Corpus(list(texts)), [measure]).sums
        return {layer: sums for (_, layer), sums in found.items()}


@check("laws")
def classes(given: TraitSubject) -> str:
    """Some keys are in the class and some are not, whichever rows and queries it is asked about."""
    seen, differ = list[Tensor](), list[str]()

    def keys(self: Any, sides: Sides, rows: slice, queries: slice) -> Tensor:
        whole = given.trait.keys(self, sides, slice(None), slice(None))
        seen.append(whole[sides.keys.is_token_BN[:, None].expand_as(whole)])
        parts = [
            given.trait.keys(self, sides, slice(row, row + 1), slice(query, query + 1))
            for row, query in ((0, 0), (len(whole) - 1, whole.shape[1] - 1))
        ]
        if not (torch.equal(whole[:1, :1], parts[0]) and torch.equal(whole[-1:, -1:], parts[1])):
            differ.append("the keys of one query are others alone than among all")
        return whole[rows, queries]

    asked: Any = type("Asked", (given.trait,), {"keys": keys})
    given.sums(given.texts[:FEW], measure_of_traits([asked(given.tokenizer)]))
    for text in differ[:1]:
        expect(False, text)
    share = float(torch.cat(seen).double().mean())
    number = amount(len(given.words), "word")
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
    """Parts add up to the whole in any order, however texts are batched and padded."""
    texts, measure = given.texts[:FEW], measure_of_traits([given.trait(given.tokenizer)])
    parts = [given.sums([each], measure) for each in texts]
    for layer, sums in given.sums(texts, measure).items():
        single = [part[layer] for part in parts]
        whole = reduce(add, single)
        assert_adds(whole, single)
        for name, each in sums.state().items():
            saw = f"{name} of layer {layer.layer} differs in one batch and text by text"
            torch.testing.assert_close(each, whole.state()[name], rtol=1e-4, atol=1e-4, msg=saw)
    return f"{amount(len(texts), 'text')}, in one batch and one by one"


@check("laws")
def trace(given: TraitSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    model = made_at_random("encoder").model.model
    inputs = given.tokenizer([given.texts[0]], return_tensors="pt")
    with leaving_no_trace(model, {"input_ids": inputs["input_ids"]}):
        loaded = Loaded(model, given.tokenizer, "random encoder")
        analyze(loaded, Corpus([*given.texts[:FEW]]), traits=[given.trait])
    return f"{len(model.state_dict())} weights and all outputs are the same bit for bit"


@lru_cache(maxsize=2)
def _analysed(given: TraitSubject, which: Literal["planted", "random"]) -> Analysis:
    return analyze(given.model(which), Corpus([*given.texts]), traits=[given.trait])


def _having(given: TraitSubject, which: Literal["planted", "random"]) -> list[str]:
    """The heads with the trait's role."""
    roles = _analysed(given, which).roles.items()
    return [head for head, own in roles if any(each.role == given.trait.name for each in own)]


@check("truth")
def found(given: TraitSubject) -> str:
    """In a model where one head looks at the class, that head has the role, and no other."""
    if not given.has and given.looks == "punctuation":
        raise LeftOut("the class is not one of words: say what the planted head `looks` at")
    heads = _having(given, "planted")
    text = f"the role is of {', '.join(heads) or 'no head'}"
    expect(heads == [str(TRUE)], f"{text}, not of {TRUE} alone")
    return text


@check("nulls")
def chance(given: TraitSubject) -> str:
    """With random weights, no head has the role."""
    heads = _having(given, "random")
    expect(not heads, f"the role is of {', '.join(heads)}")
    return "no head has the role"


@check("words")
def words(given: TraitSubject) -> str:
    """It has a name, a letter and a meaning, and reads well where no or one head has it."""
    its = given.trait
    (entry,) = entries_of([its(given.tokenizer)]).values()
    expect_words("the name", its.name)
    expect_words("what heads look at", its.target)
    expect(0 < its.threshold <= 1, f"the threshold is {its.threshold}, not between 0 and 1")
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
    given: type[Trait], texts: Sequence[str] | None = None, looks: Kind = "punctuation"
) -> TraitSubject:
    """A trait as given to `check_trait`, and texts whose words may be in its class.

    Args:
        given: The trait.
        texts: Texts in place of our English sample.
        looks: What the planted head looks at, if the class is not one of words, such as `first`.
    """
    sentences = [each.text for each in Corpus(DATA / "sample.conllu")] if texts is None else texts
    every = chain.from_iterable(Layout.split(each).words for each in sentences)
    return TraitSubject(given, (*dict.fromkeys(every),), looks)
