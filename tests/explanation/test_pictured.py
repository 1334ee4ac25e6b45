"""Prompts with pictures: effects are those of the stock model on what its own processor makes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headcount import Loaded
from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import PICTURE
from headcount.explanation import Explained, ExplainOptions, Prompt, explain, read_prompts
from headcount.explanation.blocks import Blocks
from headcount.explanation.reader import Reader
from tests import tiny_pictures as tiny
from tests.textbook import explanation as book

pytestmark = pytest.mark.filterwarnings("ignore:.*saw no image")
SLOW = ("qwen", "qwen3", "idefics", "internvl", "gemma")
KINDS = ["llava", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]
ASKED, RIGHT, WRONG = "what is it ?", " the dog", " a cat"
HEADS = ("dec.0.1", "dec.1.2")


def pictures(folder: Path, size: tuple[int, int] = (23, 17)) -> list[str]:
    return [tiny.picture(folder / f"{n}.png", size, seed=n) for n in range(2)]


def row(folder: Path) -> dict[str, Any]:
    """A prompt beside a picture, and beside another one."""
    first, second = pictures(folder)
    asked = {"image": first, "prompt": ASKED, "target": RIGHT, "against": WRONG}
    return asked | {"corrupt_image": second}


def stock_inputs(loaded: Loaded, path: str, answer: str) -> dict[str, Tensor]:
    """What the processor makes of a chat, and the tokens of an answer but the last behind it."""
    processor: Any = loaded.processor
    content = [{"type": "image"}, {"type": "text", "text": ASKED}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    answered = f"{text} {answer.split()[0]}"
    return dict(processor(text=[answered], images=[[tiny.opened(path)]], return_tensors="pt"))


class _Asked:
    """What is predicted beside each of two pictures: a row for the target, one for its rival."""

    def __init__(self, loaded: Loaded, paths: list[str]) -> None:
        self.model: Any = loaded.model
        self.rows = [
            [stock_inputs(loaded, path, answer) for path in paths] for answer in (RIGHT, WRONG)
        ]
        self.ids = [[tiny.VOCABULARY[word] for word in each.split()] for each in (RIGHT, WRONG)]

    def value(self, which: int, head: str | None = None, effect: str = "zero") -> float:
        """What is predicted beside a picture, maybe with a head replaced."""
        total = 0.0
        for sign, ids, pair in zip((1, -1), self.ids, self.rows, strict=True):

            def read(logits_TV: Tensor, ids: list[int] = ids) -> float:
                log_TV = logits_TV.log_softmax(-1)
                return float(log_TV[-2, ids[0]] + log_TV[-1, ids[1]])

            given, instead = book.head_inputs(self.model, pair[1 - which]), {}
            for key, each in given.items():
                instead[key] = torch.zeros_like(each) if effect == "zero" else each
            at = [] if head is None else [("decoder.self", *map(int, head.split(".")[1:]))]
            total += sign * book.without(self.model, pair[which], at, instead, read)  # type: ignore[arg-type]
        return total


@pytest.mark.parametrize("kind", KINDS)
def test_effects_are_those_of_the_stock_model(kind: str, tmp_path: Path) -> None:
    loaded, prompts = tiny.loaded(kind), read_prompts([row(tmp_path)])
    effects = ("zero", "corrupt", "restored", "attribution")
    found = explain(loaded, prompts, options=ExplainOptions(effects=effects, together=()))
    stock = _Asked(loaded, pictures(tmp_path))
    assert found.record.value == pytest.approx(stock.value(0), abs=2e-5)
    assert found.record.second == pytest.approx(stock.value(1), abs=2e-5)
    for head in HEADS:
        for effect in effects[:3]:
            which = int(effect == "restored")
            expected = stock.value(which) - stock.value(which, head, effect)
            expected = -expected if which else expected
            assert found.of(effect)[head].value == pytest.approx(expected, abs=5e-5), effect
    assert found.of("corrupt")[HEADS[0]].value != pytest.approx(0, abs=1e-3)
    total = sum(each.value for each in found.of("attribution").values())
    assert total == pytest.approx(found.record.logit, abs=1e-4)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Explained:
    given = [row(tmp_path_factory.mktemp("pictures"))]
    options = ExplainOptions(key=PICTURE, effects=("estimate", "knockout"))
    return explain(tiny.loaded("llava"), read_prompts(given), options=options)


def test_a_picture_is_one_word(found: Explained, tmp_path: Path) -> None:
    """Which can be looked at, and knocked out: no head then gives its tokens any weight."""
    assert {each.looks_at for each in found.looks} <= {PICTURE, "what", "is", "it", "?"} | {
        "user", ":", "assistant"
    }  # fmt: skip
    loaded, options = tiny.loaded("llava"), ExplainOptions(key=PICTURE)
    case = Reader(loaded, options).case(read_prompts([row(tmp_path)])[0])
    look, mark = case.rows[0].look, tiny.VOCABULARY["<image>"]
    assert look is not None
    assert look.keys == tuple(n for n, each in enumerate(case.rows[0].ids) if each == mark)
    assert len(look.keys) == 16
    assert case.text.words.count(PICTURE) == 1
    is_special = dict(zip(case.text.words, case.text.is_special, strict=True))
    assert not is_special["what"] and not is_special[PICTURE] and is_special["assistant"]


def test_chats_say_the_same(tmp_path: Path) -> None:
    asked = row(tmp_path)
    parts = [{"type": "image", "image": asked.pop("image")}, {"type": "text", "text": ASKED}]
    chat = asked | {"prompt": [{"role": "user", "content": parts}]}
    reader = Reader(tiny.loaded("llava"), ExplainOptions())
    (one,), (other,) = read_prompts([chat]), read_prompts([row(tmp_path)])
    assert [each.ids for each in reader.case(one).rows] == [e.ids for e in reader.case(other).rows]
    assert one.prompt == other.prompt == other.corrupt == ASKED


def test_pictures_lie_beside_their_table(tmp_path: Path) -> None:
    asked = {
        name: Path(each).name if "image" in name else each for name, each in row(tmp_path).items()
    }
    (tmp_path / "prompts.jsonl").write_text(json.dumps(asked))
    (prompt,) = read_prompts(tmp_path / "prompts.jsonl")
    assert [each.path for each in prompt.pictures] == [tmp_path / "0.png", tmp_path / "1.png"]
    assert all(each.digest for each in prompt.pictures)


def test_prompts_on_one_picture_are_one_block(tmp_path: Path) -> None:
    asked = row(tmp_path)
    third = tiny.picture(tmp_path / "third.png", seed=9)
    others = [asked, asked | {"prompt": "where is it ?"}, asked | {"image": third}]
    others += [asked | {"image": third, "corrupt_image": third}]
    numbers = Blocks.of(read_prompts(others)).numbers.tolist()
    assert numbers == [0, 0, 0, 0]
    apart = {"prompt": ASKED, "target": RIGHT}
    two = [apart | {"image": asked["image"]}, apart | {"image": asked["corrupt_image"]}]
    assert Blocks.of(read_prompts(two)).numbers.tolist() == [0, 1]


def test_prompts_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    asked, options = row(tmp_path), ExplainOptions()

    def case(kind: str, **more: Any) -> None:
        (prompt,) = read_prompts([asked | more])
        Reader(tiny.loaded(kind), options).case(prompt)

    with pytest.raises(CorpusError, match="none.png: expected an image"):
        case("llava", image=str(tmp_path / "none.png"))
    with pytest.raises(ModelError, match="got tiny paligemma"):
        case("paligemma")
    long = tiny.picture(tmp_path / "long.png", (48, 17))
    with pytest.raises(InputError, match="second picture of as many tokens, got 6 and 12"):
        case("qwen", corrupt_image=long)
    with pytest.raises(InputError, match="expected an object with texts"):
        read_prompts([asked | {"target": 3}])
    assert isinstance(read_prompts([asked])[0], Prompt)
