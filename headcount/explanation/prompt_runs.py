"""Runs of a prompt and of its second one: what heads output, and what replacing that does."""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import Head, LayerId, added
from headcount.explanation.attribution import Attribution, attribute
from headcount.explanation.changes import Change, Outputs
from headcount.explanation.runs import Case, Row, Run, aligned
from headcount.explanation.slopes import at_tokens, gradients, integrated, products, relevances
from headcount.models import Loaded
from headcount.tap import AttentionLayer, evaluating, heard, without_cache


@final
class PromptRuns:
    """The runs of a prompt, with and without its second one.

    Args:
        loaded: the model.
        case: the prompt.
        means: mean outputs of all heads; None if none is replaced by its mean.
    """

    def __init__(self, loaded: Loaded, case: Case, means: Outputs | None) -> None:
        self._loaded, self._case, self.means = loaded, case, means
        self.clean = [Run(loaded, row) for row in case.rows]
        """A run of each row of the prompt, as it is."""
        self.corrupt = [Run(loaded, row) for row in case.corrupt or ()]
        """A run of each row of the second prompt; none without one."""
        self.value = sum(run.value for run in self.clean)
        """What is predicted, in nats."""
        self.second = sum(run.value for run in self.corrupt) if self.corrupt else float("nan")
        """The same in the second prompt; NaN without one."""
        self.log_probability = self.clean[0].log_probability
        """Log-probability of the target."""

    @property
    def num_rows(self) -> int:
        """Number of rows of tokens that are read."""
        return len(self.clean)

    def of_second(self, row: int) -> Outputs:
        """Outputs of heads in the second prompt, at the places of the tokens of a row."""
        return aligned(self._case.rows[row], self.corrupt[row].outputs)

    def of_first(self, row: int) -> Outputs:
        """Outputs of heads in the prompt, at the places of the tokens of its second one's row."""
        assert self._case.corrupt is not None
        return aligned(self._case.corrupt[row], self.clean[row].outputs)

    def differences(self) -> list[Outputs]:
        """Outputs of heads less those in the second prompt, by row."""
        pairs = [(run.outputs, self.of_second(row)) for row, run in enumerate(self.clean)]
        return [
            {layer: each - there[layer] for layer, each in here.items()} for here, there in pairs
        ]

    @cached_property
    def slopes(self) -> list[Outputs]:
        """The gradient of what is predicted at the outputs of heads, by row."""
        return [gradients(self._loaded, row) for row in self._case.rows]

    def integrated(self, steps: int) -> list[Outputs]:
        """The mean of these slopes on the way from the second prompt's embeddings, by row."""
        assert self._case.corrupt is not None
        pairs = zip(self._case.rows, self._case.corrupt, strict=True)
        return [integrated(self._loaded, row, other, steps) for row, other in pairs]

    def relevances(self) -> list[Outputs]:
        """The same under LRP's rules, by row."""
        return [relevances(self._loaded, row) for row in self._case.rows]

    def along(
        self, directions: Sequence[Outputs], slopes: Sequence[Outputs] | None = None
    ) -> Attribution:
        """Slopes at the outputs of heads, by default the gradient, times directions, by row."""
        heads = dict[LayerId, Float[np.ndarray, " _"]]()
        triples = zip(self._case.rows, slopes or self.slopes, directions, strict=True)
        for row, slope, direction in triples:
            heads = added(heads, products(at_tokens(slope, row.at), direction))
        return Attribution(heads)

    def attribution(self) -> Attribution | None:
        """Direct attribution to heads and to other parts; None if it is not exact."""
        total = Attribution({}, {}, 0.0)
        for row in self._case.rows:
            found = attribute(self._loaded, row)
            if found is None:
                return None
            total += found
        return total

    def changed(
        self,
        sets: Sequence[Sequence[Head]],
        outputs: Sequence[Outputs | None],
        second: bool = False,
    ) -> tuple[float, Float[np.ndarray, " set"]]:
        """What is predicted, and what is if each of some sets of heads is replaced.

        Args:
            sets: sets of heads.
            outputs: what takes the place of their outputs in each row; None blocks their looks.
            second: whether they are replaced in the second prompt.
        """
        runs, rows = self.clean, self._case.rows
        if second:
            assert self._case.corrupt is not None
            runs, rows = self.corrupt, self._case.corrupt
        after_S = np.zeros(len(sets))
        for run, row, each in zip(runs, rows, outputs, strict=True):
            after_S += run.values([Change(heads, each, row.at) for heads in sets])
        return self.second if second else self.value, after_S


def mean_outputs(loaded: Loaded, rows: Sequence[Row]) -> Outputs:
    """The mean output of every head over all tokens of some rows."""
    sums, counts = dict[LayerId, Tensor](), dict[LayerId, int]()

    def add(layer: AttentionLayer, output_BQHD: Tensor) -> None:
        here_QHD = output_BQHD[0].double()
        sums[layer.layer_id] = sums.get(layer.layer_id, 0) + here_QHD.sum(0, keepdim=True)
        counts[layer.layer_id] = counts.get(layer.layer_id, 0) + len(here_QHD)

    body = loaded.model.base_model
    with evaluating(loaded.model), torch.inference_mode():
        with heard(loaded.model, loaded.anatomy, head_outputs=add):
            for row in rows:
                body(**row.inputs(loaded), **without_cache(body))
    return {layer: sum_1HD / counts[layer] for layer, sum_1HD in sums.items()}
