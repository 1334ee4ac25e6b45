r"""Tiny models whose weights are set by hand, so that each head does what a program says.

The residual stream holds every number x twice, as x and -x, beside a large constant. So its mean is
zero and its size constant, and normalisation changes nothing. All heads write keys and values of
one form (bits of the token, its place, what heads that tell have written), also where heads share
them; a head is its query, and the bit that its output projection passes on. Places are cosines and
sines, in the position embeddings of a model that has them, and in the rotation of one that rotates.
There are no MLPs: their weights are zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, final

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast, ViTImageProcessorPil

from headcount.core import Head
from headcount.models import Loaded
from headcount.testing.alone import Pairs, Translation
from headcount.testing.architectures import (
    ARCHITECTURES,
    HEAD_DIM,
    POSITIONS,
    TURN,
    Architecture,
    Projections,
    sizes_of,
)
from headcount.testing.frames import BEGIN, UNTIMED, Frames, place
from headcount.testing.patches import CHANNELS, COLUMNS, ROWS, SIDE, Patches
from headcount.testing.programs import TELLING, Family, Planted, Program
from headcount.testing.tokens import BITS, GATE, PUNCTUATION, RARITY, SHARE, vocabulary, word

FREQUENCY = TURN ** np.arange(HEAD_DIM // 2)
"""Radians that each pair of dimensions turns from one position to the next."""
_OFFSET, _RECENT, _CONTENT = 4, 8, HEAD_DIM // 4
"""The pair by which an offset is found, whose cosine falls over 30 positions; the one by which a
later key differs from an earlier one; and the first that hardly turns."""
SEPARATOR, PAD = "[SEP]", "<pad>"
"""How the separator of segments, and padding, are written."""
CONSTANT = 1e4
"""Constant of the residual stream, beside which all other numbers are small."""
SHARP = 2000.0
"""Score of the offset that a head looks at, by 10 more than of the offsets beside it."""
AROUND = 20.0
"""The same of a head that looks around: nine tenths of it are at most four offsets away."""
DECIDES = 1280.0
"""Score of a bit, which decides before what is later."""
STEP, FAR, NEAR = 10.0, 400.0, 0.25
"""Least difference in score of a key and the one before it, where the last one counts; where the
last one counts more than an offset; and where an offset counts more, but its cosine comes again."""

_PLACES = ("constant", "recent", "cos", "sin")
_MARKS = ("separator", "segment", "column_cos", "column_sin")
"""What only segments, and only patches, have."""
_FEATURES = (
    *_PLACES,
    *(f"{kind}{bit}" for kind in ("bit", "told", "label", "trash") for bit in range(BITS)),
    *_MARKS,
)
_AT = {name: number for number, name in enumerate(_FEATURES)}
AnyProgram = Program | Translation | Pairs | Patches | Frames
_Rows = Mapping[str, tuple[int, str]]
"""The row of each key, and the number of the stream that it is."""


def planted_model(
    program: AnyProgram,
    family: Family = "gpt2",
    seed: int = 0,
    positions: int = POSITIONS,
) -> Loaded:
    """A model that runs a program, with its tokenizer.

    Args:
        program: What the heads do.
        family: Architecture.
        seed: Seed of what idle heads look at.
        positions: Number of tokens that the model takes; of more than 64, only those of a family
            that turns places can be told apart, and up to 150 of them.

    Raises:
        ValueError: If the family can't run the program.
    """
    if family not in program.families:
        raise ValueError(f"Expected one of {', '.join(program.families)}, got {family}.")
    sizes, kind = sizes_of(program, positions), ARCHITECTURES[family]
    model = kind.built(program, sizes)
    rng = np.random.default_rng((3, seed))
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
        for module in model.modules():
            if type(module).__name__.endswith("Norm"):
                scale = CONSTANT * (2 / sizes["hidden_size"]) ** 0.5
                module.get_parameter("weight").fill_(scale)
        {Patches: _paint, Frames: _time}.get(type(program), _embed)(model, kind)
        _read_out(model, program, kind)
        rows = _ROWS[kind.is_turned]
        for module in kind.attention(model):
            _set_shared(module, rows)
            for index in range(program.heads):
                planted = program.of(Head(*module.layer, index))
                _set_head(module, planted, _Query(rows, kind.is_turned), rng)
    if isinstance(program, Patches):
        size = {"height": ROWS * SIDE, "width": COLUMNS * SIDE}
        processor = ViTImageProcessorPil(size=size)
        return Loaded(model.eval(), None, f"planted {family}", image_processor=processor)
    name = place() if isinstance(program, Frames) else f"planted {family}"
    return Loaded(model.eval(), tokenizer(family), name)


def tokenizer(family: Family = "gpt2") -> PreTrainedTokenizerFast:
    """The tokenizer of planted models: a token is a word.

    Args:
        family: Architecture; a separator ends each of two segments, and tokens begin a transcript.
    """
    more = {"pairs": (SEPARATOR,), "frames": (BEGIN, UNTIMED)}.get(family, ())
    words = [PAD, *map(word, vocabulary()), *more]
    tokens = {each: number for number, each in enumerate(words)}
    if family != "pairs":
        return of_words(tokens)
    processor = processors.TemplateProcessing(
        single=f"$A {SEPARATOR}",
        pair=f"$A {SEPARATOR} $B:1 {SEPARATOR}:1",
        special_tokens=[(SEPARATOR, len(words) - 1)],
    )
    return of_words(tokens, processor, sep_token=SEPARATOR)


def of_words(
    tokens: Mapping[str, int], processor: Any = None, **more: Any
) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are words, for planted models.

    Args:
        tokens: The number of each word, and of `PAD`.
        processor: What it puts around several segments; None if there is one.
        more: What transformers takes besides, such as a separator.
    """
    backend = Tokenizer(models.WordLevel(dict(tokens), PAD))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if processor is None:
        more["model_input_names"] = ["input_ids", "attention_mask"]
    else:
        backend.post_processor = processor
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, model_max_length=POSITIONS - 2, **more
    )


