"""A small model of pictures and words that does its task: shapes and a digit, and questions.

No package ships a trained vision-language model that is small enough for tests of what heads mean,
so this makes one, with its processor and data, in about 40 minutes of one core: a SigLIP tower of
four layers over 6 x 6 patches, and a Llama of four layers in LLaVA's frame.

    python benchmarks/shapes_and_words.py FOLDER

writes FOLDER/model, which `headcount.load` reads; FOLDER/captions.jsonl, chats about pictures; and
FOLDER/color.jsonl, FOLDER/place.jsonl, FOLDER/count.jsonl and FOLDER/digit.jsonl, questions with
their answers. Each shape or digit that a caption or a question names is linked to its box.
FOLDER/choices.jsonl holds the questions with all answers that they can have. At the end it prints
how many it answers rightly, with a 95 % interval.
"""

import json
import math
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

SIDE, PATCH, CELL = 48, 8, 16
"""Pixels of a picture, a patch, and a place for a shape."""
COLORS = {
    "red": (220, 40, 40),
    "green": (40, 190, 60),
    "blue": (50, 80, 230),
    "yellow": (230, 210, 40),
    "pink": (240, 120, 200),
}
SHAPES = ("circle", "square", "triangle", "cross", "ring")
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
NUMBERS = ("one", "two", "three", "four")
DIGITS = {
    "0": "111 101 101 101 111",
    "1": "010 110 010 010 111",
    "2": "111 001 111 100 111",
    "3": "111 001 111 001 111",
    "4": "101 101 111 001 001",
    "5": "111 100 111 001 111",
    "6": "111 100 111 101 111",
    "7": "111 001 010 010 010",
    "8": "111 101 111 101 111",
    "9": "111 101 111 001 111",
}
"""Rows of the squares of which digits are made, each `DOT` pixels wide."""
DOT = 3
CHOICES = {
    "color": [*COLORS],
    "place": [f"{row} {column}" for row in ROWS for column in COLUMNS],
    "count": [*NUMBERS],
    "digit": [*DIGITS],
}
"""Answers that questions of a kind can have."""
WORDS = (*COLORS, *SHAPES, *ROWS, *COLUMNS, *NUMBERS, *DIGITS)
WORDS += ("describe", "what", "color", "is", "the", "where", "how", "many", "shapes", "digit")
WORDS += ("?", ",", ".")
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<user>", "<assistant>")
STEPS, BATCH, RATE = 4000, 64, 2e-3
TEMPLATE = (
    "<s>{% for message in messages %}<{{ message['role'] }}>"
    "{% if message['content'] is string %} {{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %} {{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% if message['role'] == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


Named = tuple[str, tuple[int, int, int, int]]
"""What a question names, and where it is."""


@dataclass(frozen=True)
class Shape:
    """A shape in a picture."""

    name: str
    color: str
    row: int
    column: int
    box: tuple[int, int, int, int]
    """Left, top, right and bottom, in pixels."""

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"{ROWS[self.row]} {COLUMNS[self.column]}"


@dataclass(frozen=True)
class Scene:
    """What a picture shows."""

    shapes: list[Shape]
    digit: str
    box: tuple[int, int, int, int]
    """Left, top, right and bottom of the digit, in pixels."""


def scene(rng: random.Random) -> tuple[Image.Image, Scene]:
    """A picture of one to four shapes that differ in kind and place, and of a white digit."""
    image = Image.new("RGB", (SIDE, SIDE), tuple(rng.randrange(0, 40) for _ in range(3)))
    draw, shapes = ImageDraw.Draw(image), list[Shape]()
    number = rng.randint(1, len(NUMBERS))
    *cells, last = rng.sample(range(9), number + 1)
    for name, cell in zip(rng.sample(SHAPES, number), cells, strict=True):
        row, column = divmod(cell, 3)
        size = rng.randint(11, 14)
        left, top = (CELL * at + rng.randint(0, CELL - size - 1) for at in (column, row))
        box = (left, top, left + size, top + size)
        color = rng.choice([*COLORS])
        _draw(draw, name, box, tuple(each + rng.randint(-15, 15) for each in COLORS[color]))
        shapes.append(Shape(name, color, row, column, box))
    digit = rng.choice([*DIGITS])
    left, top = CELL * (last % 3) + rng.randint(2, 5), CELL * (last // 3) + rng.randint(0, 1)
    return image, Scene(shapes, digit, _draw_digit(draw, digit, left, top))


def _draw_digit(draw: Any, digit: str, left: int, top: int) -> tuple[int, int, int, int]:
    for y, row in enumerate(DIGITS[digit].split()):
        for x, dot in enumerate(row):
            if dot == "1":
                at = left + DOT * x, top + DOT * y
                draw.rectangle((*at, at[0] + DOT - 1, at[1] + DOT - 1), fill=(245, 245, 245))
    return left, top, left + 3 * DOT, top + 5 * DOT


def _draw(draw: Any, name: str, box: tuple[int, int, int, int], fill: tuple[int, ...]) -> None:
    left, top, right, bottom = box
    middle, center, third = (left + right) // 2, (top + bottom) // 2, (right - left) // 3
    if name == "circle":
        draw.ellipse(box, fill=fill)
    elif name == "ring":
        draw.ellipse(box, outline=fill, width=2)
    elif name == "square":
        draw.rectangle(box, fill=fill)
    elif name == "triangle":
        draw.polygon([(left, bottom), (right, bottom), (middle, top)], fill=fill)
    else:
        draw.rectangle((left, center - third // 2, right, center + third // 2), fill=fill)
        draw.rectangle((middle - third // 2, top, middle + third // 2, bottom), fill=fill)


def caption(shapes: list[Shape]) -> str:
    """What is in a picture, without its digit."""
    return " , ".join(f"{each.name} {each.color} {each.place}" for each in shapes) + " ."


def questions(shown: Scene, rng: random.Random) -> dict[str, tuple[str, str, list[Named]]]:
    """A question of each kind about a picture, its answer, and what it names, with its box."""
    one, two = rng.choice(shown.shapes), rng.choice(shown.shapes)
    return {
        "color": (f"what color is the {one.name} ?", one.color, [(one.name, one.box)]),
        "place": (f"where is the {two.name} ?", two.place, [(two.name, two.box)]),
        "count": ("how many shapes ?", NUMBERS[len(shown.shapes) - 1], []),
        "digit": ("what is the digit ?", shown.digit, [("digit", shown.box)]),
    }


def processor() -> Any:
    """The processor: words are tokens."""
    tokenizer = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate((*SPECIAL, *WORDS))}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<image>", "<user>", "<assistant>"],
        model_max_length=128,
    )
    size = {"height": SIDE, "width": SIDE}
    return transformers.LlavaProcessor(
        image_processor=transformers.SiglipImageProcessorPil(size=size),
        tokenizer=fast,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE,
    )


def model() -> Any:
    """The model, of random weights."""
    vision = transformers.SiglipVisionConfig(
        image_size=SIDE,
        patch_size=PATCH,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        vision_use_head=False,
    )
    text = transformers.LlamaConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=SPECIAL.index("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_seq_length=(SIDE // PATCH) ** 2,
        tie_word_embeddings=True,
    )
    return transformers.LlavaForConditionalGeneration(config)


def example(rng: random.Random, ids: dict[str, int]) -> tuple[Image.Image, list[int], list[bool]]:
    """A picture, the tokens of a chat about it, and which of them are to be predicted."""
    image, shown = scene(rng)
    found = [pair[:2] for pair in questions(shown, rng).values()]
    rng.shuffle(found)
    found = found[: rng.randint(1, 4)]
    if rng.random() < 0.5:  # last, since it answers most questions
        found.append(("describe", caption(shown.shapes)))
    tokens, said = ["<s>"], [False]
    for number, (question, answer) in enumerate(found):
        asked = ["<user>", *(["<image>"] * (SIDE // PATCH) ** 2 if number == 0 else [])]
        asked += [*question.split(), "<assistant>"]
        answered = [*answer.split(), "</s>"]
        tokens += asked + answered
        said += [False] * len(asked) + [True] * len(answered)
    return image, [ids[each] for each in tokens], said


def batch(rng: random.Random, reader: Any, ids: dict[str, int]) -> dict[str, Tensor]:
    """Some examples, as the model takes them."""
    images, tokens, said = zip(*(example(rng, ids) for _ in range(BATCH)), strict=True)
    longest = max(map(len, tokens))
    ids_BN = torch.zeros(BATCH, longest, dtype=torch.long)
    labels_BN = torch.full((BATCH, longest), -100)
    for row, (its, is_said) in enumerate(zip(tokens, said, strict=True)):
        ids_BN[row, : len(its)] = torch.tensor(its)
        labels_BN[row, : len(its)] = torch.where(torch.tensor(is_said), torch.tensor(its), -100)
    pixels = reader.image_processor([*images], return_tensors="pt")["pixel_values"]
    is_token_BN = (ids_BN > 0).long()
    names = ("input_ids", "attention_mask", "pixel_values", "labels")
    return dict(zip(names, (ids_BN, is_token_BN, pixels, labels_BN), strict=True))


def train(net: Any, reader: Any, folder: Path, steps: int) -> None:
    """Train a model on new pictures in every step, and save it now and then."""
    ids, rng = reader.tokenizer.get_vocab(), random.Random(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda n: min(1, (n + 1) / 200) * 0.5 * (1 + math.cos(math.pi * min(1, n / steps))),
    )
    start = time.perf_counter()
    for step in range(steps):
        loss = net(**batch(rng, reader, ids)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rate.step()
        if step % 100 == 0:
            spent = time.perf_counter() - start
            print(f"step {step}: loss {loss.item():.3f}, {spent:.0f} s", flush=True)
        if step % 500 == 0:
            save(net, reader, folder)


def save(net: Any, reader: Any, folder: Path) -> None:
    """Save a model and its processor."""
    net.save_pretrained(folder / "model")
    reader.save_pretrained(folder / "model")


def chat(image: str, question: str, answer: str) -> list[dict[str, Any]]:
    """A chat about a picture."""
    parts = [{"type": "image", "image": image}, {"type": "text", "text": question}]
    return [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]


def write(folder: Path, number: int, seed: int = 1) -> None:
    """Write pictures with captions, links and questions."""
    rng, rows = random.Random(seed), dict[str, list[dict[str, Any]]]()
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for n in range(number):
        image, shown = scene(rng)
        name = f"pictures/{n:04}.png"
        image.save(folder / name)
        named = [(each.name, each.box) for each in shown.shapes]
        told = {"captions": ("describe", caption(shown.shapes), named)}
        for kind, (question, answer, named) in {**told, **questions(shown, rng)}.items():
            links = [{"name": "place", "phrase": one, "boxes": [box]} for one, box in named]
            row = {"messages": chat(name, question, answer)} | ({"links": links} if named else {})
            rows.setdefault(kind, []).append(row)
            if kind in CHOICES:
                asked = {"image": name, "prompt": question, "choices": CHOICES[kind]}
                rows.setdefault("choices", []).append(asked | {"answer": answer})
    for kind, its in rows.items():
        lines = (json.dumps(row) + "\n" for row in its)
        (folder / f"{kind}.jsonl").write_text("".join(lines), encoding="utf-8")


@torch.inference_mode()
def right(net: Any, reader: Any, file: Path) -> tuple[int, int]:
    """Number of answers of which every token is the likeliest one, and of all."""
    rows, hits = file.read_text(encoding="utf-8").splitlines(), 0
    for line in rows:
        user, answer = json.loads(line)["messages"]
        prompt = reader.apply_chat_template([user], add_generation_prompt=True)
        image = Image.open(file.parent / user["content"][0]["image"])
        inputs = reader(images=image, text=f"{prompt} {answer['content']}", return_tensors="pt")
        length = len(answer["content"].split())
        guess = net(**inputs).logits[0, -length - 1 : -1].argmax(-1)
        hits += guess.equal(inputs["input_ids"][0, -length:])
    return hits, len(rows)


def interval(hits: int, number: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, square = hits / number, 1.96**2
    middle = share + square / (2 * number)
    half = 1.96 * math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    return (middle - half) / (1 + square / number), (middle + half) / (1 + square / number)


def main(folder: Path, steps: int = STEPS) -> None:
    """Train, save, and write data and how well it does."""
    torch.manual_seed(0)
    net, reader = model(), processor()
    write(folder, 400)
    train(net, reader, folder, steps)
    save(net.eval(), reader, folder)
    for kind in ("color", "place", "count", "digit"):
        hits, number = right(net, reader, folder / f"{kind}.jsonl")
        low, high = interval(hits, number)
        print(f"{kind}: {hits / number:.1%} right ({low:.1%} to {high:.1%}, {number} questions)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
