r"""Ablation: the head whose loss is missed least goes first; greedy, measured anew as heads go.

$$h_1, h_2, \ldots: \quad h_n = \operatorname{arg\,min}_h L(\text{without } h_1 \ldots h_{n-1}, h)$$

With a step of 0 every head is measured anew after each that goes, which is the formula: as many
sweeps as heads. With a step of 0.1, the default, ten sweeps.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.2 (pruning by
score difference, measured once), https://arxiv.org/abs/1905.10650. The sweep: importance/sweep.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from headcount.heads import Place
from headcount.importance.scores import Scores
from headcount.importance.sweep import Ablation, sweep
from headcount.pruning.budget import Unit
from headcount.pruning.method import Setting
from headcount.pruning.stepwise import Stepwise


@final
@dataclass(frozen=True)
class Greedy(Stepwise):
    """Ascending rise of the loss without each unit, by itself, among those left."""

    name: ClassVar[str] = "ablation"
    step: float = 0.1

    def scores(self, setting: Setting, left: Sequence[Unit]) -> Scores:
        """How much the loss rises without each unit; NaN for heads that stay or have gone."""
        loaded = setting.loaded
        ablations = [Ablation("+".join(map(str, unit)), unit) for unit in left]
        swept = sweep(
            loaded.model, setting.sample, ablations, anatomy=loaded.anatomy,
            max_tokens=setting.max_tokens,
            progress=lambda done, total: setting.progress(f"without {len(left)}", done, total),
        )  # fmt: skip
        scores: dict[Place, torch.Tensor] = {}
        for number, unit in enumerate(left):
            rise = swept.evaluation(number).loss - swept.base.loss
            for head in unit:
                blank = torch.full((loaded.heads.counts[head.site][head.layer],), torch.nan)
                place_scores = scores.setdefault((head.site, head.layer), blank.double())
                place_scores[head.index] = rise
        return scores
