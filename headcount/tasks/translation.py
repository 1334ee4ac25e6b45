"""Translation: how well a model predicts a reference, and how good its own translation is.

Loss: NLL of the target's tokens, including the end, in nats, with the target as decoder input
(teacher forcing), without label smoothing. Score: sacreBLEU's BLEU or chrF of beam-search
translations, between 0 and 100. An example may have several references: the loss is of the first,
the score compares with all of them, as sacreBLEU does.
Reference: A Call for Clarity in Reporting BLEU Scores (Post, 2018),
https://arxiv.org/abs/1804.08771; chrF (Popović, 2015), https://aclanthology.org/W15-3049
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, CorpusError, InputError, check_choice
from headcount.corpora import (
    Columns,
    Data,
    Encoded,
    Noted,
    Table,
    encode_text,
    language_in_generation,
)
from headcount.models import Loaded
from headcount.tap import input_device
from headcount.tasks.batch import (
    Evaluation,
    TaskBatch,
    groups,
    pad_id,
    padded,
    text_inputs,
    unwritten,
)
from headcount.tasks.metrics import IGNORED, WritingTask, bleu, chrf
from headcount.tasks.options import MORE_TARGETS, TranslationMetric
from headcount.tasks.task import Resampled

VARYING = -1
"""SacreBLEU's number of references if examples differ in theirs."""


def shifted_right(
    loaded: Loaded, labels_EN: Int64[Tensor, "example token"]
) -> Int64[Tensor, "example token"]:
    """Labels after the model's start token, as the model itself makes decoder inputs from labels.

    Models without a function for this (M2M100) begin with `decoder_start_token_id`.
    """
    shift = getattr(loaded.model, "prepare_decoder_input_ids_from_labels", None)
    if shift is not None:
        on_model = labels_EN.to(input_device(loaded.model))
        return shift(labels=on_model).to(labels_EN.device)
    start = loaded.encoder().start_id
    assert start is not None
    shifted_EN = labels_EN.roll(1, 1)
    shifted_EN[:, 0] = start
    return shifted_EN.masked_fill(shifted_EN < 0, pad_id(loaded))