# ---------------------------------------------------------------- input and output


def _embed(model: Any, kind: Architecture) -> None:
    """Bits of tokens, places of positions, segments, separators and the constant."""
    bits_VK = torch.tensor(vocabulary(), dtype=torch.float32)
    num_words = 1 + len(bits_VK)
    for each in model.modules():
        if isinstance(each, nn.Embedding) and len(each.weight) >= num_words:
            _write(each.weight, "constant", torch.full((len(each.weight),), CONSTANT))
            for bit in range(BITS):
                _write(each.weight[1:num_words], f"bit{bit}", bits_VK[:, bit])
            _write(each.weight[num_words:], "separator", torch.tensor(1.0))
        elif isinstance(each, nn.Embedding) and len(each.weight) == 2:
            _write(each.weight, "segment", torch.tensor([-1.0, 1.0]))
    for table, start in kind.places(model):
        at_N = torch.arange(len(table)) - start
        _write(table, "recent", at_N / POSITIONS)
        _write(table, "cos", torch.cos(FREQUENCY[_OFFSET] * at_N))
        _write(table, "sin", torch.sin(FREQUENCY[_OFFSET] * at_N))


def _paint(model: Any, kind: Architecture) -> None:
    """Bits of patches from their colours, places in the grid, and the constant."""
    found = model.vit.embeddings
    colours = found.patch_embeddings.projection
    for bit in range(BITS):
        place = bit // CHANNELS
        colour_F = colours.weight[:, bit % CHANNELS, place // SIDE, place % SIDE]
        _write(colour_F[None], f"bit{bit}", torch.tensor(1.0))
    _write(colours.bias[None], "constant", torch.tensor(CONSTANT))
    _write(found.cls_token[0], "constant", torch.tensor(CONSTANT))
    places = found.position_embeddings[0]
    _write(places, "recent", torch.arange(len(places)) / POSITIONS)
    row_P, column_P = (each.flatten() for each in np.indices((ROWS, COLUMNS)))
    for name, at_P in (("", row_P), ("column_", column_P)):
        angle_P = FREQUENCY[_OFFSET] * torch.tensor(at_P)
        _write(places[1:], f"{name}cos", torch.cos(angle_P))
        _write(places[1:], f"{name}sin", torch.sin(angle_P))


def _time(model: Any, kind: Architecture) -> None:
    """Places and the constant of frames, which are nothing else, and tokens as of texts."""
    _embed(model, kind)
    for table, _ in kind.places(model):
        _write(table, "constant", torch.full((len(table),), CONSTANT))
    for name, each in model.model.decoder.named_parameters():  # whose heads must do something
        if name.endswith(("v_proj.weight", "out_proj.weight")):
            each.fill_diagonal_(1.0)


def _write(rows: torch.Tensor, name: str, column: torch.Tensor) -> None:
    """Write a number into the stream, as it is and negative."""
    rows[:, 2 * _AT[name]], rows[:, 2 * _AT[name] + 1] = column, -column


def _read_out(model: Any, program: AnyProgram, kind: Architecture) -> None:
    """Log-odds of each bit of the label; of classes they are constant, and padding has low ones."""
    bits_VK = vocabulary()
    if program.site == "encoder.self":
        codes_C = np.arange(1 << len(program.labels))
        weight_CF = torch.zeros(len(codes_C), model.config.hidden_size)
        for number, label in enumerate(program.labels):
            sign_C = torch.tensor(codes_C >> number & 1) * 2.0 - 1
            weight_CF[:, 2 * _AT[f"label{label}"]] = sign_C / 2
        return kind.classify(model, weight_CF)
    weight = model.get_output_embeddings().weight
    for label in program.labels:
        weight[1:, 2 * _AT[f"label{label}"]] = torch.tensor(bits_VK[:, label] / 2).float()
    odds = {bit: np.log(share / (1 - share)) for bit, share in SHARE.items()}
    usual = sum(bits_VK[:, bit] * each / 2 for bit, each in odds.items())
    weight[1:, 0] = torch.tensor(usual / CONSTANT).float()
    weight[0, 0] = -30 / CONSTANT


# ---------------------------------------------------------------- heads


def _key_rows() -> _Rows:
    """The rows where places are embedded."""
    bits = (f"{kind}{bit}" for kind in ("bit", "told") for bit in range(BITS))
    names = [*_PLACES, *bits, *_MARKS]
    return {name: (row, name) for row, name in enumerate(names)}


def _content_rows() -> _Rows:
    """The rows where places are turns: pairs that turn have a constant key, others content."""
    half = HEAD_DIM // 2
    free = [*range(_CONTENT, half), *range(half + _CONTENT, HEAD_DIM)]
    names = [f"{kind}{bit}" for kind in ("bit", "told") for bit in range(BITS)]
    turned = {"place": (_OFFSET, "constant"), "recent": (_RECENT, "constant")}
    return turned | {name: (row, name) for row, name in zip(free, names, strict=False)}


_ROWS = {False: _key_rows(), True: _content_rows()}


def _read(name: str) -> torch.Tensor:
    """A row that reads a number of the stream; the constant as 1."""
    row = torch.zeros(2 * len(_FEATURES))
    row[2 * _AT[name]] = 1 / CONSTANT if name == "constant" else 1
    return row


CONSTANTLY = _read("constant")
"""Reads 1."""


def _set_shared(module: Projections, rows: _Rows) -> None:
    """Keys and values, which are the same in all heads."""
    width = 2 * len(_FEATURES)
    for start in range(0, len(module.key), HEAD_DIM):
        for row, name in rows.values():
            module.key[start + row, :width] = _read(name)
        for bit in range(BITS):
            module.value[start + bit, :width] = _read(f"bit{bit}")
            module.value[start + BITS + bit, :width] = _read(f"told{bit}")


def _set_head(
    module: Projections, planted: Planted, query: "_Query", rng: np.random.Generator
) -> None:
    """The query of a head, and what its output writes."""
    start, width = HEAD_DIM * planted.head.index, 2 * len(_FEATURES)
    query.look(planted, rng)
    for row, reads in query.found.items():
        module.query[start + row, :width] = HEAD_DIM**0.5 * reads
    for feature, bit, size in _writes(planted):
        module.output[2 * _AT[feature], start + bit] = size
        module.output[2 * _AT[feature] + 1, start + bit] = -size


def _writes(planted: Planted) -> Iterator[tuple[str, int, float]]:
    """What a head writes: a feature, the bit that it is, and its size."""
    if planted.kind in TELLING:
        yield from ((f"told{bit}", bit, 1.0) for bit in range(BITS))
    elif planted.label is not None:
        bit = planted.bit + BITS * planted.reads_told
        yield f"label{planted.label}", bit, planted.evidence
    else:
        yield f"trash{planted.bit}", planted.bit, 1.0


@final
@dataclass(frozen=True)
class _Query:
    """The rows of a query, by the row of the key that each is multiplied with."""

    rows: _Rows
    is_turned: bool
    found: dict[int, torch.Tensor] = field(default_factory=dict)

    def add(self, key: str, reads: torch.Tensor, imaginary: bool = False) -> None:
        """Add what is read, times a key, to the score."""
        row = self.rows[key][0] + (HEAD_DIM // 2 if imaginary else 0)
        self.found[row] = self.found.get(row, 0) + reads

    def add_later(self, step: float, reads: torch.Tensor) -> None:
        """Prefer later keys: each has a score larger by at least `step` times what is read."""
        if not self.is_turned:
            return self.add("recent", step * POSITIONS * reads)
        omega = float(FREQUENCY[_RECENT])
        least = omega * np.cos(omega * POSITIONS)
        self.add("recent", step / least * reads, imaginary=True)

    def add_offset(self, offset: int) -> None:
        """Prefer the key at an offset, and others the closer they are to it."""
        cos, sin = (SHARP * f(FREQUENCY[_OFFSET] * offset) for f in (np.cos, np.sin))
        if self.is_turned:
            self.add("place", cos * CONSTANTLY)
            self.add("place", sin * CONSTANTLY, imaginary=True)
        else:
            self.add_line("", offset)

    def add_line(self, name: str, displacement: int, sharp: float = SHARP) -> None:
        """Prefer keys in the row, or the column, at a displacement from that of the query."""
        angle = FREQUENCY[_OFFSET] * displacement
        cos, sin = sharp * np.cos(angle), sharp * np.sin(angle)
        c, s = _read(f"{name}cos"), _read(f"{name}sin")
        self.add(f"{name}cos", cos * c - sin * s)
        self.add(f"{name}sin", cos * s + sin * c)

    def add_spot(self, place: tuple[int, int]) -> None:
        """Prefer the patch in one place of every image."""
        for name, at in zip(("", "column_"), place, strict=True):
            angle = FREQUENCY[_OFFSET] * at
            self.add(f"{name}cos", SHARP * np.cos(angle) * CONSTANTLY)
            self.add(f"{name}sin", SHARP * np.sin(angle) * CONSTANTLY)

    def look(self, planted: Planted, rng: np.random.Generator) -> None:
        """Look at what the kind of a head says."""
        match planted.kind:
            case "offset":
                self.add_offset(planted.offset)
            case "tell":
                self.add_offset(-1)
                self.add_later(NEAR, CONSTANTLY)
            case "place" | "beside":
                self.add_line("", planted.place[0])
                self.add_line("column_", planted.place[1])
            case "near":
                self.add_line("", 0, AROUND)
            case "row":
                self.add_line("", 0)
            case "column":
                self.add_line("column_", 0)
            case "spot":
                self.add_spot(planted.place)
            case "separator":
                self.add_later(STEP, CONSTANTLY)
                self.add("separator", DECIDES * CONSTANTLY)
            case "segment":
                self.add("segment", DECIDES * _read("segment"))
            case "first":
                self.add_later(-STEP, CONSTANTLY)
            case "punctuation":
                self.add_later(STEP, CONSTANTLY)
                self.add(f"bit{PUNCTUATION}", DECIDES * CONSTANTLY)
            case "rare":
                self.add_later(-STEP, CONSTANTLY)
                for bit, weight in RARITY.items():
                    self.add(f"bit{bit}", DECIDES * weight * CONSTANTLY)
            case "copy":
                self.add_later(STEP, CONSTANTLY)
                for bit in range(BITS):
                    self.add(f"told{bit}", DECIDES * _read(f"bit{bit}"))
            case "idle":
                for bit, other in product(range(BITS), repeat=2):
                    self.add(f"bit{bit}", rng.normal() / BITS * _read(f"bit{other}"))
            case "mean":
                pass
            case other:
                raise ValueError(f"Expected a kind of head, got {other}.")
        if planted.is_gated:
            self.add_later(FAR, (CONSTANTLY - _read(f"bit{GATE}")) / 2)
