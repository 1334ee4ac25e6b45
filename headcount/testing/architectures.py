"""Architectures that planted models have: how they are built, and where their weights are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import LayerId
from headcount.testing.patches import CHANNELS, COLUMNS, ROWS, SIDE
from headcount.testing.programs import Family, Planting
from headcount.testing.tokens import BITS

HEAD_DIM = 64
POSITIONS = 64
"""Number of positions of the models that embed them."""
BINS = 8
"""Frequencies of a spectrogram, which no planted head listens to."""
_SMALL = 1e-3
"""Scale at which the hyperbolic tangent before the classes of pairs is a straight line."""
TURN = 10.0**-0.25
"""Radians that a pair of dimensions turns from one position to the next, over those of the pair
before it; the first turns by 1."""


@final
@dataclass(frozen=True)
class Projections:
    """The weights of one attention module, [feature out, feature in]."""

    layer: LayerId
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


class Architecture(ABC):
    """A stock architecture of transformers."""

    is_turned: bool = False
    """Whether places are turns of queries and keys, not embedded."""

    @abstractmethod
    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:
        """A model for a program, of any weights, with some sizes that all architectures name so."""

    @abstractmethod
    def attention(self, model: Any) -> Iterator[Projections]:
        """The attention modules, layer by layer."""

    def places(self, model: Any) -> tuple[tuple[Tensor, int], ...]:
        """The tables of positions, and the row of the first one; none if places are turns."""
        return ()

    def classify(self, model: Any, weight: Tensor) -> None:
        """Set the weights of a classifier, [class, feature]."""
        model.classifier.weight.copy_(weight)


@final
class Gpt2(Architecture):
    """GPT-2, whose weights are transposed and in one."""

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, n_inner=sizes["intermediate_size"]))

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        for number, block in enumerate(model.transformer.h):
            query, key, value = block.attn.c_attn.weight.T.chunk(3)
            yield Projections(
                LayerId("decoder.self", number), query, key, value, block.attn.c_proj.weight.T
            )

    def places(self, model: Any) -> tuple[tuple[Tensor, int], ...]:  # noqa: D102
        return ((model.transformer.wpe.weight, 0),)


@final
@dataclass(frozen=True)
class Llama(Architecture):
    """Llama, in which some heads share keys and values."""

    sharing: int = 1
    """Number of heads that share them."""
    is_turned: bool = True

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        turned = {"rope_type": "default", "rope_theta": TURN ** -(HEAD_DIM // 2)}
        groups = program.heads // self.sharing
        sizes = sizes | {"num_key_value_heads": groups, "rope_parameters": turned}
        return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, head_dim=HEAD_DIM))

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        for number, block in enumerate(model.model.layers):
            own = block.self_attn
            parts = (own.q_proj, own.k_proj, own.v_proj, own.o_proj)
            yield Projections(LayerId("decoder.self", number), *(each.weight for each in parts))


@final
@dataclass(frozen=True)
class Encoder(Architecture):
    """RoBERTa with normalisation before attention, which labels tokens, or two segments."""

    reads_pairs: bool = False

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        sizes = sizes | {"num_labels": 1 << len(program.labels), "type_vocab_size": 1}
        if not self.reads_pairs:
            config = hf.RobertaPreLayerNormConfig(**sizes)
            return hf.RobertaPreLayerNormForTokenClassification(config)
        sizes |= {"type_vocab_size": 2, "vocab_size": sizes["vocab_size"] + 1}
        config = hf.RobertaPreLayerNormConfig(**sizes)
        return hf.RobertaPreLayerNormForSequenceClassification(config)

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        for number, block in enumerate(model.roberta_prelayernorm.encoder.layer):
            own, output = block.attention.self, block.attention.output.dense
            parts = (own.query, own.key, own.value, output)
            yield Projections(LayerId("encoder.self", number), *(each.weight for each in parts))

    def places(self, model: Any) -> tuple[tuple[Tensor, int], ...]:  # noqa: D102
        table = model.roberta_prelayernorm.embeddings.position_embeddings
        return ((table.weight, table.padding_idx + 1),)

    def classify(self, model: Any, weight: Tensor) -> None:  # noqa: D102
        if not self.reads_pairs:
            return super().classify(model, weight)
        model.classifier.dense.weight.fill_diagonal_(_SMALL)
        model.classifier.out_proj.weight.copy_(weight / _SMALL)


@final
class Vision(Architecture):
    """A Vision Transformer, which labels images."""

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        images = {"image_size": (ROWS * SIDE, COLUMNS * SIDE), "patch_size": SIDE}
        images |= {"num_channels": CHANNELS, "num_labels": 1 << len(program.labels)}
        config = hf.ViTConfig(**{name: sizes[name] for name in names}, **images)
        return hf.ViTForImageClassification(config)

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        for number, block in enumerate(model.vit.layers):
            own = block.attention
            parts = (own.q_proj, own.k_proj, own.v_proj, own.o_proj)
            yield Projections(LayerId("encoder.self", number), *(each.weight for each in parts))


@final
class Translator(Architecture):
    """Blenderbot, an encoder-decoder with normalisation before attention."""

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        sizes = (
            sizes
            | _of_both_sides(program)
            | {"d_model": sizes["hidden_size"], "decoder_start_token_id": 0}
        )
        sizes = {name: each for name, each in sizes.items() if name not in _DECODER_NAMES}
        sizes |= {"scale_embedding": False, "forced_eos_token_id": None}
        return hf.BlenderbotForConditionalGeneration(hf.BlenderbotConfig(**sizes))

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        body = model.model
        sides = (
            ("encoder.self", body.encoder, "self_attn"),
            ("decoder.self", body.decoder, "self_attn"),
            ("decoder.cross", body.decoder, "encoder_attn"),
        )
        for site, side, name in sides:
            for number, block in enumerate(side.layers):
                own = getattr(block, name)
                parts = (own.q_proj, own.k_proj, own.v_proj, own.out_proj)
                yield Projections(LayerId(site, number), *(each.weight for each in parts))

    def places(self, model: Any) -> tuple[tuple[Tensor, int], ...]:  # noqa: D102
        sides = (model.model.encoder, model.model.decoder)
        return tuple((side.embed_positions.weight, 0) for side in sides)


@final
class Whisper(Architecture):
    """A Whisper, of which the encoder is planted: no weight of its decoder is set."""

    def built(self, program: Planting, sizes: dict[str, Any]) -> PreTrainedModel:  # noqa: D102
        begin = sizes["vocab_size"]
        both = _of_both_sides(program) | {"d_model": sizes["hidden_size"], "pad_token_id": 0}
        both |= {"max_source_positions": POSITIONS, "max_target_positions": POSITIONS}
        both |= {"bos_token_id": None, "eos_token_id": None, "decoder_start_token_id": begin}
        config = hf.WhisperConfig(**both, vocab_size=begin + 2, num_mel_bins=BINS)
        return hf.WhisperForConditionalGeneration(config)

    def attention(self, model: Any) -> Iterator[Projections]:  # noqa: D102
        for number, block in enumerate(model.model.encoder.layers):
            own = block.self_attn
            parts = (own.q_proj, own.k_proj, own.v_proj, own.out_proj)
            yield Projections(LayerId("encoder.self", number), *(each.weight for each in parts))

    def places(self, model: Any) -> tuple[tuple[Tensor, int], ...]:  # noqa: D102
        return ((model.model.encoder.embed_positions.weight, 0),)

    def classify(self, model: Any, weight: Tensor) -> None:  # noqa: D102
        pass


_DECODER_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
"""Sizes that encoder-decoders name otherwise."""


def _of_both_sides(program: Planting) -> dict[str, Any]:
    """Sizes of an encoder-decoder whose sides are alike."""
    own = {"layers": program.layers, "attention_heads": program.heads, "ffn_dim": 1}
    return {f"{side}_{name}": own[name] for side in ("encoder", "decoder") for name in own}


ARCHITECTURES: Mapping[Family, Architecture] = {
    "gpt2": Gpt2(),
    "llama": Llama(),
    "grouped": Llama(sharing=2),
    "encoder": Encoder(),
    "translator": Translator(),
    "pairs": Encoder(reads_pairs=True),
    "patches": Vision(),
    "frames": Whisper(),
}
"""Every architecture by its name."""


def sizes_of(program: Planting, positions: int = POSITIONS) -> dict[str, Any]:
    """The sizes of a model for a program, which has no MLP to speak of.

    Raises:
        ValueError: For layers of too few heads to hold the stream.
    """
    if program.heads < 2:
        raise ValueError(f"Expected at least 2 heads in a layer, got {program.heads}.")
    return {
        "vocab_size": 1 + (1 << BITS),
        "hidden_size": HEAD_DIM * program.heads,
        "num_hidden_layers": program.layers,
        "num_attention_heads": program.heads,
        "intermediate_size": 1,
        "max_position_embeddings": positions,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": None,
    }