@final
class Translation(WritingTask):
    """Translation by an encoder-decoder.

    Sources and targets longer than the model's limit are truncated for the loss and counted in
    `num_truncated`; the score compares with complete references. Further references are in columns
    `target2` to `target9`, whose cells may be empty, or a target is a list of references.

    Args:
        loaded: an encoder-decoder with its tokenizer, whose languages are set if it has any;
            generation uses the target language.
        data: files, or `{"source": [...], "target": [...]}`; two text files without columns are
            sources and targets, one per line.
        columns: `{"source": NAME, "target": NAME}`.
        metric: `bleu` or `chrf`.
        num_beams: number of beams in the search.
        prefix: text before every source (T5: "translate English to German: ").
        tokenize: sacreBLEU's tokenizer for BLEU: `13a`, `zh`, `ja-mecab`, `intl`, ...
        generation: further arguments of `generate`, e.g. `{"forced_bos_token_id": 5}`.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "translation"
    texts_file: ClassVar[str] = "translations.txt"
    by_example: ClassVar[tuple[str, ...]] = ("references", "_sources", "_targets")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        *,
        metric: TranslationMetric = "bleu",
        num_beams: int = 4,
        prefix: str = "",
        tokenize: str = "13a",
        generation: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> None:
        check_choice("a metric", metric, TranslationMetric)
        most = len(loaded.encoder().tokenizer)
        if not 1 <= num_beams <= most:  # a search begins with one token a beam
            raise InputError(
                f"Expected 1 to {most:,} beams, as many as the vocabulary has tokens, got "
                f"{num_beams:,}. Use 1 for a greedy search."
            )
        self.metric, self.higher_is_better = metric, True
        table = self.read(loaded, data, columns, limit)
        self.sha256 = table.sha256_with(prefix=prefix or None)
        self.references = _references(table)
        """Texts that each translation is compared with."""
        self.scorer: BLEU | CHRF = _bleu(tokenize) if metric == "bleu" else CHRF()
        """sacreBLEU's metric, for its own tests of significance."""
        self._loaded, self._num_beams = loaded, num_beams
        self._tokenize = tokenize if metric == "bleu" else None
        reported = language_in_generation(loaded.encoder().tokenizer)
        self._generation = reported | dict(generation or {})
        self._sources, self._targets = _sides(loaded, table, prefix)
        both = [*self._sources, *self._targets]
        self.num_truncated = sum(one.truncated for one in both)
        self.noted = Noted.of(both)
        self._pad_id = pad_id(loaded)

    @property
    def signature(self) -> str:
        """SacreBLEU's signature of the score, the beams, and other arguments of `generate`."""
        self.scorer.num_refs = self._num_references  # also before there is a score
        decoding = {"beams": self._num_beams, **dict(sorted(self._generation.items()))}
        reported = "|".join(f"{name}:{value}" for name, value in decoding.items())
        return f"{self.scorer.get_signature()}|{reported}"

    @property
    def signed_options(self) -> Mapping[str, object]:
        """Number of beams and, for BLEU, sacreBLEU's tokenizer; of references, if not 1."""
        number = self._num_references
        refs = {1: None, VARYING: "var"}.get(number, number)
        return {"beams": self._num_beams, "tok": self._tokenize, "refs": refs}

    @property
    def reference_streams(self) -> list[list[Any]]:
        """All first references, all second ones and so on, None where an example has no more.

        SacreBLEU takes None there, though its types say text.
        """
        return [[*stream] for stream in zip_longest(*self.references)]

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens on the longer side of every pair."""
        pairs = zip(self._sources, self._targets, strict=True)
        return np.array([max(len(one.ids) for one in pair) for pair in pairs])

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pairs, with targets as decoder inputs."""
        labels_EN = padded([self._targets[index].ids for index in index_E], IGNORED)
        inputs = self._source_inputs(index_E) | {
            "decoder_input_ids": shifted_right(self._loaded, labels_EN),
            "decoder_attention_mask": (labels_EN != IGNORED).long(),
        }
        return TaskBatch.of(inputs, {"labels": labels_EN}, index_E)

    def some(self, index_N: Int[np.ndarray, " example"]) -> "Translation":
        """The task with some of its examples, by their numbers."""
        part = super().some(index_N)
        part.num_truncated = sum(one.truncated for one in [*part._sources, *part._targets])
        return part

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model with the targets as decoder inputs."""
        return model(**batch.inputs, use_cache=False, **more)

    def translate(self, model: PreTrainedModel, max_tokens: int = MAX_TOKENS) -> list[str]:
        """The model's translations by beam search, in the order of the data.

        A translation has at most twice as many tokens as its source, rounded up to a multiple of
        16, plus 16. It does not depend on the other sources.
        """
        return self.written(model, max_tokens)

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """BLEU or chrF as a function of the sentences drawn; n-grams are counted once.

        Raises:
            InputError: if the outcomes are not translations.
        """
        counts_NK = self._counts(evaluation)

        def scores(index_DS: Int[np.ndarray, "draw sample"]) -> Float[np.ndarray, " draw"]:
            sums = (counts_NK[index_S].sum(0).tolist() for index_S in index_DS)
            return np.array([self.scorer._compute_score_from_stats(each).score for each in sums])

        return scores

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"]:
        """Counts of n-grams of every pair."""
        return self._counts(evaluation).astype(float)

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """BLEU or chrF of many sums of counts, as sacreBLEU computes them one by one."""
        return (bleu if self.metric == "bleu" else chrf)(sums_DK)

    def _counts(self, evaluation: Evaluation) -> Int[np.ndarray, "example statistic"]:
        """Counts of n-grams of every pair, as sacreBLEU's scores are made of."""
        if evaluation.outcome_N.dtype != object:
            raise unwritten("translations", self.metric)
        # As sacreBLEU's own tests of significance do; there is no public name for it
        hypotheses, references = list(evaluation.outcome_N), self.reference_streams
        return np.array(self.scorer._extract_corpus_statistics(hypotheses, references))

    @property
    def _num_references(self) -> int:
        """Number of references of every example; `VARYING` if they differ."""
        numbers = {len(each) for each in self.references}
        return numbers.pop() if len(numbers) == 1 else VARYING

    def _source_inputs(self, index_E: Int[np.ndarray, " example"]) -> dict[str, torch.Tensor]:
        return text_inputs([self._sources[index].ids for index in index_E], self._pad_id)

    def searches(self, max_tokens: int) -> Iterator[tuple[Int[np.ndarray, " example"], int]]:
        """Batches of sources whose translations share a length limit, and that limit."""
        length_N = np.array([len(one.ids) for one in self._sources])
        longest_N = 2 * 16 * -(-length_N // 16) + 16
        for longest in np.unique(longest_N):
            index_G = np.flatnonzero(longest_N == longest)
            for place_E in groups(length_N[index_G] * self._num_beams, max_tokens):
                yield index_G[place_E], int(longest)

    def searched(
        self, model: PreTrainedModel, index_E: Int[np.ndarray, " example"], most: int
    ) -> list[str]:
        """The translations of a batch."""
        inputs = self._source_inputs(index_E)
        options = {
            "num_beams": self._num_beams,
            "do_sample": False,
            "max_new_tokens": min(most, self._loaded.max_length or most),
        } | self._generation
        inputs = {name: tensor.to(input_device(model)) for name, tensor in inputs.items()}
        out_EN = model.generate(**inputs, **options)  # type: ignore[operator]
        tokenizer = self._loaded.encoder().tokenizer
        return tokenizer.batch_decode(out_EN, skip_special_tokens=True)


def _references(table: Table) -> list[tuple[str, ...]]:
    """All references of every example, those of its target first."""
    more = [table[role] for role in MORE_TARGETS if role in table]
    others = zip(*more, strict=True) if more else [()] * len(table)
    return [
        (*first, *filter(None, others_of))
        for first, others_of in zip(table.lists["target"], others, strict=True)
    ]


def _sides(loaded: Loaded, table: Table, prefix: str) -> tuple[list[Encoded], list[Encoded]]:
    """Sources as the encoder reads them, targets as they are predicted."""
    encoder = loaded.encoder()
    sources = encoder.sources(table.sentences("source", prefix))
    limit = encoder.max_length
    targets = encode_text(encoder.tokenizer, table["target"], "text_target", limit)
    for target, origin in zip(targets, table.origins, strict=True):
        if not target.ids:
            raise CorpusError(
                f"{origin}: expected at least one token in the target, got none. Fix the line."
            )
    return sources, targets


def _bleu(tokenize: str) -> BLEU:
    """BLEU with one of sacreBLEU's tokenizers, some of which need a separate package."""
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(
            f"Expected a tokenizer of BLEU out of {', '.join(BLEU.TOKENIZERS)}, got {tokenize!r}."
        )
    try:
        return BLEU(tokenize=tokenize)
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(f"sacreBLEU has no tokenizer {tokenize} here: {error}") from error
