"""A translation model whose source vocabulary is smaller than the target's, from end to end."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headcount import load
from headcount.core import Plan
from headcount.results import Certificate
from tests import saved
from tests.commanding import PARALLEL, headcount


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No id of a target is one of the source vocabulary."""
    folder = saved.marian(tmp_path_factory.mktemp("separate") / "marian", unused_targets=300)
    config = load(folder).model.config
    assert config.vocab_size < 300 < config.decoder_vocab_size
    return folder


@pytest.mark.slow
def test_examine_importance_compact(model: Path, tmp_path: Path) -> None:
    from headcount.importance import COLUMNS

    loaded = load(model)
    assert loaded.heads.counts == dict.fromkeys(loaded.heads.counts, (3, 3))
    data = tmp_path / "data.tsv"
    lines = PARALLEL.read_text(encoding="utf-8").splitlines()[:8]
    data.write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    task = ("--task", "translation", "--data", data, "--no-layers", "--samples", 50)
    status, _, errors = headcount("importance", model, *task, "--out", tmp_path / "out")
    assert status == 0, errors
    table = pd.read_parquet(tmp_path / "out" / "heads.parquet")
    measured = [name for name in COLUMNS if name in table]
    assert np.isfinite(table[measured].to_numpy(dtype=float)).all() and "norm_score" in measured
    Plan({"encoder.self": {0: (1,)}, "decoder.cross": {0: (), 1: (0, 2)}}).write(tmp_path / "plan")
    run = ("--plan", tmp_path / "plan", "--data", PARALLEL, "--limit", 9)
    status, _, errors = headcount("compact", model, *run, "--out", tmp_path / "small")
    assert status == 0, errors
    certificate = Certificate.read(tmp_path / "small")
    assert {each.sentences for each in certificate.comparisons} == {9}
    found = load(tmp_path / "small").model
    sizes = [
        found.get_parameter(f"model.{side}.embed_tokens.weight") for side in ("encoder", "decoder")
    ]
    assert [len(each) for each in sizes] == [
        loaded.model.config.vocab_size,
        loaded.model.config.decoder_vocab_size,
    ]
