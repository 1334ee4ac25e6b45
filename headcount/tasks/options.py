"""Names of tasks, metrics and options. Needs no torch, so that arguments are checked at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, final, get_args

from headcount.core import (
    ABOVE_0_TO_1,
    MAX_TOKENS,
    Checked,
    InputError,
    Registry,
    Seed,
    check_known,
)
from headcount.corpora import (
    GRADE,
    NEGATIVE,
    PASSAGE,
    QUERY,
    RECORDED,
    TEXT_NAMES,
    Column,
    Columns,
    ColumnSpec,
    Data,
    Table,
    read_data,
    read_labelled_images,
    read_parallel,
    read_search,
    read_transcripts,
    read_word_labels,
)

TASKS: Registry[Any] = Registry(
    "tasks",
    "a task",
    {
        "translation": "headcount.tasks.translation:Translation",
        "classification": "headcount.tasks.splits:classification",
        "causal-lm": "headcount.tasks.language_modelling:CausalLanguageModelling",
        "masked-lm": "headcount.tasks.language_modelling:MaskedLanguageModelling",
        "similarity": "headcount.tasks.similarity:Similarity",
        "search": "headcount.tasks.search:Search",
        "image-classification": "headcount.tasks.classification:ImageClassification",
        "token-classification": "headcount.tasks.token_classification:TokenClassification",
        "choice": "headcount.tasks.choice:Choice",
        "transcription": "headcount.tasks.transcription:Transcription",
    },
)
"""Every task by its name: a `Task`, or a function of the same arguments that makes one."""

TRANSCRIPTION = "transcription"
"""The task whose data are recordings."""
CAUSAL = "causal-lm"
"""The task of causal language models, which continue texts."""
SEARCH = "search"
"""The task whose data sets share passages, but no queries."""

Pooling = Literal["mean", "cls"]
ClassMetric = Literal["accuracy", "f1", "matthews"]
TokenMetric = Literal["accuracy", "macro-f1"]
SPEARMAN = "spearman"
"""The metric of numbers: of similarity, and of classifiers with one output."""
TranslationMetric = Literal["bleu", "chrf"]
SearchMetric = Literal["ndcg@10", "mrr@10", "recall@10", "recall@100"]
LikelihoodPer = Literal["choice", "token", "character"]
Replacement = Literal["mask", "bert"]

METRICS: Mapping[str, tuple[str, ...]] = {
    "translation": get_args(TranslationMetric),
    "classification": (*get_args(ClassMetric), SPEARMAN),
    "image-classification": get_args(ClassMetric),
    "token-classification": get_args(TokenMetric),
    "search": get_args(SearchMetric),
}
"""Metrics of the tasks that have several."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "translation": ("num_beams", "tokenize", "prefix"),
    "classification": ("scale",),
    "similarity": ("scale", "pooling"),
    "search": ("pooling",),
    CAUSAL: ("max_length", "start", "roles"),
    "masked-lm": ("max_length",),
    "choice": ("likelihood_per",),
    "transcription": ("language",),
}
"""Options that only some tasks have."""


