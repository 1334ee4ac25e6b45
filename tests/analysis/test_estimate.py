"""Estimates: counts that come out as those of the whole, and what each process and all share."""

from pathlib import Path

import pytest

from headcount import Corpus, load
from headcount.analysis import Estimate, Options, analyze, estimate
from headcount.core import InputError, Table
from tests.commanding import headcount
from tests.corpora.test_streams import Files

pytestmark = pytest.mark.usefixtures("quick")

TEXTS = [f"the dog {'barks ' * (number % 7)}." for number in range(300)]


def test_the_table_of_processes() -> None:
    """What is shared is divided, what is not is added; memory is that of all."""
    found = Estimate(10, 1000, 100, 2, alone_s=3600.0, shared_s=7200.0, memory=2 * 10**9)
    assert [found.seconds(number) for number in (1, 2, 4)] == [10800.0, 7200.0, 5400.0]
    table = found.document().blocks[-1]
    assert isinstance(table, Table)
    assert [*table.rows[1]] == ["2", "2.0000", "4.0000", "4.00 GB"]
    assert "10 texts, 1,000 tokens, 2 passes of the model" in found.document().markdown()


@pytest.mark.slow
def test_counts_are_those_of_the_whole(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From texts that are spread evenly over the corpus, which is not measured as a whole."""
    loaded, options = load(bert), Options(max_tokens=64, pool=50)
    corpus = Corpus(TEXTS)
    whole = analyze(loaded, corpus, options).record.counts
    found = estimate(loaded, corpus, options)
    assert found.sentences == whole.sentences == 300
    assert found.tokens == pytest.approx(whole.tokens, rel=0.05)
    assert found.measured < 0.6 * whole.tokens and found.passes == 1 and found.memory
    half = estimate(loaded, corpus, Options(max_tokens=64, pool=50, limit_tokens=found.tokens // 2))
    assert half.tokens == pytest.approx(found.tokens / 2, rel=0.01)
    stream = Corpus(Files([[{"text": text}] for text in TEXTS[:160]]).stream())
    found = estimate(loaded, stream, options)
    assert found.sentences == 160 and 0.5 < found.tokens / (whole.tokens * 160 / 300) < 2
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="Expected one process for an estimate, got several. Run"):
        estimate(loaded, corpus, options)


def test_the_command_prints_and_writes_nothing(bert: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_text("\n".join(TEXTS[:40]))
    status, printed, errors = headcount("analyze", bert, path, "--estimate", "--out", out)
    assert status == 0, errors
    assert "40 texts" in printed and "processes" in printed and not out.exists()
    status, _, errors = headcount("analyze", bert, path, "--estimate", "--json")
    assert status == 2 and "Expected a command that writes a record" in errors
