"""Fields of a dataclass as text: what they are converted to, and refusals."""

import pytest

from headcount.commands.data_arguments import field_values
from headcount.core import InputError


def test_values_have_the_types_of_their_fields() -> None:
    from headcount.training import FinetuneConfig

    given = ["updates=7", "peak=1e-3", "trained=encoder", "dropout=none"]
    found = {"updates": 7, "peak": 0.001, "trained": "encoder", "dropout": None}
    assert field_values(FinetuneConfig, given) == found
    assert field_values(FinetuneConfig, ["dropout=0"]) == {"dropout": 0.0}


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("update=7", "with a NAME out of batch_tokens, .*got 'update=7'. Did you mean updates"),
        ("updates", "Expected NAME=VALUE"),
        ("updates=x", "Expected a whole number for updates, got 'x'"),
        ("trained=y", "Expected one of all, encoder, gates for trained, got 'y'"),
        ("dropout=q", "Expected a number or none for dropout, got 'q'"),
    ],
)
def test_bad_values(option: str, sentence: str) -> None:
    from headcount.training import FinetuneConfig

    with pytest.raises(InputError, match=sentence):
        field_values(FinetuneConfig, [option])
