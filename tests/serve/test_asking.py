"""What a browser may send becomes a question."""

import json

from headcount.core import Heads
from headcount.serve.live_model import parse_question


def test_gates_of_1_change_nothing_and_others_are_kept() -> None:
    gates = {"enc.0.0": 1, "enc.0.1": 0, "enc.0.2": 0.5, "L0H3": 2}
    heads = Heads({"encoder.self": (4,)})
    asked = parse_question(json.dumps({"text": "A dog.", "gates": gates}).encode(), heads)
    assert asked.gates == {"enc.0.1": 0, "enc.0.2": 0.5, "enc.0.3": 2}
