"""Tiny vision-language models of several kinds with their processors, made here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from headcount import Loaded
from headcount.models import without_videos
from tests import tiny

WORDS = "the a red dog cat sat on mat by what is where ? . user assistant : describe it".split()
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
MARKS = ["<image>", "<fake_token_around_image>", "<global-img>", "<|image_pad|>", "<|video_pad|>"]
MARKS += ["<|vision_start|>", "<|vision_end|>", "<start_of_image>", "<end_of_image>", "<soft>"]
MARKS += ["<img>", "</img>", "<IMG_CONTEXT>", "<video>", "<end_of_utterance>"]
MARKS += [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)]
VOCABULARY = {each: n for n, each in enumerate([*SPECIAL, *MARKS, "\n", "\n\n", *WORDS])}
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEEN: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}


def template(mark: str) -> str:
    """A chat template that writes a mark for each picture."""
    return (
        "<s>{% for message in messages %}{{ message['role'] }} :"
        "{% for part in message['content'] %}{% if part['type'] == 'image' %} "
        + mark
        + "{% else %} {{ part['text'] }}{% endif %}{% endfor %} {% endfor %}"
        "{% if add_generation_prompt %}assistant :{% endif %}"
    )


def tokenizer(**named: str) -> Any:
    """A tokenizer whose words are tokens."""
    words = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Punctuation(),
        ]
    )
    found = hf.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=256,
        extra_special_tokens=named,
    )
    found.add_tokens(MARKS, special_tokens=True)
    return found


def _written() -> dict[str, Any]:
    """How processors of LLaVA's kinds write chats."""
    return {
        "tokenizer": tokenizer(),
        "patch_size": 4,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
        "chat_template": template("<image>"),
    }


def llava() -> tuple[Any, Any]:
    """LLaVA: a picture of 4 x 4 patches."""
    config = hf.LlavaConfig(
        text_config=hf.LlamaConfig(**SIZES),
        vision_config=hf.CLIPVisionConfig(**SEEN),
        image_token_index=VOCABULARY["<image>"],
        vision_feature_layer=-1,
    )
    square = {"height": 16, "width": 16}
    reader = hf.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=square)
    processor = hf.LlavaProcessor(
        image_processor=reader,
        **_written(),
    )
    return hf.LlavaForConditionalGeneration(config), processor


TILES = [[16, 32], [32, 16], [32, 32]]
"""Heights and widths of the tiles of LLaVA-NeXT."""


def next_llava() -> tuple[Any, Any]:
    """LLaVA-NeXT: the whole picture, and lines of patches across tiles without their padding."""
    config = hf.LlavaNextConfig(
        text_config=hf.LlamaConfig(**SIZES),
        vision_config=hf.CLIPVisionConfig(**SEEN),
        image_token_index=VOCABULARY["<image>"],
        vision_feature_layer=-1,
        image_grid_pinpoints=TILES,
    )
    square = {"height": 16, "width": 16}
    reader = hf.LlavaNextImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=square, image_grid_pinpoints=TILES
    )
    processor = hf.LlavaNextProcessor(
        image_processor=reader,
        **_written(),
    )
    return hf.LlavaNextForConditionalGeneration(config), processor


def idefics() -> tuple[Any, Any]:
    """Idefics3: tiles and the whole, 2 x 2 tokens each."""
    config = hf.Idefics3Config(
        text_config=hf.LlamaConfig(**SIZES),
        vision_config=hf.models.idefics3.Idefics3VisionConfig(**SEEN),
        image_token_id=VOCABULARY["<image>"],
        scale_factor=2,
    )
    reader = hf.Idefics3ImageProcessorPil(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=True
    )
    processor = hf.Idefics3Processor(
        image_processor=reader,
        tokenizer=tokenizer(),
        image_seq_len=4,
        chat_template=template("<image>"),
    )
    return hf.Idefics3ForConditionalGeneration(config), processor


