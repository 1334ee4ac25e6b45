"""The export in 8 bits: what its score is, that the model is left alone, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from torch.nn.functional import cosine_similarity

from headcount.artifact import export, quantize, save_compact
from headcount.artifact.quantizing import running
from headcount.core import InputError, ModelError, Plan
from headcount.models import Loaded, load
from headcount.results import PruneRecord
from headcount.tasks import Similarity, evaluate
from tests.commanding import headcount
from tests.tasks import loaded as small

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compact encoder of texts with its export to ONNX."""
    out = tmp_path_factory.mktemp("int8") / "small"
    save_compact(small.loaded("BertModel"), Plan({"encoder.self": {0: (0,)}}), out)
    export(load(out), out)
    return out


def test_the_score_is_that_of_the_file(folder: Path) -> None:
    """Cosines by hand, from the outputs of ONNX Runtime for the same batches."""
    loaded = load(folder)
    task = Similarity(loaded, small.PAIRS)
    found = quantize(loaded, folder, task, ["data/pairs.csv"])
    assert "forward" not in vars(loaded.model)
    path = folder / "onnx" / "model_int8.onnx"
    assert found.bytes_after == path.stat().st_size < found.bytes_before
    session, cosines = onnxruntime.InferenceSession(path), np.zeros(task.num_examples)
    for batch in task.batches():
        given = {name: each.numpy() for name, each in batch.inputs.items()}
        given["token_type_ids"] = np.zeros_like(given["input_ids"])
        hidden = torch.from_numpy(session.run(["last_hidden_state"], given)[0])
        half = len(batch.index_E)
        for place, index in enumerate(batch.index_E.tolist()):
            first, second = (
                hidden[row][batch.inputs["attention_mask"][row].bool()].mean(0)
                for row in (place, half + place)
            )
            cosines[index] = float(cosine_similarity(first, second, dim=0))
    gold = np.array(small.PAIRS["score"]) / 5
    assert found.change.loss.after == pytest.approx(np.mean((cosines - gold) ** 2), rel=1e-4)
    dense = evaluate(loaded.model, task)
    assert found.change.loss.before == pytest.approx(dense.loss)
    assert found.change.loss.before != found.change.loss.after
    record = PruneRecord.read(folder)
    assert record.int8 == found and found.data == ("pairs.csv",)
    assert record.comparisons and all("int8" not in each.what for each in record.comparisons)
    assert "## In 8 bits, as onnx/model_int8.onnx" in (folder / "README.md").read_text()


def test_the_command(folder: Path, tmp_path: Path) -> None:
    """It prints what 8 bits cost, and a new export without them forgets the old file."""
    pairs = tmp_path / "pairs.csv"
    pd.DataFrame(small.PAIRS).to_csv(pairs, index=False)
    how = ("--to", "onnx", "--limit", 4)
    task = ("--int8", "--task", "similarity", "--test", pairs)
    status, output, errors = headcount("export", folder, *how, *task)
    assert status == 0, errors
    assert re.search(r"In 8 bits: [\d.]+ -> [\d.]+ MB; spearman", output), output
    assert PruneRecord.read(folder).int8 is not None
    assert f"Saved: {folder / 'onnx' / 'model_int8.onnx'}" in output
    assert headcount("export", folder, *how)[0] == 0
    assert PruneRecord.read(folder).int8 is None
    assert not (folder / "onnx" / "model_int8.onnx").exists()


def test_a_part_of_the_model_is_refused(folder: Path) -> None:
    """A task that runs the body alone would be measured without 8 bits."""
    loaded = load(folder)
    path = folder / "onnx" / "model.onnx"
    with pytest.raises(ModelError, match="runs all of BertModel, as the export does"):
        with running(loaded.model, path):
            pass
    assert "forward" not in vars(loaded.model)
    with pytest.raises(ModelError, match="give attention_mask, which the export reads"):
        with running(loaded.model, path), torch.no_grad():
            loaded.model(input_ids=torch.ones(1, 3, dtype=torch.long))


def test_without_an_export(tmp_path: Path) -> None:
    loaded: Loaded = small.loaded("BertModel")
    with pytest.raises(InputError, match="Export with --to onnx first"):
        quantize(replace(loaded), tmp_path, Similarity(loaded, small.PAIRS))


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (("--int8",), "Expected --task and --test beside --int8"),
        (("--int8", "--task", "none", "--test", "a"), "Expected a task (one of "),
        (("--task", "search"), "Only --int8 reads --task and --test"),
    ],
)
def test_what_is_refused(folder: Path, given: tuple[str, ...], reported: str) -> None:
    status, _, errors = headcount("export", folder, "--to", "onnx", *given)
    assert status == 2 and reported in errors


def test_int8_needs_onnx(folder: Path) -> None:
    given = ("--int8", "--task", "search", "--test", "a.tsv")
    status, _, errors = headcount("export", folder, "--to", "torch-export", *given)
    assert status == 2 and "Expected --to onnx beside --int8" in errors
