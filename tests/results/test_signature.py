"""A signature says what a number was measured with, and is read back from its string."""

import pytest

from headcount.core import InputError
from headcount.results import Signature

TEXT = "headcount:0.1.0|model:bert|revision:86741b4e3f53|task:translation|metric:nrefs:1|v2|dtype:f"


def test_a_signature_is_read_back() -> None:
    signature = Signature.parse(TEXT)
    assert str(signature) == TEXT
    assert signature.revision == "86741b4e3f53" and signature.get("seed") is None
    assert signature.get("metric") == "nrefs:1|v2", "a metric's own signature has bars, too"


def test_parts_that_are_none_are_left_out() -> None:
    assert str(Signature.of(model="bert", seed=None, n=3)) == "model:bert|n:3"


def test_other_text_is_no_signature() -> None:
    with pytest.raises(InputError, match="Expected a signature such as .*, got 'a novel'"):
        Signature.parse("a novel")
