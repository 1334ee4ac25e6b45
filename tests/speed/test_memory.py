"""Memory: the peak of a call, to the byte."""

import math

import torch

from headcount.speed import peak_bytes
from headcount.speed.inputs import forward
from tests.examined import examined

CPU = torch.device("cpu")


def test_what_is_held_at_a_time_is_added_up() -> None:
    """3,000 floats, then 5,000 more, then 7,000 after both are freed; the peak is 8,000."""

    def work() -> torch.Tensor:
        first = torch.empty(3000)
        second = torch.empty(5000)
        del first, second
        return torch.empty(7000)

    assert peak_bytes(work, CPU) == 4 * 8000


def test_what_was_there_is_not_counted() -> None:
    held = [torch.empty(9000)]

    def work() -> torch.Tensor:
        return held[0].zero_()

    assert peak_bytes(work, CPU) == 0


def test_a_forward_holds_its_logits_and_more_rows_more() -> None:
    model, _ = examined("bert")
    peaks = [peak_bytes(forward(model, torch.full((rows, 13), 7), 0), CPU) for rows in (1, 3)]
    assert peaks[0] >= 4 * 13 * model.config.vocab_size and peaks[1] > 2 * peaks[0]
    assert peaks == [
        peak_bytes(forward(model, torch.full((rows, 13), 7), 0), CPU) for rows in (1, 3)
    ]


def test_devices_that_cannot_tell() -> None:
    assert math.isnan(peak_bytes(lambda: None, torch.device("meta")))
