"""What a run does with an earlier one in its folder."""

from pathlib import Path

import pytest

from headcount.core import InputError, ResumePolicy, check_no_earlier_run


def test_resume_policy(tmp_path: Path) -> None:
    assert ResumePolicy.of(resume=False, overwrite=False) is ResumePolicy.REFUSE
    assert ResumePolicy.of(resume=True, overwrite=False) is ResumePolicy.RESUME
    assert ResumePolicy.of(resume=False, overwrite=True) is ResumePolicy.OVERWRITE
    with pytest.raises(InputError, match="Expected one of --resume and --overwrite, got both"):
        ResumePolicy.of(resume=True, overwrite=True)
    with pytest.raises(InputError, match="holds an earlier run. Give --resume to resume it"):
        check_no_earlier_run(tmp_path, "an earlier run", ResumePolicy.REFUSE)
    for policy in (ResumePolicy.RESUME, ResumePolicy.OVERWRITE):
        check_no_earlier_run(tmp_path, "an earlier run", policy)
