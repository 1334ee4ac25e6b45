r"""Coreference: how often the head word of a mention attends most to an antecedent.

$$\mathrm{choice}_h(m) = \arg\max_{c \in C(m)} A_h(\mathrm{head}(m), \mathrm{head}(c))$$

between words, with keys summed over the pieces of a word and queries averaged; C(m) are the
earlier mentions in the window (see `antecedents`).

Reference: What Does BERT Look At? (Clark et al., 2019), section 4.3, https://arxiv.org/abs/1906.04341
Departure: the paper takes documents of up to 128 tokens. Here longer ones are read in windows, and
mentions whose antecedents all lie before the window are counted and left out.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import (
    CorpusError,
    Kept,
    Progress,
    Stopwatch,
    amount,
    name_of,
    remove_state,
    silent,
)
from headcount.coreference.antecedents import (
    BASELINES,
    Choices,
    NameAnswers,
    Window,
    Windows,
    are_right,
    baseline_choices,
    chosen_names,
    halves,
    windows_of,
)
from headcount.coreference.result import (
    ChosenHead,
    Coreference,
    CoreferenceOptions,
    CoreferenceRecord,
    CoreferenceRow,
)
from headcount.corpora import (
    Document,
    Encoded,
    Encoder,
    Misread,
    NameQuestion,
    Sentence,
    groups_by_length,
    in_one_line,
    padded,
    read_documents,
)
from headcount.measures import GroupedMaps, probe_heads, probe_layers
from headcount.models import Loaded, as_loaded, check_has_heads, check_memory, signature
from headcount.statistics import Bootstrap, few_clusters
from headcount.tap import FunctionListener, Tap, evaluating, input_device

STATE = Path("state") / "coreference"
"""Folder of an unfinished run within its folder of results."""
_WHAT = "the antecedents of the windows so far"
SAVE_EVERY = 10.0
"""Smallest number of seconds between two saves of the windows that are done."""
KINDS = ("all", "pronoun", "proper", "nominal")
LONGEST = 512
"""Largest default size of a window in tokens."""


def select_antecedents(
    model: Loaded | PreTrainedModel,
    documents: Sequence[str | Path] | Sequence[Document],
    options: CoreferenceOptions | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
    out: str | Path | None = None,
) -> Coreference:
    """Measure how often every head chooses an antecedent, beside three baselines.

    Of an encoder-decoder the encoder's heads are measured.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        documents: files with documents (see `corpora/coreference.py`), or the documents.
        options: how to run.
        progress: called with the stage and the number of windows done.
        tokenizer: the tokenizer of a plain model.
        out: the folder of the run. Finished windows are kept in `out/state/coreference`, and a run
            that finds some there resumes; `forget_coreference` deletes them.

    Raises:
        CorpusError: if the documents can't be read, or no mention has an antecedent in reach.
        InputError: if the finished windows are those of another run.
        ModelError: if the model's attention can't be observed.
    """
    loaded, options = as_loaded(model, tokenizer), options or CoreferenceOptions()
    check_has_heads(loaded)
    watch, encoder, (files, read) = Stopwatch(), loaded.source_encoder(), _documents(documents)
    size = min(each for each in (options.window, encoder.max_length, LONGEST) if each)
    texts = [document.read(options.as_words) for document in read]
    cut, misread = _cut(encoder, read, texts, size)
    how = _reading(read, options) | {"samples": options.samples, "seed": options.seed}
    signed = signature(loaded, _sha256(read), n=len(read), window=size, **how)
    kept = _kept(out, f"{signed}|tokens:{options.max_tokens}")
    windows = _asked(encoder, read, texts, cut.windows)
    chosen = _choose(loaded, windows, kept, options.max_tokens, progress)
    counts = _Counts(read, cut, [each.hits_HC for each in chosen])
    heads = [*map(str, probe_heads(loaded))]
    names = NameAnswers(read, _named(cut, chosen), heads)
    best_names = tuple(names.best(options))
    record = CoreferenceRecord(
        signature=signed,
        model=name_of(loaded.name),
        corpora=tuple(name_of(file) for file in files),
        documents=len(read),
        window=size,
        best=tuple(counts.best(heads, options)),
        best_names=best_names,
        mentions=sum(len(document.mentions) for document in read),
        windows=len(cut.windows),
        cases=cut.cases,
        out_of_reach=cut.out_of_reach,
        single=cut.single,
        too_long=cut.too_long,
        warnings=(*_warnings(cut), *counts.few(options), *misread.warnings()),
        timings=watch.lap("coreference"),
    )
    of_names = names.rows(options) if best_names else ()
    return Coreference(record, tuple(counts.rows(heads, options)), tuple(of_names))


def _documents(
    documents: Sequence[str | Path] | Sequence[Document],
) -> tuple[list[str], list[Document]]:
    """Names of files, and the documents in them; without files, the documents that are given."""
    files = [str(each) for each in documents if not isinstance(each, Document)]
    given = [each for each in documents if isinstance(each, Document)]
    return files, read_documents(files) if files else given


def _kept(out: str | Path | None, key: str) -> Kept[tuple[Choices, ...]]:
    """The finished windows of a run, which are in its folder if it has one."""
    file = None if out is None else Path(out) / STATE / "windows.json"
    return Kept(file, key, _WHAT, tuple[Choices, ...], SAVE_EVERY)


def _named(cut: Windows, chosen: Sequence[Choices]) -> dict[int, Int[np.ndarray, " head"]]:
    """The name that each head chose, by document."""
    pairs = zip(cut.windows, chosen, strict=True)
    return {window.document: its.name_H for window, its in pairs if its.name_H is not None}


def _warnings(cut: Windows) -> Iterator[str]:
    if cut.out_of_reach:
        yield (
            f"mentions without their antecedent in a window, left out: {cut.out_of_reach:,} of "
            f"{cut.anaphoric:,}"
        )
    if cut.too_long:
        yield f"sentences longer than a window, left out: {cut.too_long:,}"
    if 4 * cut.single > cut.cases:
        yield (
            f"in {cut.single:,} of {amount(cut.cases, 'case')} there is one candidate only, which "
            "every head and every baseline gets right"
        )


def _reading(documents: Sequence[Document], options: CoreferenceOptions) -> dict[str, Any]:
    """How texts are read, for signatures; empty if only their words are known."""
    if all(document.written is None for document in documents):
        return {}
    return {"treebank": "as-words" if options.as_words else "as-written"}


def _sha256(documents: Sequence[Document]) -> str:
    parts = [(document.sentences, document.mentions) for document in documents]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _cut(
    encoder: Encoder,
    documents: Sequence[Document],
    texts: Sequence[Sequence[Sentence]],
    size: int,
) -> tuple[Windows, Misread]:
    """The windows of all documents, whose sentences are `texts`, and which are misread.

    Raises:
        CorpusError: if no mention has an antecedent in reach.
    """
    lengths, misread = [], Misread()
    for sentences in texts:
        encoded = Encoder(encoder.tokenizer, None).sources(sentences)
        misread = misread.add(sentences, encoded)
        lengths.append([sum(not special for special in one.is_special) for one in encoded])
    special = sum(encoder.sources([Sentence("a", ("a",))])[0].is_special)
    cut = windows_of(documents, lengths, size - special)
    if not cut.cases:
        raise CorpusError(
            f"Expected a mention with an antecedent in a window of {amount(size, 'token')}, got "
            "none among "
            f"{amount(sum(len(document.mentions) for document in documents), 'mention')}. Give a "
            "corpus with coreference, or a larger window."
        )
    return cut, misread


def forget_coreference(out: Path) -> None:
    """Delete the finished windows of an unfinished run."""
    remove_state(out / STATE)


Asked = tuple[Window, Encoded, NameQuestion | None]
"""A window, its text, and what is asked of its document."""


def _asked(
    encoder: Encoder,
    documents: Sequence[Document],
    texts: Sequence[Sequence[Sentence]],
    windows: Sequence[Window],
) -> list[Asked]:
    lines = [in_one_line([texts[each.document][i] for i in each.sentences]) for each in windows]
    questions = [documents[window.document].question for window in windows]
    return [*zip(windows, encoder.sources(lines), questions, strict=True)]


def _choose(
    loaded: Loaded,
    asked: Sequence[Asked],
    kept: Kept[tuple[Choices, ...]],
    max_tokens: int,
    progress: Progress,
) -> list[Choices]:
    """The choices in all windows, batch by batch."""
    model, maps = loaded.model, GroupedMaps(probe_layers(loaded))

    def of_batch(places: Sequence[int]) -> tuple[Choices, ...]:
        windows, texts, questions = zip(*(asked[place] for place in places), strict=True)
        maps.start(_pieces(windows, texts).to(input_device(model)))
        loaded.read_sources([text.ids for text in texts])
        return tuple(map(_choices, maps.maps_BHGG.cpu(), windows, questions))

    lengths = [len(text.ids) for _, text, _ in asked]
    check_memory(loaded, max(lengths, default=0), len(lengths), max_tokens)
    batches = list(groups_by_length(range(len(lengths)), lengths.__getitem__, max_tokens))
    units = ((str(number), partial(of_batch, each)) for number, each in enumerate(batches))
    chosen = dict[int, Choices]()
    with (
        evaluating(model),
        torch.inference_mode(),
        Tap(model, loaded.anatomy, FunctionListener(maps.block)),
    ):
        for places, found in zip(batches, kept.results(units), strict=True):
            chosen |= zip(places, found, strict=True)
            progress("choosing antecedents", len(chosen), len(asked))
    return [chosen[place] for place in range(len(asked))]


def _choices(
    weights_HMM: Float[Tensor, "head mention mention"],
    window: Window,
    question: NameQuestion | None,
) -> Choices:
    name_H = None if question is None else chosen_names(weights_HMM, question)
    return Choices.of(are_right(weights_HMM, window), name_H)


def _pieces(
    windows: Sequence[Window], encoded: Sequence[Encoded]
) -> Float[Tensor, "batch mention token"]:
    """1 where a token is a piece of the head of a mention."""
    word_BN = padded([one.word_of for one in encoded], -1)
    most = max(1, *(len(window.mentions) for window in windows))
    head_BM = np.full((len(windows), most), -2)
    for row, window in enumerate(windows):
        heads = [encoded[row].place(each.head - window.first) for each in window.mentions]
        head_BM[row, : len(heads)] = heads
    return torch.from_numpy(word_BN[:, None] == head_BM[:, :, None]).float()


@final
class _Counts:
    """Cases and right choices of every document, by kind of mention."""

    def __init__(
        self,
        documents: Sequence[Document],
        cut: Windows,
        hits: Sequence[Int[np.ndarray, "head case"]],
    ) -> None:
        num_heads = hits[0].shape[0]
        shape = (len(KINDS), len(documents))
        self.cases_KD = np.zeros(shape)
        self.right_KDR = np.zeros((*shape, num_heads + len(BASELINES)))
        """Right choices of the heads, then of the baselines."""
        for window, hits_HC in zip(cut.windows, hits, strict=True):
            cases = np.flatnonzero(window.is_case_M)
            chosen = baseline_choices(window, documents[window.document].words)
            by_rule = [window.is_right_MM[cases, chosen[name]] for name in BASELINES]
            right_RC = np.concatenate([hits_HC, np.array(by_rule, int).reshape(3, -1)])
            kinds = np.array([window.mentions[case].kind for case in cases], str)
            for number, kind in enumerate(KINDS):
                its = (kinds == kind) | (kind == "all")
                self.cases_KD[number, window.document] += its.sum()
                self.right_KDR[number, window.document] += right_RC[:, its].sum(1)

    def rows(self, heads: Sequence[str], options: CoreferenceOptions) -> Iterator[CoreferenceRow]:
        """The rows of every kind of mention; none without a case."""
        drawn = Bootstrap(self.cases_KD.shape[1], options.samples, options.seed)
        for kind, cases_D, right_DR in zip(KINDS, self.cases_KD, self.right_KDR, strict=True):
            for index, head in enumerate(heads if cases_D.any() else ()):
                numbers = _numbers(drawn, right_DR, cases_D, index)
                yield CoreferenceRow(head, kind, *numbers)

    def best(self, heads: Sequence[str], options: CoreferenceOptions) -> Iterator[ChosenHead]:
        """The best head of one half of the documents for each kind, measured on the other half."""
        first, second = halves(self.cases_KD.shape[1], options.seed)
        for number, kind in enumerate(KINDS):
            cases_D, right_DR = self.cases_KD[number], self.right_KDR[number]
            if not (cases_D[first].any() and cases_D[second].any()):
                continue
            accuracy_R = right_DR[first].sum(0) / cases_D[first].sum()
            best = int(accuracy_R[: len(heads)].argmax())
            drawn = Bootstrap(len(second), options.samples, options.seed)
            numbers = _numbers(drawn, right_DR[second], cases_D[second], best)
            yield ChosenHead(heads[best], kind, *numbers, float(accuracy_R[best]))

    def few(self, options: CoreferenceOptions) -> Iterator[str]:
        """Warnings if few documents have cases, in all or in the half of the best heads."""
        has_case_D = self.cases_KD[0] > 0
        _, second = halves(self.cases_KD.shape[1], options.seed)
        yield from few_clusters(int(has_case_D.sum()), "document")
        best = "intervals of the best heads, chosen on the other documents,"
        yield from few_clusters(int(has_case_D[second].sum()), "document", best)


def _numbers(
    drawn: Bootstrap, right_DR: np.ndarray, cases_D: np.ndarray, head: int
) -> tuple[float, float, float, int, float, float, float]:
    """The accuracy of a head with its interval and cases, and those of the baselines."""
    its = drawn.ratio(right_DR[:, head], cases_D, shares=True)
    nearest, head_match, rules = (right_DR.sum(0) / cases_D.sum())[-len(BASELINES) :].tolist()
    return its.value, its.low, its.high, its.cases, nearest, head_match, rules
