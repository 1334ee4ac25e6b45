r"""Search: which passage answers a query, by the cosine of their embeddings.

$$\mathrm{loss} = -\log \frac{e^{20 \cos(q, p)}}{\sum_{c} e^{20 \cos(q, c)}}$$

q is the embedding of the query and p that of a passage that answers it; c runs over p and some
passages that do not. Score: nDCG, the reciprocal rank or the recall of the first passages found
among all passages of the data, by trec_eval, as a mean over queries between 0 and 1.
Reference: BEIR (Thakur et al., 2021), https://arxiv.org/abs/2104.08663; the loss: Henderson et al.
(2017), section 4.4, https://arxiv.org/abs/1705.00652
Departure: the other passages of the loss are drawn once for each query, not from the batch, so that
a query's loss does not depend on the queries beside it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, CorpusError, InputError, amount
from headcount.corpora import (
    GRADE,
    NEGATIVE,
    PASSAGE,
    QUERY,
    Columns,
    Data,
    Noted,
    Sentence,
    Table,
    check_limit,
)
from headcount.models import Loaded, stated_prompts
from headcount.tap import evaluating, input_device
from headcount.tasks.batch import (
    Answers,
    Evaluation,
    Losses,
    TaskBatch,
    groups,
    pad_id,
    text_inputs,
    unwritten,
)
from headcount.tasks.embedding import Embedding
from headcount.tasks.options import Pooling, SearchMetric
from headcount.tasks.task import Distils, Task

SCALE = 20.0
"""What cosines are multiplied by in the loss, as in sentence-transformers."""

OTHERS = 3
"""Number of passages in a query's loss that do not answer it."""

MEASURES = {"ndcg": "ndcg_cut_{}", "recall": "recall_{}", "mrr": "recip_rank"}
"""Names of trec_eval, by the metric's name in front of the number of passages."""


Embedded = Iterator[tuple[Int[Tensor, " row"], Float[Tensor, "row width"]]]
"""Numbers of texts and their embeddings, batch by batch."""


