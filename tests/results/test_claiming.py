"""Whether probes may write into a folder, beside an analysis."""

from pathlib import Path

import pytest

from headcount.core import ResumePolicy, entries
from headcount.results import claim_beside
from tests.core.test_run_folder import KILLED, POLICIES


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["probes.json", "report.html", "state/probes/done.json"])
def test_a_half_written_file_is_no_hindrance(tmp_path: Path, policy: ResumePolicy, name: str):
    """As a process leaves that is killed while it writes."""
    from headcount.probing import Probed

    half = (tmp_path / name).with_name(f".{Path(name).name}.{KILLED}.part")
    half.parent.mkdir(parents=True, exist_ok=True)
    half.write_text("{")
    claim_beside(tmp_path, Probed, policy)
    assert not half.exists() and entries(tmp_path) == [tmp_path / "state"]
