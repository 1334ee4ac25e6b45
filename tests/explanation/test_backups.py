"""Backups: heads that do more when another one is out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headcount.core import Head, InputError
from headcount.explanation import BackupRow, ExplainOptions, explain
from headcount.explanation.backups import KEPT
from headcount.explanation.reader import Reader
from headcount.pages import document_of
from headcount.results import select
from tests.explanation.test_circuits import PROMPTS
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

OPTIONS = ExplainOptions(effects=("zero",), together=(1,), draws=1, reasons=0, backups=2)


@pytest.mark.slow
def test_gains_are_those_of_hooks_with_both_heads_out() -> None:
    """For the two best heads, the three others whose effect grows most towards theirs."""
    held = loaded("LlamaForCausalLM")
    found = explain(held, PROMPTS[:4], options=OPTIONS)
    rows = [Reader(held, OPTIONS).case(each).rows for each in PROMPTS[:4]]
    heads = [*held.heads]

    def predicted(out: list[Head]) -> np.ndarray:
        values = []
        for of_prompt in rows:
            total = 0.0
            for row in of_prompt:
                inputs = row.inputs(held)
                zeros = {
                    key: torch.zeros_like(each)
                    for key, each in book.head_inputs(held.model, inputs).items()
                }

                def read(logits: torch.Tensor, readings: object = row.readings) -> float:
                    log = logits.log_softmax(-1)
                    return sum(
                        each.sign * float(log[each.place, each.token])
                        for each in readings  # type: ignore[attr-defined]
                    )

                places = [(head.site, head.layer, head.index) for head in out]
                total += book.without(held.model, inputs, places, zeros, read)
            values.append(total)
        return np.array(values)

    whole = predicted([])
    alone = {head: whole - predicted([head]) for head in heads}
    best = sorted(heads, key=lambda head: -abs(alone[head].mean()))[:2]
    assert list(dict.fromkeys(row.head for row in found.backups)) == [*map(str, best)]
    for head in best:
        gains = {
            other: (whole - predicted([head, other])) - alone[head] - alone[other]
            for other in heads
            if other != head
        }
        sign = np.sign(alone[head].mean())
        expected = sorted(gains, key=lambda each: -sign * gains[each].mean())[:KEPT]
        here = select(found.backups, head=str(head))
        assert [row.backup for row in here] == [
            str(each) for each in expected if sign * gains[each].mean() > 0
        ]
        for row in here:
            other = Head.parse(row.backup)
            assert row.value == pytest.approx(gains[other].mean(), abs=1e-4)
            assert row.alone == pytest.approx(alone[other].mean(), abs=1e-4)
            assert np.isnan([row.low, row.p]).all(), "four prompts have no interval"
    certain = BackupRow("dec.1.0", "dec.1.3", "zero", 0.1, 0.5, 0.4, 0.6, 0.01)
    said = document_of(replace(found, backups=(*found.backups, certain))).markdown()
    assert "dec.1.3 for dec.1.0." in said
    assert "None is beyond chance." in document_of(found).markdown()


def test_backups_need_a_replacement() -> None:
    options = replace(OPTIONS, effects=("attribution",))
    with pytest.raises(InputError, match="replaces heads for --backups, got attribution"):
        explain(loaded("LlamaForCausalLM"), PROMPTS[:1], options=options)