def smolvlm() -> tuple[Any, Any]:
    """SmolVLM: as Idefics3, with a processor that also reads videos."""
    config = hf.SmolVLMConfig(
        text_config=hf.LlamaConfig(**SIZES),
        vision_config=hf.models.smolvlm.SmolVLMVisionConfig(**SEEN),
        image_token_id=VOCABULARY["<image>"],
        scale_factor=2,
    )
    reader = hf.SmolVLMImageProcessorPil(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=True
    )
    processor = without_videos(
        hf.SmolVLMProcessor,
        reader,
        tokenizer(),
        image_seq_len=4,
        chat_template=template("<image>"),
    )
    return hf.SmolVLMForConditionalGeneration(config), processor


_TURNED = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}
_DEEP: dict[str, Any] = {"depth": 2, "hidden_size": 16, "intermediate_size": 20, "num_heads": 2}
_QWEN: dict[str, Any] = {
    f"{name}_token_id": VOCABULARY[token]
    for name, token in (
        ("image", "<|image_pad|>"),
        ("video", "<|video_pad|>"),
        ("vision_start", "<|vision_start|>"),
        ("vision_end", "<|vision_end|>"),
    )
}


def _of_qwen(kind: str, processor: type, **vision: Any) -> tuple[Any, Any]:
    """A model of a generation of Qwen's, and its processor: patches merged by fours."""
    config = getattr(hf, f"{kind}Config")(
        text_config={**SIZES, "rope_parameters": dict(_TURNED)},
        vision_config={**_DEEP, "patch_size": 4, "out_hidden_size": 24, **vision},
        **_QWEN,
    )
    reader = hf.Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, min_pixels=16 * 16, max_pixels=32 * 48
    )
    mark = "<|vision_start|> <|image_pad|> <|vision_end|>"
    read = without_videos(processor, reader, tokenizer(), chat_template=template(mark))
    return getattr(hf, f"{kind}ForConditionalGeneration")(config), read


def qwen() -> tuple[Any, Any]:
    """Qwen2.5-VL: windows in the tower, pictures of any shape."""
    windows: dict[str, Any] = {"window_size": 16, "fullatt_block_indexes": [1]}
    return _of_qwen("Qwen2_5_VL", hf.Qwen2_5_VLProcessor, **windows)


def qwen3() -> tuple[Any, Any]:
    """Qwen3-VL: its tower adds to several layers of the decoder."""
    added: dict[str, Any] = {"deepstack_visual_indexes": [0], "num_position_embeddings": 16}
    return _of_qwen("Qwen3VL", hf.Qwen3VLProcessor, **added)


def paligemma() -> tuple[Any, Any]:
    """PaliGemma: no chat template, and the prompt sees all of itself."""
    config = hf.PaliGemmaConfig(
        text_config=hf.GemmaConfig(**SIZES),
        vision_config=hf.SiglipVisionConfig(**SEEN, vision_use_head=False),
        image_token_index=VOCABULARY["<image>"],
        projection_dim=24,
    )
    reader: Any = hf.SiglipImageProcessorPil(size={"height": 16, "width": 16})
    reader.image_seq_length = 16
    processor = hf.PaliGemmaProcessor(image_processor=reader, tokenizer=tokenizer())
    return hf.PaliGemmaForConditionalGeneration(config), processor


def gemma() -> tuple[Any, Any]:
    """Gemma 3: the tokens of a picture see each other in both directions."""
    text = hf.Gemma3TextConfig(
        **SIZES, sliding_window=8, layer_types=["sliding_attention", "full_attention"]
    )
    config = hf.Gemma3Config(
        text_config=text,
        vision_config=hf.SiglipVisionConfig(**SEEN, vision_use_head=False),
        image_token_index=VOCABULARY["<soft>"],
        boi_token_index=VOCABULARY["<start_of_image>"],
        eoi_token_index=VOCABULARY["<end_of_image>"],
        mm_tokens_per_image=4,
    )
    reader = hf.Gemma3ImageProcessorPil(size={"height": 16, "width": 16})
    named = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<soft>",
    }
    processor = hf.Gemma3Processor(
        image_processor=reader,
        tokenizer=tokenizer(**named),
        image_seq_length=4,
        chat_template=template("<start_of_image>"),
    )
    return hf.Gemma3ForConditionalGeneration(config), processor


