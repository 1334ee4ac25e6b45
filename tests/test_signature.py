"""A model is known by its parameters, wherever it came from."""

import torch

from headcount.signature import measured_revision, revision, signature
from tests import tiny


def test_a_copy_that_learned_is_another_model() -> None:
    model = tiny.MODELS["bert"]()
    before = revision(model)
    model.config._commit_hash = "f" * 40  # some versions of transformers set it, copies keep it
    assert revision(model) == before == measured_revision(signature(model, "0" * 64))
    with torch.no_grad():
        next(model.parameters()).view(-1)[3] += 1e-3
    assert revision(model) != before
