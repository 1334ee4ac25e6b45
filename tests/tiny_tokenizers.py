"""Tiny offline tokenizers of every kind, trained on a few sentences in three languages."""

import contextlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertTokenizer,
    ByT5Tokenizer,
    GPT2Tokenizer,
    LlamaTokenizer,
    M2M100Tokenizer,
    MarianTokenizer,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    T5Tokenizer,
)

SENTENCES = (
    "The old dog barked at the moon, and nobody in the village could sleep.",
    "She doesn't believe that her sister's letters were ever sent.",
    "When the train stopped, three tired children jumped out and ran home!",
    "A painter from Bremen bought two green chairs for his kitchen in 2024.",
    "Did you hear the rain last night? It was louder than the river.",
    "Der alte Hund bellte den Mond an, und niemand im Dorf konnte schlafen.",
    "Sie glaubt nicht, dass die Briefe ihrer Schwester jemals ankamen.",
    "Als der Zug hielt, sprangen drei müde Kinder heraus und liefen nach Hause!",
    "Ein Maler aus Bremen kaufte 2024 zwei grüne Stühle für seine Küche.",
    "Hast du gestern den Regen gehört? Er war lauter als der Fluß.",
    "Старая собака лаяла на луну, и никто в деревне не мог уснуть.",
    "Она не верит, что письма её сестры когда-нибудь дошли.",
    "Когда поезд остановился, трое усталых детей выбежали и пошли домой!",
    "Художник из Бремена купил в 2024 году два зелёных стула для кухни.",
    "Ты слышал вчера дождь? Он был громче реки.",
)
GERMAN, RUSSIAN = SENTENCES[5:10], SENTENCES[10:]
SIZE = 400


def wordpiece(model_max_length: int = 64) -> PreTrainedTokenizerFast:
    """A tokenizer like BERT's: pieces inside a word begin with ##."""
    # Not WordPieceTrainer, whose vocabulary differs from process to process.
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [word for text in SENTENCES for word in re.findall(r"\w+|[^\w\s]", plain(text))]
    letters = sorted(set("".join(words)))
    parts = [part for word in words for part in (word, word[:3], f"##{word[-3:]}")]
    count = Counter(part for part in parts if len(part.removeprefix("##")) > 1)
    frequent = sorted(count, key=lambda part: (-count[part], part))
    pieces = dict.fromkeys([*special, *letters, *(f"##{each}" for each in letters), *frequent])
    return BertTokenizer(
        vocab={piece: index for index, piece in enumerate([*pieces][:SIZE])},
        do_lower_case=True,
        model_max_length=model_max_length,
    )


def plain(text: str) -> str:
    """The text in lower case without accents, as an uncased BERT reads it."""
    return normalizers.BertNormalizer(lowercase=True).normalize_str(text)


def byte_level(kind: str, add_prefix_space: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer like those of `roberta` and `gpt2`: a space marks the start of a word."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(SENTENCES, trainer)
    vocab, merges = _vocab_and_merges(backend)
    classes = {"roberta": RobertaTokenizer, "gpt2": GPT2Tokenizer}
    return classes[kind](vocab=vocab, merges=merges, add_prefix_space=add_prefix_space)


def t5() -> PreTrainedTokenizerFast:
    """A tokenizer like T5's: Unigram, ▁ before words, </s> at the end, <pad> starts the decoder."""
    # Not UnigramTrainer, whose vocabulary differs from process to process.
    marked = " ".join(SENTENCES).replace(" ", " ▁")
    words = re.findall(r"▁?\w+|[^\w\s▁]", f"▁{marked}")
    parts = [part for word in words for part in (word, word[:4], word[-3:])]
    count = Counter(part for part in parts if len(part) > 1)
    frequent = sorted(count, key=lambda part: (-count[part], part))
    letters = sorted(set("".join(words)))
    pieces = [*dict.fromkeys([*letters, *frequent])][: SIZE - 3]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab = [*special, *((each, math.log(max(count[each], 0.1) / len(parts))) for each in pieces)]
    return T5Tokenizer(vocab=vocab, extra_ids=0, additional_special_tokens=[])


def llama() -> PreTrainedTokenizerFast:
    """A tokenizer like Llama's: BPE over the full text with ▁ for spaces, <s> in front."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>", *bytes_], show_progress=False
    )
    backend.train_from_iterator(SENTENCES, trainer)
    vocab, merges = _vocab_and_merges(backend)
    tokenizer = LlamaTokenizer(vocab=vocab, merges=merges)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def starting(*start: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that puts some special tokens in front of a text; it has a BOS."""
    tokenizer = byte_level("gpt2")
    tokenizer.add_special_tokens({"additional_special_tokens": [*start]})
    if start:
        ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in start]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{' '.join(start)} $A", special_tokens=ids
        )
    return tokenizer