@dataclass(frozen=True)
class TaskOptions:
    """The task to score a model on: options of the command line and of records."""

    task: str = field(kw_only=True)
    """Task to score the model on."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl, .parquet, .txt (two for a translation), .conllu (token
    classification), or hf://dataset/config?split=validation; folders FOLDER/label/image.png for
    images; commands that prune choose heads on them."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    metric: str | None = None
    """Score to use if the task has several: accuracy, f1, matthews, macro-f1; bleu, chrf; ndcg@10,
    mrr@10, recall@10, recall@100."""
    num_beams: int = 4
    """Translation: number of beams in the search; 1 is greedy."""
    tokenize: str = "13a"
    """Translation: sacreBLEU's tokenizer for BLEU, e.g. zh, ja-mecab, intl."""
    prefix: str = ""
    """Translation: text to put before every source, as T5 needs."""
    max_length: int | None = None
    """Language modelling: number of tokens in a piece of text; the model's limit by default."""
    start: bool = True
    """Causal language modelling: begin every piece of a text with the token that the tokenizer puts
    in front of a text; models that were trained without it need --no-start."""
    roles: tuple[str, ...] = ()
    """Causal language modelling on chats: predict the messages of these roles only, e.g. assistant;
    of all by default."""
    scale: tuple[float, float] | None = None
    """Similarity, and classifiers with one output: lowest and highest possible score in the data; 0
    5 by default for similarity."""
    pooling: Pooling | None = None
    """Similarity and search: represent a text by the mean of its tokens or by the first one; by
    default as the sentence-transformers model says."""
    likelihood_per: LikelihoodPer = "choice"
    """Multiple choice: compare log-likelihoods of whole choices, or their means for each token or
    character."""
    language: str | None = None
    """Transcription by a multilingual Whisper: language spoken, e.g. german; by default as its
    settings say, or what it hears."""
    task_options: tuple[str, ...] = ()
    """Options of a task of your own as NAME=VALUE; VALUE is JSON, or else a text."""
    limit: int | None = None
    """Largest number of examples of each data set; all by default."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""


MORE_TARGETS = tuple(f"target{number}" for number in range(2, 10))
"""Further references of a translation, beside `target`."""


def _more_target(role: str) -> Column:
    """A column of further references, where a cell may be empty."""
    number = role.removeprefix("target")
    names = [f"{name}{bar}{number}" for name in ("target", "tgt", "reference") for bar in ("", "_")]
    return Column(tuple(names), needed=False, may_be_empty=True, after="target")


_TEXT = Column(("text", "sentence", "content"))
COLUMNS: Mapping[str, ColumnSpec] = {
    "translation": {
        "source": Column(("source", "src")),
        "target": Column(
            ("target", "tgt", "reference", "targets", "references"), lists="alternatives"
        ),
        **{role: _more_target(role) for role in MORE_TARGETS},
    },
    "classification": {
        "text": Column(
            ("text", "sentence1", "premise", "question1", "question", "sentence", "text1")
        ),
        "second": Column(
            ("sentence2", "hypothesis", "question2", "text2", "text_pair"),
            needed=False,
            beside={"question": ("sentence", "passage", "context")},
        ),
        "label": Column(("label", "labels", "class")),
    },
    "image-classification": {
        "image": Column(("image", "file_name", "path", "file")),
        "label": Column(("label", "labels", "class")),
    },
    "token-classification": {
        "words": Column(("words", "tokens", "forms"), lists="parts"),
        "labels": Column(("labels", "tags", "ner_tags", "pos_tags", "upos"), lists="parts"),
    },
    CAUSAL: {"text": Column(TEXT_NAMES, may_be_chat=True)},
    "choice": {
        "prompt": Column(("prompt", "question", "query", "ctx", "context"), may_be_chat=True),
        "choices": Column(("choices", "options", "endings"), lists="parts"),
        "answer": Column(("answer", "label", "gold", "answer_index")),
        "image": Column(("images",), needed=False, lists="alternatives", are_pictures=True),
    },
    "masked-lm": {"text": _TEXT},
    "similarity": {
        "sentence1": Column(("sentence1", "first", "text1", "sentence_1")),
        "sentence2": Column(("sentence2", "second", "text2", "sentence_2")),
        "score": Column(("score", "similarity_score", "similarity", "label")),
    },
    "search": {
        QUERY: Column(("query", "question", "anchor"), may_be_empty=True),
        PASSAGE: Column(("passage", "positive", "document", "answer", "text")),
        NEGATIVE: Column(("negative",), needed=False, may_be_empty=True),
        GRADE: Column(("grade", "relevance"), needed=False),
    },
    TRANSCRIPTION: RECORDED,
}
"""Columns that our tasks read."""


def columns_of(task: str) -> ColumnSpec:
    """The columns that a task reads.

    Raises:
        InputError: If there is no such task.
    """
    return COLUMNS[task] if task in COLUMNS else TASKS[task].reads


_READERS = {
    "translation": read_parallel,
    "image-classification": read_labelled_images,
    "token-classification": read_word_labels,
    SEARCH: read_search,
    TRANSCRIPTION: read_transcripts,
}
"""Functions that read the data of some tasks."""


def read_examples(
    task: str,
    data: Data,
    columns: Columns | None = None,
    limit: int | None = None,
    reads: ColumnSpec | None = None,
) -> Table:
    """The table of a task's data.

    Args:
        task: name of the task.
        data: the task's data.
        columns: the task's name of a column, mapped to its name or number in the data.
        limit: largest number of examples.
        reads: the columns that it reads; by default those of the task of this name.

    Raises:
        CorpusError: if the data can't be read.
    """
    return _READERS.get(task, read_data)(data, columns, reads or columns_of(task)).first(limit)


@final
@dataclass(frozen=True)
class Masking(Checked):
    """How tokens are masked for masked language modelling.

    >>> Masking(seed=3).share
    0.15

    Raises:
        InputError: for an unknown replacement, or a share that masks nothing or too much.
    """

    seed: Seed = 0
    """Seed of the masks."""
    share: Annotated[int | float, ABOVE_0_TO_1] = 0.15
    """Share of an example's content tokens that are masked."""
    replacement: Replacement = "mask"
    """What replaces a masked token: always [MASK], or as in BERT."""


def check_roles(roles: Sequence[str], has_chats: bool) -> None:
    """Check that data have roles where some are asked for.

    Raises:
        InputError: If they have none.
    """
    if roles and not has_chats:
        raise InputError(
            f"Expected chats (lists of messages) for roles={', '.join(roles)}, got texts, which "
            "have no roles. Leave the roles out."
        )


def check_metric(task: str, metric: str | None) -> None:
    """Check that a task has a metric.

    Raises:
        InputError: If it has not.
    """
    if metric is None:
        return
    if task not in METRICS:
        raise InputError(
            f"Expected no metric for {task}, which has one score only, got {metric!r}. Leave the "
            "metric out."
        )
    check_known("a metric", metric, METRICS[task], "(one of {})")