def internvl() -> tuple[Any, Any]:
    """InternVL: patches are shuffled into fewer tokens."""
    vision = {**SEEN, "image_size": [16, 16], "patch_size": [4, 4]}
    config = hf.InternVLConfig(
        text_config=hf.Qwen2Config(**{k: each for k, each in SIZES.items() if k != "head_dim"}),
        vision_config=vision,
        image_token_id=VOCABULARY["<IMG_CONTEXT>"],
        downsample_ratio=0.5,
    )
    reader = hf.GotOcr2ImageProcessorPil(size={"height": 16, "width": 16})
    named = {"start_image_token": "<img>", "end_image_token": "</img>"}
    named |= {"context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
    processor = without_videos(
        hf.InternVLProcessor,
        reader,
        tokenizer(**named),
        image_seq_length=4,
        chat_template=template("<IMG_CONTEXT>"),
    )
    return hf.InternVLForConditionalGeneration(config), processor


def mllama() -> tuple[Any, Any]:
    """Mllama: one layer looks at pictures alone, which are no tokens beside the text."""
    tokens = tokenizer()
    tokens.add_tokens(["<|image|>", "<|begin_of_text|>"], special_tokens=True)
    ratios = [[rows, columns] for rows in (1, 2) for columns in (1, 2)]
    vision = hf.models.mllama.MllamaVisionConfig(
        **{key: each for key, each in SEEN.items() if key != "num_attention_heads"},
        attention_heads=2,
        num_global_layers=1,
        max_num_tiles=4,
        vision_output_dim=32,
        intermediate_layers_indices=[0],
        supported_aspect_ratios=ratios,
    )
    text = {key: each for key, each in SIZES.items() if key not in ("head_dim", "vocab_size")}
    config = hf.MllamaConfig(
        vision_config=vision,
        text_config=hf.models.mllama.MllamaTextConfig(
            **text, vocab_size=len(tokens), cross_attention_layers=[1]
        ),
        image_token_index=tokens.convert_tokens_to_ids("<|image|>"),
    )
    reader = hf.MllamaImageProcessorPil(size={"height": 16, "width": 16}, max_image_tiles=4)
    processor = hf.MllamaProcessor(
        image_processor=reader, tokenizer=tokens, chat_template=template("<|image|>")
    )
    return hf.MllamaForConditionalGeneration(config), processor


KINDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "llava": llava,
    "next_llava": next_llava,
    "idefics": idefics,
    "smolvlm": smolvlm,
    "qwen": qwen,
    "qwen3": qwen3,
    "paligemma": paligemma,
    "gemma": gemma,
    "internvl": internvl,
}
"""Models by their kind."""


def loaded(kind: str) -> Loaded:
    """A model of random weights with its processor."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, processor = (KINDS | {"mllama": mllama})[kind]()
    return Loaded(
        tiny.seeded(model).eval(), processor.tokenizer, f"tiny {kind}", processor=processor
    )


def picture(path: Path, size: tuple[int, int] = (23, 17), seed: int = 0, mode: str = "RGB") -> str:
    """The path of a picture of random pixels."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return str(path)


def opened(path: str) -> Image.Image:
    """The pixels of a picture."""
    return Image.open(path).convert("RGB")


def chat(path: str, text: str = "what is it ?", reply: str = "the dog .") -> dict[str, Any]:
    """A row of a chat about a picture."""
    parts = [{"type": "image", "image": path}, {"type": "text", "text": text}]
    return {
        "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": reply}]
    }
