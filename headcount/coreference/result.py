"""Coreference: how often the attention of a mention's head points at an antecedent; and options."""

from dataclasses import dataclass
from typing import Annotated, final

from headcount.core import MAX_TOKENS, Count, Seed, at_least, check_options
from headcount.results import CorpusRecord, Result, select, table

_ACCURACIES = "accuracies of antecedents"


@dataclass(frozen=True)
class CoreferenceRow:
    """How often one head chooses an antecedent, and how often the baselines do."""

    head: str
    """Name of the head, e.g. `enc.3.7`."""
    kind: str
    """Kind of the mentions: `all`, `pronoun`, `proper` or `nominal`."""
    accuracy: float
    """Share of the cases in which the largest weight is on the head of an antecedent."""
    low: float
    """Lower end of the 95 % interval over documents."""
    high: float
    """Upper end of the 95 % interval over documents."""
    cases: int
    """Number of mentions of this kind with an antecedent in reach."""
    nearest: float
    """Accuracy of the nearest mention."""
    head_match: float
    """Accuracy of the nearest mention with the same head word."""
    rules: float
    """Accuracy of the cascade of rules."""


@final
@dataclass(frozen=True)
class ChosenHead(CoreferenceRow):
    """The best head of one half of the documents, on the other half."""

    chosen_on: float
    """Accuracy on the half that it was chosen on; all other numbers are of the other half."""


@final
@dataclass(frozen=True)
class NameRow:
    """How often one head chooses the name that a pronoun means, out of two (GAP)."""

    head: str
    """Name of the head, e.g. `enc.3.7`."""
    gender: str
    """Gender of the pronouns: `all`, `feminine` or `masculine`."""
    f1: float
    """F1 of the answers for both names, each of which is right or wrong."""
    low: float
    """Lower end of the 95 % interval of F1 over passages."""
    high: float
    """Upper end of the 95 % interval of F1 over passages."""
    accuracy: float
    """Share of the passages with a right name in which it is chosen."""
    passages: int
    """Number of passages."""
    nearest: float
    """F1 of the name nearest to the pronoun."""


@final
@dataclass(frozen=True, kw_only=True)
class CoreferenceRecord(CorpusRecord):
    """Facts about antecedent selection that its rows do not hold."""

    FILE = "coreference.json"
    COMMAND = "headcount coreference"

    documents: int
    """Number of documents."""
    windows: int
    """Number of windows that they were cut into."""
    window: int
    """Largest number of tokens in a window, special ones included."""
    mentions: int
    """Number of mentions."""
    cases: int
    """Number of mentions with an antecedent in their window."""
    out_of_reach: int
    """Number of mentions whose antecedents all lie before their window."""
    single: int
    """Number of cases with one candidate only, which every head gets right."""
    too_long: int
    """Number of sentences that are longer than a window and were left out."""
    best: tuple[ChosenHead, ...]
    """The best head for each kind of mention, chosen on one half and measured on the other."""
    best_names: tuple[NameRow, ...] = ()
    """The head with the highest F1 on one half of GAP's passages, measured on the other."""


@final
@dataclass(frozen=True)
class Coreference(Result[CoreferenceRecord]):
    """The result of antecedent selection."""

    DOCUMENTS = ("coreference.md", "coreference.html")

    record: CoreferenceRecord
    rows: tuple[CoreferenceRow, ...] = table("coreference.parquet", _ACCURACIES)
    names: tuple[NameRow, ...] = table("coreference_names.parquet", _ACCURACIES, default=())
    """Answers to GAP's questions, by head and gender; empty for other corpora."""

    def ranked(self, kind: str = "all") -> list[CoreferenceRow]:
        """The rows of one kind of mention, the best head first."""
        return sorted(select(self.rows, kind=kind), key=lambda row: -row.accuracy)


@final
@dataclass(frozen=True)
class CoreferenceOptions:
    """Settings of `coreference`, in Python and as options of the command."""

    window: Annotated[int | None, at_least(8)] = None
    """Number of tokens in a window of a document; as many as the model takes, at most 512, by
    default."""
    max_tokens: Count = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: Count = 1000
    """Number of bootstrap samples of documents for the intervals."""
    as_words: bool = False
    """Read words joined by spaces ("did n't bark ,"), as papers do, instead of the text as it is
    written; CoNLL-2012 has no other text."""
    seed: Seed = 0
    """Seed of the samples, and of the halves that the best head is chosen and reported on."""

    def __post_init__(self) -> None:
        check_options(self)