CHATML = """{%- if messages[0].role != "system" %}<|im_start|>system
Be brief.<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content | trim }}<|im_end|>
{% endfor %}"""
"""A chat template like SmolLM2's: it adds a system message, and marks turns."""


def chatting(template: str = CHATML, *start: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with a chat template."""
    tokenizer = starting("<|im_start|>", "<|im_end|>", *start)
    if not start:  # nothing comes in front of a text
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="$A", special_tokens=[]
        )
    tokenizer.chat_template = template
    return tokenizer


def nllb() -> NllbTokenizer:
    """A tokenizer like NLLB's: a text begins with its language, English by default."""
    letters = sorted(set("".join(SENTENCES)) - {" "})
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *letters]
    return NllbTokenizer(
        vocab={piece: index for index, piece in enumerate(pieces)},
        merges=[],
        extra_special_tokens=["eng_Latn", "deu_Latn"],
    )


def mbart() -> MBartTokenizer:
    """A tokenizer like the first mBART's: a text ends with its language, English by default."""
    letters = sorted(set("".join(SENTENCES)) - {" "})
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *letters, "en_XX", "de_DE", "<mask>"]
    return MBartTokenizer(vocab=[(piece, -1.0) for piece in pieces])


def m2m100(folder: Path) -> M2M100Tokenizer:
    """A slow tokenizer like M2M100's: languages are tokens such as __de__, unset for targets."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *_sentencepiece(folder / "both", SENTENCES)]
    vocab = folder / "vocab.json"
    vocab.write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    return M2M100Tokenizer(str(vocab), str(folder / "both.model"))


def across_words() -> PreTrainedTokenizerFast:
    """A BPE without pre-tokenizer: its pieces may cover the end of one word and all of the next."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.decoder = decoders.Fuse()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=["<unk>", "<pad>"], show_progress=False
    )
    backend.train_from_iterator(
        ["the dog saw a dog, too. " * 3, "of the " * 9, *SENTENCES], trainer
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>")


def byt5() -> ByT5Tokenizer:
    """A slow tokenizer like ByT5's: one token per UTF-8 byte, spaces are tokens."""
    return ByT5Tokenizer()


def marian(folder: Path, separate_vocabs: bool = False, unused_targets: int = 0) -> MarianTokenizer:
    """A slow tokenizer like Marian's: sentencepiece models for English with Russian, and German.

    Args:
        folder: folder to write its files into.
        separate_vocabs: whether each side has a vocabulary of its own.
        unused_targets: number of pieces in front of the target vocabulary that no text has.
    """
    source = _sentencepiece(folder / "source", [*SENTENCES[:5], *RUSSIAN])
    target = _sentencepiece(folder / "target", GERMAN)
    sides = {
        "vocab": folder / "vocab.json",
        "target_vocab_file": folder / "target_vocab.json",
    }
    joint = list(dict.fromkeys([*source, *target]))
    pieces = {
        "vocab": source if separate_vocabs else joint,
        # In another order, so that an id has a different piece on each side.
        "target_vocab_file": [*(f"unused{i}" for i in range(unused_targets)), *reversed(target)],
    }
    for name, path in sides.items():
        listed = ["</s>", "<unk>", *pieces[name], "<pad>"]
        path.write_text(json.dumps({piece: index for index, piece in enumerate(listed)}))
    return MarianTokenizer(
        source_spm=str(folder / "source.model"),
        target_spm=str(folder / "target.model"),
        vocab=str(sides["vocab"]),
        target_vocab_file=str(sides["target_vocab_file"]) if separate_vocabs else None,
        separate_vocabs=separate_vocabs,
        source_lang="en",
        target_lang="de",
        model_max_length=64,
    )


def _vocab_and_merges(backend: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    state = json.loads(backend.to_str())["model"]
    return state["vocab"], [tuple(pair) for pair in state["merges"]]


def _sentencepiece(prefix: Path, sentences: Sequence[str]) -> list[str]:
    """Train a model at `prefix`.model and return its pieces without the special ones."""
    model = io.BytesIO()
    with contextlib.redirect_stderr(io.StringIO()):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=150,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    Path(f"{prefix}.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    return [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
