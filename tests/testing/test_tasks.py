"""Our own tasks run the checks that plug-ins run."""

import pytest

from headcount.testing import checked
from tests.tasks import loaded as small
from tests.turns import slow

KINDS = ("words-bert", "numbers", "choice-gpt2", "classes-bart", "causal-llama", "similarity-bert")


@pytest.mark.once
@pytest.mark.parametrize("name", [*KINDS, "masked-roberta", *slow("translation-Marian")])
def test_a_task(name: str) -> None:
    loaded, task = small.TASKS[name]()
    checked(task, model=loaded).raise_failed()
