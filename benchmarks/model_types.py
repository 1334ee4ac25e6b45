"""Every model type of transformers, tiny and random: which can be measured, gated and made smaller.

Each type is built from its own configuration with small sizes. A type is *equal* if `examine`
accepts it (outputs with and without listening, gates of 0 against zeros in what the output
projections receive, on every padding and on none) and its weights are those that the model's eager
attention returns, where it returns any. *Compact, too*, if a plan without half of every layer's
heads can be cut out.

    python benchmarks/model_types.py --out model_types.md
"""

import copy
import itertools
import json
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
import tyro
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from headcount.compaction import compact
from headcount.core import Heads, InputError, LayerId, Plan
from headcount.tap import (
    Anatomy,
    Block,
    SampleRun,
    difference,
    examine,
    tapped,
    tiny_inputs,
)

NUM_HEADS, HEAD_DIM, WIDTH, VOCAB = 4, 8, 32, 99
SIZES: Mapping[str, Any] = (
    dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "encoder_dim")
        + ("hidden_dim", "hidden_size_global", "embedding_dim", "text_hidden_size", "emb_dim")
        + ("out_hidden_size", "output_hidden_size", "projection_dim", "decoder_hidden_size")
        + ("encoder_hidden_size", "encoder_hidden_dim", "lru_width", "audio_hidden_size")
        + ("attention_hidden_size", "d_embed", "output_dim", "hidden_size_per_layer_input"),
        WIDTH,
    )
    | dict.fromkeys(
        ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "n_inner")
        + ("moe_intermediate_size", "mlp_dim", "shared_expert_intermediate_size", "d_inner")
        + ("moe_shared_expert_intermediate_size", "shared_intermediate_size", "inner_dim")
        + ("decoder_intermediate_size", "ffn_hidden_size", "d_ffn", "feed_forward_size"),
        48,
    )
    | dict.fromkeys(
        ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
        + ("n_layers", "num_decoder_layers", "depth", "encoder_num_hidden_layers")
        + ("decoder_num_hidden_layers", "num_encoder_layers", "resampler_depth"),
        2,
    )
    | dict.fromkeys(
        ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "n_heads")
        + ("decoder_attention_heads", "attention_heads", "decoder_num_attention_heads")
        + ("encoder_num_attention_heads", "num_encoder_attention_heads", "index_n_heads"),
        NUM_HEADS,
    )
    | dict.fromkeys(("num_key_value_heads", "n_group", "topk_group"), 2)
    | dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "qk_nope_head_dim", "attention_head_dim"), 8)
    | {"qk_rope_head_dim": 4, "qk_head_dim": 12, "q_lora_rank": 16, "kv_lora_rank": 16}
    | {"rotary_dim": 4, "index_head_dim": 8, "index_topk": 6, "global_head_dim": 8}
    | dict.fromkeys(
        ("max_position_embeddings", "n_positions", "max_source_positions", "seq_length")
        + ("max_target_positions", "model_max_length", "max_seq_len"),
        64,
    )
    | dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "text_vocab_size"), VOCAB)
    | dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4)
    | dict.fromkeys(("num_experts_per_tok", "moe_topk", "num_experts_per_token"), 2)
    | {"first_k_dense_replace": 1, "sliding_window": 5, "window_size": 4, "local_window_size": 4}
    | {"image_size": 32, "patch_size": 8, "spatial_merge_size": 2, "num_mel_bins": 16}
    | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 2}
    | {"forced_eos_token_id": None, "forced_bos_token_id": None, "sep_token_id": 3}
    | {"cls_token_id": 4, "mask_token_id": 5, "linear_num_key_heads": 2}
    | {"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    | {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "hidden_sizes": [16, 32, 32, 32]}
    | {"conv_dim": [8, 8], "conv_stride": [3, 2], "conv_kernel": [4, 3], "num_frames": 4}
    | {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "tdnn_dim": [8, 8]}
    | {
        "num_conv_pos_embedding_groups": 2,
        "num_queries": 5,
    }
    | {"attn_layer_indices": [0], "attn_layer_period": 2, "attn_layer_offset": 0, "moe_k": 2}
    | {"block_types": ["recurrent", "attention"], "hybrid_override_pattern": "*-"}
    | {
        "layer_types": None,
        "mlp_layer_types": None,
        "layers_block_type": None,
        "num_query_tokens": 4,
        "codevector_dim": 16,
    }
)
"""Values of configurations' fields, by name, wherever a field of that name is there."""
DEPTHS: Mapping[str, Any] = {
    name: SIZES[name]
    for name in ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
    + ("n_layers", "num_decoder_layers", "depth", "vocab_size", "bos_token_id", "eos_token_id")
    + ("pad_token_id", "decoder_start_token_id", "layer_types", "mlp_layer_types")
    + ("layers_block_type", "max_position_embeddings", "num_experts", "n_routed_experts")
}
"""The same for models whose widths depend on each other: fewer layers of the usual width."""
SWIN: Mapping[str, Any] = {
    "image_size": 64,
    "patch_size": 2,
    "window_size": 4,
    "depths": [1, 2],
    "num_heads": [2, 4],
    "embed_dim": 16,
}
OF_TYPES: Mapping[str, Mapping[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "swin": SWIN,
    "donut-swin": SWIN,
    "maskformer-swin": SWIN,
    "xmod": {"default_language": "en_XX"},
    "bamba": {"attn_layer_indices": [0, 1]},
    "luke": {"entity_vocab_size": 20},
}
"""Sizes of single types whose fields depend on each other."""
BODIES = (
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
)
"""Classes to build, the first that a type has."""
LARGEST = 120_000_000
"""Number of parameters above which a shrunken model is not built."""
SECONDS = 60
"""Longest time for one type."""


@dataclass(frozen=True)
class Arguments:
    """Try every model type of transformers."""

    out: Path | None = None
    """File for the table as Markdown; standard output if not given."""
    types: tuple[str, ...] = ()
    """Model types to try; all if none is given."""


@dataclass(frozen=True)
class Outcome:
    """What became of a model type."""

    model_type: str
    model: str
    status: str
    """`compact`, `equal`, `refused`, `not built`, or `error`."""
    why: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether other sizes or another class could not change the outcome."""
        is_unfit = "which does not: " in self.why or "which headcount can't make up" in self.why
        return self.status != "not built" and not (self.status == "refused" and is_unfit)


class TooSlowError(Exception):
    """A type took longer than it may."""


def main() -> None:
    """Try the types one by one, and print a table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    outcomes = []
    for model_type in arguments.types or sorted(CONFIG_MAPPING):
        outcomes.append(tried(model_type))
        print(json.dumps(vars(outcomes[-1])), file=sys.stderr, flush=True)
    table = "\n".join(_table([each for each in outcomes if each.status != "no model"])) + "\n"
    if arguments.out is None:
        print(table)
    else:
        arguments.out.write_text(table, encoding="utf-8")


def tried(model_type: str) -> Outcome:
    """Build a type, examine it, compare its weights, and make it smaller."""
    kinds: list[Any] = []
    for mapping in BODIES:
        with suppress(KeyError, ValueError):  # some classes that mappings name are not there
            kinds.append(mapping[CONFIG_MAPPING[model_type]])
    if not kinds:
        return Outcome(model_type, "", "no model")
    kinds = list(dict.fromkeys(kind[0] if isinstance(kind, tuple) else kind for kind in kinds))
    outcomes = []
    for sizes, kind in itertools.product((SIZES, DEPTHS), kinds):
        outcomes.append(_tried(model_type, kind, sizes))
        if outcomes[-1].is_decided:
            return outcomes[-1]
    return min(outcomes, key=lambda each: each.status == "not built")


def _tried(model_type: str, kind: Any, sizes: Mapping[str, Any]) -> Outcome:
    """Try one class of a type with one set of sizes."""
    try:
        with _limited():
            model = _build(kind, CONFIG_MAPPING[model_type], sizes)
    except Exception as error:
        return Outcome(model_type, kind.__name__, "not built", _line(error))
    try:
        with _limited():
            return Outcome(model_type, kind.__name__, *_examined(model))
    except InputError as error:
        return Outcome(model_type, kind.__name__, "refused", _line(error))
    except TooSlowError as error:
        return Outcome(model_type, kind.__name__, "not built", _line(error))
    except Exception as error:
        return Outcome(
            model_type, kind.__name__, "error", f"{type(error).__name__}: {_line(error)}"
        )


def _examined(model: PreTrainedModel) -> tuple[str, str]:
    anatomy = examine(model)
    apart = _largest_difference(model, anatomy)
    if apart is not None and apart > 1e-4:
        return "error", f"weights differ from eager attention's by {apart:.2g}"
    try:
        compact(model, _half(anatomy.heads, anatomy))
    except InputError as error:
        return "equal", f"not compact: {_line(error)}"
    return "compact", ""


def _half(heads: Heads, anatomy: Anatomy) -> Plan:
    """A plan without the second half of every layer's heads, in whole key/value groups."""
    kept: dict[str, dict[int, tuple[int, ...]]] = {}
    for layer in anatomy.layers:
        groups = layer.num_key_value_heads
        size = layer.num_heads // groups
        count = max(1, groups // 2) * size if groups > 1 else layer.num_heads
        kept.setdefault(layer.site, {})[layer.layer] = tuple(range(count))
    return Plan(kept)


def _largest_difference(model: PreTrainedModel, anatomy: Anatomy) -> float | None:
    """Largest difference from the weights that eager attention returns, in rows without padding.

    None if it returns none, or if the stock model's own outputs differ between the two.
    """
    stock = copy.deepcopy(model)
    with suppress(ValueError):
        stock.set_attn_implementation("eager")
    stock.config._attn_implementation = "eager"
    run = SampleRun(tiny_inputs(model))
    try:
        with torch.no_grad():
            output = stock(**run.batch, output_attentions=True)
            if difference(run.outputs(stock), run.outputs(model)) > 1e-2:
                return None
    except Exception:
        return None
    maps = {
        "encoder.self": output.get("encoder_attentions") or output.get("attentions"),
        "decoder.self": output.get("decoder_attentions") or output.get("attentions"),
        "decoder.cross": output.get("cross_attentions"),
    }
    found: dict[LayerId, Tensor] = {}

    def listener(block: Block) -> None:
        found[block.layer.layer_id] = block.weights_BHQK  # all of a tiny layer

    with torch.no_grad(), tapped(model, listener, anatomy=anatomy):
        run.outputs(model)
    sites = {place.site for place in found}
    differences = [
        each
        for site in sites
        for each in _differences(
            [found[place] for place in found if place.site == site], maps[site]
        )
    ]
    return max(differences, default=None)


def _differences(ours: Sequence[Tensor], maps: Sequence[Any] | None) -> Iterator[float]:
    """Differences layer by layer; of the closest layers where a model returns maps of some only."""
    for number, theirs in enumerate(maps or ()):
        candidates = ours if len(ours) != len(maps or ()) else [ours[number]]
        same = [each for each in candidates if getattr(theirs, "shape", None) == each.shape]
        if same:
            yield min((each - theirs)[:1].abs().nan_to_num(0).max().item() for each in same)


def _build(
    kind: type[PreTrainedModel], config_class: type[PreTrainedConfig], small: Mapping[str, Any]
) -> PreTrainedModel:
    config = _shrunken(config_class, small)
    with torch.device("meta"):
        count = sum(each.numel() for each in kind._from_config(copy.deepcopy(config)).parameters())
    if count > LARGEST:
        raise ValueError(f"still {count / 1e6:.0f} million parameters with small sizes")
    torch.manual_seed(0)
    model = kind._from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model


def _shrunken(config_class: type[PreTrainedConfig], small: Mapping[str, Any]) -> PreTrainedConfig:
    """A configuration with small sizes, found by leaving out what its class does not accept."""
    plain = config_class()
    fields = plain.to_dict()
    sizes = {name: value for name, value in small.items() if name in fields}
    own = OF_TYPES.get(config_class.model_type, {})
    if fields.get("num_key_value_heads") == fields.get("num_attention_heads"):
        sizes.pop("num_key_value_heads", None)
        if "num_key_value_heads" in fields:
            sizes["num_key_value_heads"] = NUM_HEADS
    for name, value in list(sizes.items()):
        if value is None and isinstance(fields[name], list):
            count = sizes.get("num_hidden_layers", 2)
            kinds = list(dict.fromkeys(fields[name]))
            sizes[name] = (kinds + kinds * count)[:count]
        elif isinstance(value, list) and not isinstance(fields[name], list | tuple):
            del sizes[name]
        elif isinstance(fields[name], list | tuple) and not isinstance(value, list | None):
            sizes[name] = [value] * len(fields[name])
        elif fields[name] is None and name.endswith(("_rank", "head_dim")):
            del sizes[name]
    if "qk_rope_head_dim" in fields:
        sizes.pop("head_dim", None)
    rope = fields.get("rope_parameters") or fields.get("rope_scaling")
    if "rope_parameters" in fields and _reads(config_class, "mrope_section"):
        plain_rope = {"rope_type": "default", "rope_theta": 1e4}
        given = rope if isinstance(rope, dict) else plain_rope
        sizes["rope_parameters"] = given | {"mrope_section": [2, 1, 1]}
    if "depths" in fields:
        sizes |= {"image_size": 64, "patch_size": 4} if "window_size" in fields else {}
    for name, sub in dict[str, Any](config_class.sub_configs).items():  # type: ignore[arg-type]
        given = getattr(plain, name, None)
        if given is not None:
            sizes[name] = _shrunken(type(given), small).to_dict() if sub else sizes.get(name)
    for name, value in fields.items():
        if name.endswith(("_token_id", "_token_index")) and name not in sizes:
            sizes[name] = 6 + sum(map(ord, name)) % 80 if isinstance(value, int) else value
    return config_class(**{**sizes, **own})


def _reads(config_class: type[PreTrainedConfig], name: str) -> bool:
    """Whether the modelling code beside a configuration mentions a field."""
    folder = Path(sys.modules[config_class.__module__].__file__ or "").parent
    return any(name in each.read_text(encoding="utf-8") for each in folder.glob("modeling_*.py"))


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlowError(f"took longer than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]


def _table(outcomes: list[Outcome]) -> Iterator[str]:
    counts = Counter(each.status for each in outcomes)
    yield f"transformers {transformers.__version__}: {len(outcomes)} model types; " + ", ".join(
        f"{counts[status]} {status}"
        for status in ("compact", "equal", "refused", "error", "not built")
    )
    yield ""
    yield "| type | class | result | why |"
    yield "|---|---|---|---|"
    for each in outcomes:
        why = each.why.replace("|", "\\|")
        yield f"| {each.model_type} | {each.model} | {each.status} | {why} |"


if __name__ == "__main__":
    main()
