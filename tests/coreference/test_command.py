"""`headcount coreference` from documents to a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headcount.coreference import Coreference
from headcount.coreference import selecting as coreference
from headcount.coreference.antecedents import Window
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")

TEXT = """\
#begin document (d{0}); part 000
d{0} 0 0 The DT (1
d{0} 0 1 dog NN 1)
d{0} 0 2 saw VBD -
d{0} 0 3 Ann NNP (2)
d{0} 0 4 . . -

d{0} 0 0 It PRP (1)
d{0} 0 1 barked VBD -
#end document
"""


@pytest.mark.slow
def test_a_table_and_a_record(bert: Path, tmp_path: Path) -> None:
    corpus, out = tmp_path / "a.conll", tmp_path / "out"
    corpus.write_text(TEXT.format(0) + TEXT.format(1))
    status, output, errors = headcount("coreference", bert, corpus, "--out", out)
    assert status == 0, errors
    assert "2 mentions of 2 documents" in output and "in 2 windows" in output
    table = pd.read_parquet(out / "coreference.parquet")
    assert list(table) == "head kind accuracy low high cases nearest head_match rules".split()
    assert set(table["kind"]) == {"all", "pronoun"}
    found = Coreference.read(out)
    assert found.record.signature[:40] in output and len(found.record.best) == 2
    document = (out / "coreference.md").read_text(encoding="utf-8")
    assert found.record.signature in document and "](figures/coreference.svg)" in document
    assert (out / "figures" / "coreference_kinds.svg").exists()
    status, _, errors = headcount("coreference", bert, corpus, "--out", out)
    assert status == 2 and "Give --resume to resume it, --overwrite to replace it" in errors
    status, _, errors = headcount("coreference", bert, "--out", tmp_path / "b")
    assert status == 2 and "Expected a corpus, got nothing." in errors


def test_gap_s_questions_are_answered(bert: Path, tmp_path: Path) -> None:
    header = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    row = ["d", "Ann met Eve . She left", "She", "14", "Ann", "0", "TRUE", "Eve", "8", "FALSE", "u"]
    corpus, out = tmp_path / "gap.tsv", tmp_path / "out"
    corpus.write_text("\n".join("\t".join(each) for each in (header, row, row)) + "\n")
    status, output, errors = headcount("coreference", bert, corpus, "--out", out)
    assert status == 0, errors
    assert "Which of two names a pronoun means (GAP)" in output and "feminine" in output
    assert set(pd.read_parquet(out / "coreference_names.parquet")["gender"]) == {"all", "feminine"}


@pytest.mark.slow
def test_an_interrupted_command_resumes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = tmp_path / "a.conll", tmp_path / "out"
    corpus.write_text("".join(map(TEXT.format, range(4))))
    given = (bert, corpus, "--max-tokens", 1, "--out")
    status, whole, errors = headcount("coreference", *given, tmp_path / "whole")
    assert status == 0, errors
    with monkeypatch.context() as patch:
        right, calls = coreference.are_right, list[int]()

        def dying(weights_HMM: torch.Tensor, window: Window) -> np.ndarray:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return right(weights_HMM, window)

        patch.setattr(coreference, "are_right", dying)
        status, _, errors = headcount("coreference", *given, out)
        assert status == 130 and not (out / "coreference.json").exists()
    status, _, errors = headcount("coreference", *given, out)
    assert status == 2 and "--resume" in errors
    status, _, errors = headcount("coreference", *given, out, "--resume", "--seed", 3)
    assert status == 2, "other options"
    status, output, errors = headcount("coreference", *given, out, "--resume")
    assert status == 0, errors
    assert output.replace(str(out), "") == whole.replace(str(tmp_path / "whole"), "")
    assert not (out / "state" / "coreference").exists()