@final
class Search(Task):
    """Queries against passages; an example is a query.

    A query is one row of a batch, its answer and the passages of its loss are others. Texts longer
    than the model's limit are truncated and counted in `num_truncated`.

    Args:
        loaded: a text encoder with its tokenizer.
        data: files, or `{"query": [...], "passage": [...]}`, maybe with `negative` and `grade`; a
            row whose query is empty adds a passage.
        columns: the task's name of a column, mapped to its name or number in the data.
        metric: `ndcg@10`, `mrr@10`, `recall@10` or `recall@100`.
        pooling: `mean` over tokens, or `cls`; None means what the model states, or the mean.
        limit: largest number of queries; all passages are searched.

    Raises:
        CorpusError: for fewer than two passages, or a grade that is not above 0.
        InputError: for a model that pools no prompts, and has two of different lengths.
    """

    name: ClassVar[str] = "search"
    higher_is_better: bool = True
    writes: ClassVar[bool] = True
    distils: ClassVar[Distils | None] = "embeddings"
    by_example: ClassVar[tuple[str, ...]] = ("_queries", "_grades", "_compared")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: SearchMetric = "ndcg@10",
        pooling: Pooling | None = None,
        limit: int | None = None,
    ) -> None:
        check_limit(limit, "query")
        evaluator()  # before anything is read
        table = self.read(loaded, data, columns, None)
        self.metric = metric
        prompts = stated_prompts(loaded.model.config.name_or_path or "")
        asks = Embedding.of(loaded, pooling, prompts.get("query"))
        answers = Embedding.of(loaded, pooling, prompts.get("document"))
        if asks.num_skipped != answers.num_skipped:  # one pooling serves all rows of a batch
            raise InputError(
                "Expected prompts of queries and documents that are pooled, or equally long, got "
                f"{amount(asks.num_skipped, 'token')} and {amount(answers.num_skipped, 'token')} "
                f"that {loaded.name} leaves out. Such a model can't be searched with yet."
            )
        self.embedding = answers
        self.sha256 = table.sha256_with(
            limit=limit, query=asks.encoding.prompt or None, **answers.signed
        )
        texts = _passages(table)
        grades = dict(list(_grades(table, texts).items())[:limit])
        if len(texts) < 2:
            raise CorpusError(
                f"Expected at least two passages to search, got {len(texts)}. Add passages, also "
                "as rows without a query."
            )
        encoder = loaded.encoder()
        queries = encoder.sources([Sentence(asks.encoding.prompt + each) for each in grades])
        passages = encoder.sources([Sentence(answers.encoding.prompt + each) for each in texts])
        both = [*queries, *passages]
        self.num_truncated = sum(one.truncated for one in both)
        self.noted = Noted.of(iter(both))
        self.num_examples = len(grades)
        self._queries = [one.ids for one in queries]
        self._passages = [one.ids for one in passages]
        self._grades = [*grades.values()]
        negatives = _negatives(table, texts)
        self._compared = _compared(grades, negatives, len(texts))
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """The tokens of the longest text of every query's loss, as often as it has texts."""
        texts = (self._texts(index) for index in range(self.num_examples))
        return np.array([len(each) * max(map(len, each)) for each in texts])

    def _texts(self, index: int) -> list[list[int]]:
        return [self._queries[index], *(self._passages[each] for each in self._compared[index])]

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch: all queries, then all passages that answer them, then the others."""
        texts = [self._texts(index) for index in index_E.tolist()]
        rows = [each for side in zip(*texts, strict=True) for each in side]
        example_R = torch.arange(len(index_E)).repeat(len(texts[0]))
        return TaskBatch(
            text_inputs(rows, self._pad_id), {}, example_R, torch.from_numpy(np.asarray(index_E))
        )

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model without its head."""
        return model.base_model(**batch.inputs, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Cross-entropy of the passage that answers, among the passages of each query's loss."""
        unit_RW = self.answers(output, batch).values
        unit_ETW = batch.by_example(unit_RW)
        cosine_EC = torch.einsum("ew,ecw->ec", unit_ETW[:, 0], unit_ETW[:, 1:])
        target_E = torch.zeros_like(batch.index_E)
        loss_E = cross_entropy(SCALE * cosine_EC, target_E, reduction="none")
        return Losses(loss_E, torch.ones_like(target_E), torch.full_like(loss_E, torch.nan))

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The embeddings of the texts."""
        mask_RN = batch.inputs["attention_mask"]
        return Answers(normalize(self.embedding.pooled(output.last_hidden_state, mask_RN)))

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = MAX_TOKENS
    ) -> Evaluation:
        """An evaluation whose outcomes are every query's measure, from a search of all passages."""
        return replace(evaluation, outcome_N=self.measured(self.found(model, max_tokens)))

    def evaluated(self, model: PreTrainedModel, max_tokens: int, texts: bool) -> Evaluation:
        """Losses, and with `texts` the measures, with each text embedded once.

        Passages pass by in batches: those of the losses are held, of all others no embedding is.
        """
        steps = self._steps(texts)
        with evaluating(model), torch.inference_mode():
            query_QW = self._queried(model, max_tokens, steps)
            held = dict[int, Tensor]()
            needed = sorted({number for each in self._compared for number in each})
            numbers = range(len(self._passages)) if texts else needed
            batches = self._held(self._stream(model, numbers, max_tokens, steps), {*needed}, held)
            outcome_Q = np.full(self.num_examples, np.nan)
            if texts:
                outcome_Q = self.measured(self._first(query_QW, batches))
            deque(batches, maxlen=0)  # what is left fills `held`
            place = {number: row for row, number in enumerate(held)}
            held_PW = torch.stack([*held.values()])
            compared_QC = torch.tensor([[place[each] for each in row] for row in self._compared])
            cosine_QC = torch.einsum("qw,qcw->qc", query_QW, held_PW[compared_QC])
            target_Q = torch.zeros(len(query_QW), dtype=torch.long, device=cosine_QC.device)
            loss_Q = cross_entropy(SCALE * cosine_QC, target_Q, reduction="none").double()
        return Evaluation(loss_Q.cpu().numpy(), np.ones(self.num_examples, np.int64), outcome_Q)

    def _steps(self, texts: bool) -> Callable[[int], None]:
        """Reports how many queries' worth of texts was embedded so far."""
        needed = {number for each in self._compared for number in each}
        total = len(self._queries) + (len(self._passages) if texts else len(needed))
        done = 0

        def step(number: int) -> None:
            nonlocal done
            done += number
            self.steps(done * self.num_examples // total, self.num_examples)

        step(0)
        return step

    def _queried(
        self, model: PreTrainedModel, max_tokens: int, steps: Callable[[int], None]
    ) -> Float[Tensor, "query width"]:
        """Embeddings of all queries, in the order of the data."""
        rows = []
        for index_B, unit_BW in self._embedded(model, self._queries, max_tokens):
            rows.append((index_B, unit_BW))
            steps(len(index_B))
        order_Q = torch.cat([index for index, _ in rows])
        return torch.cat([each for _, each in rows])[order_Q.argsort()]

    def _stream(
        self,
        model: PreTrainedModel,
        numbers: Sequence[int],
        max_tokens: int,
        steps: Callable[[int], None],
    ) -> Embedded:
        """Numbers and embeddings of some passages, batch by batch."""
        texts = [self._passages[each] for each in numbers]
        number_P = torch.tensor(numbers)
        for index_B, unit_BW in self._embedded(model, texts, max_tokens):
            yield number_P.to(index_B.device)[index_B], unit_BW
            steps(len(index_B))

    def _held(
        self,
        batches: Embedded,
        needed: set[int],
        held: dict[int, Tensor],
    ) -> Embedded:
        """The same batches; what is needed of them is held."""
        for index_B, unit_BW in batches:
            for number, unit_W in zip(index_B.tolist(), unit_BW, strict=True):
                if number in needed:
                    held[number] = unit_W.clone()
            yield index_B, unit_BW

    def found(self, model: PreTrainedModel, max_tokens: int = MAX_TOKENS) -> list[dict[str, float]]:
        """The first passages of every query, by their numbers, with their cosines.

        Passages pass by in batches: of all others than the first ones, no cosine is kept.
        """
        steps, everything = self._steps(texts=True), range(len(self._passages))
        with evaluating(model), torch.inference_mode():
            query_QW = self._queried(model, max_tokens, steps)
            return self._first(query_QW, self._stream(model, everything, max_tokens, steps))

    def _first(
        self,
        query_QW: Float[Tensor, "query width"],
        batches: Embedded,
    ) -> list[dict[str, float]]:
        best_QK = query_QW.new_full((len(query_QW), 0), 0.0)
        number_QK = torch.zeros((len(query_QW), 0), dtype=torch.long, device=query_QW.device)
        for index_B, unit_BW in batches:
            cosines = torch.cat([best_QK, query_QW @ unit_BW.T], 1)
            numbers = torch.cat([number_QK, index_B.expand(len(query_QW), -1)], 1)
            best_QK, place_QK = cosines.topk(min(self._depth, cosines.shape[1]))
            number_QK = numbers.gather(1, place_QK)
        # Cosines that differ by rounding are equal, so that processors agree
        return [
            {str(number): round(cosine, 6) for number, cosine in zip(numbers, cosines, strict=True)}
            for cosines, numbers in zip(best_QK.double().tolist(), number_QK.tolist(), strict=True)
        ]

    def measured(self, found: Sequence[Mapping[str, float]]) -> Float[np.ndarray, " example"]:
        """The metric of every query."""
        name = MEASURES[self.metric.partition("@")[0]].format(self._depth)
        asked = "recip_rank" if name == "recip_rank" else ".".join(name.rsplit("_", 1))
        grades = {
            str(number): {str(passage): grade for passage, grade in each.items()}
            for number, each in enumerate(self._grades)
        }
        runs = {str(number): dict(each) for number, each in enumerate(found)}
        scores = evaluator().RelevanceEvaluator(grades, {asked}).evaluate(runs)
        return np.array([scores[str(number)][name] for number in range(len(found))])

    @property
    def _depth(self) -> int:
        return int(self.metric.partition("@")[2])

    def _embedded(
        self, model: PreTrainedModel, texts: Sequence[Sequence[int]], max_tokens: int
    ) -> Embedded:
        """Numbers and embeddings of texts, batch by batch, the shortest first."""
        device = input_device(model)
        for index_B in groups(np.array([*map(len, texts)]), max_tokens):
            rows = [texts[index] for index in index_B]
            batch = TaskBatch.of(text_inputs(rows, self._pad_id), {}, index_B).to(device)
            yield batch.index_E, self.answers(self.output(model, batch), batch).values

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The mean of the metric over queries."""
        outcome_N = self._outcomes(evaluation)
        return float((outcome_N if index_S is None else outcome_N[index_S]).mean())

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"]:
        """The metric of every query, and 1."""
        outcome_N = self._outcomes(evaluation)
        return np.stack([outcome_N, np.ones_like(outcome_N)], 1)

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """Means of many sums."""
        return sums_DK[:, 0] / sums_DK[:, 1]

    def _outcomes(self, evaluation: Evaluation) -> Float[np.ndarray, " example"]:
        if np.isnan(evaluation.outcome_N.astype(float)).any():
            raise unwritten("a search", self.metric)
        return evaluation.outcome_N.astype(float)


def evaluator() -> Any:
    """The package that measures.

    Raises:
        InputError: If it is not installed.
    """
    try:
        import pytrec_eval
    except ImportError as error:
        raise InputError(
            f"--task search measures with trec_eval: pip install 'headcount[search]' ({error})."
        ) from None
    return pytrec_eval


def _passages(table: Table) -> dict[str, int]:
    """The number of every distinct passage, negatives included."""
    texts: Iterable[str] = table[PASSAGE]
    if NEGATIVE in table:
        texts = [*texts, *filter(None, table[NEGATIVE])]
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _grades(table: Table, texts: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """The grade of every passage that answers a query, by query and the passage's number."""
    found = dict[str, dict[int, int]]()
    grades = table.numbers(GRADE) if GRADE in table else [1.0] * len(table)
    rows = zip(table[QUERY], table[PASSAGE], grades, table.origins, strict=True)
    for query, passage, grade, origin in rows:
        if query:
            if not (grade > 0 and grade == int(grade)):
                raise CorpusError(f"{origin}: expected a grade of 1 or more, got {grade:g}.")
            found.setdefault(query, {})[texts[passage]] = int(grade)
    if not found:
        raise CorpusError("Expected queries, got passages only. Fill the column query.")
    return found


def _negatives(table: Table, texts: Mapping[str, int]) -> dict[str, list[int]]:
    """Numbers of the passages that the data name as no answer, by query."""
    found = dict[str, list[int]]()
    if NEGATIVE in table:
        for query, negative in zip(table[QUERY], table[NEGATIVE], strict=True):
            if query and negative:
                found.setdefault(query, []).append(texts[negative])
    return found


def _compared(
    grades: Mapping[str, Mapping[int, int]], negatives: Mapping[str, list[int]], number: int
) -> list[list[int]]:
    """Passages of every query's loss: the best answer, then others, named ones first."""
    most = number - max(map(len, grades.values()))
    others, found = min(OTHERS, most), list[list[int]]()
    if others < 1:
        raise CorpusError(
            "Expected a passage that does not answer a query, for each query, got one that all "
            "passages answer. Add passages, also as rows without a query."
        )
    drawn = np.random.default_rng(0)
    for query, answers in grades.items():
        best = max(answers, key=lambda each, answers=answers: (answers[each], -each))
        rest = [each for each in negatives.get(query, ()) if each not in answers]
        pool = drawn.permutation(number)[: others + len(answers) + len(rest)].tolist()
        rest += [each for each in pool if each not in answers]
        found.append([best, *list(dict.fromkeys(rest))[:others]])
    return found
