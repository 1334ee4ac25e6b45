"""Loaded: a model with its tokenizer and heads, and what takes a plain model for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import Heads, InputError, ModelError, amount, small_table
from headcount.corpora import TOKEN_TYPES, Encoder, language_in_generation, padded, present
from headcount.models.verdicts import Source
from headcount.tap import (
    Anatomy,
    Holder,
    check_is_model,
    evaluating,
    examine,
    input_device,
    model_of,
    positions_of,
    without_cache,
)

_NO_LIMIT = 1_000_000
"""Tokenizers without a length limit report a huge one."""


@dataclass(frozen=True)
class Loaded(Holder):
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: Tokenizer | None
    name: str
    inputs: Mapping[str, Tensor] | None = None
    """Inputs that its attention layers are found with; made up if None."""
    image_processor: Any = None
    """What turns images into pixels; None for models of text, and where none is saved."""
    processor: Any = None
    """What turns a text beside pictures into inputs; None for models that read no such texts, and
    where none is saved."""
    source: Source | None = None
    """The files that it was read from; None for a model made in memory."""
    check: bool = False
    """Whether its attention is checked again, whatever an earlier run found."""

    def __repr__(self) -> str:
        tokenizer = "no tokenizer" if self.tokenizer is None else type(self.tokenizer).__name__
        return f"Loaded({self.name!r}: {type(self.model).__name__}, {tokenizer})"

    def _repr_html_(self) -> str:
        rows = {
            "class": type(self.model).__name__,
            "heads": str(self.heads),
            "parameters": f"{self.model.num_parameters():,}",
            "tokenizer": "none" if self.tokenizer is None else type(self.tokenizer).__name__,
            "longest text": "no limit" if self.max_length is None else f"{self.max_length} tokens",
            "on": f"{input_device(self.model)}, {str(self.model.dtype).removeprefix('torch.')}",
        }
        return small_table(self.name, list(rows.items()))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        return self.model(*args, **kwargs)

    @property
    def config(self) -> PreTrainedConfig:
        """The model's configuration."""
        return self.model.config

    @cached_property
    def anatomy(self) -> Anatomy:
        """The attention layers, found and checked on first access."""
        if self.source is None or self.inputs is not None:
            return examine(self.model, self.inputs)
        return self.source.anatomy(self.model, again=self.check)

    @property
    def heads(self) -> Heads:
        """The grid of the model's heads."""
        return self.anatomy.heads

    @property
    def max_length(self) -> int | None:
        """The model's limit of tokens, including special ones; None if unlimited."""
        return max_length(self.model, self.tokenizer)

    @property
    def takes_token_types(self) -> bool:
        """Whether the model distinguishes the sentences of a pair; tokenizers may not know."""
        several = (getattr(self.model.config, "type_vocab_size", 0) or 0) >= 2
        return several and TOKEN_TYPES in signature(self.model.forward).parameters

    def encoder(
        self, strict: bool = False, windows: bool = False, window: int | None = None
    ) -> Encoder:
        """The encoder that turns sentences into the model's inputs.

        Args:
            strict: whether to refuse a sentence that is too long.
            windows: whether to read a text that is too long in windows.
            window: the length of windows; by default as many tokens as the model takes.

        Raises:
            InputError: for a window that is longer than the model takes.
            ModelError: if the model takes no text, or an encoder-decoder has no start token.
        """
        config = self.model.config
        if self.model.main_input_name != "input_ids":
            raise ModelError(
                f"Expected a model that reads text here, got {self.name} ({config.model_type}), "
                f"which reads {self.model.main_input_name}. Give folders of images to "
                "`analyze` or to the task image-classification, or name the pictures of the rows: "
                "--columns image=NAME. Give recordings to `analyze`, `align` or the task "
                "transcription. In Python, `gated` and `tapped` work with any model."
            )
        if self.tokenizer is None:
            place = repr(config.name_or_path) if config.name_or_path else "..."
            raise ModelError(
                f"Expected a tokenizer beside the weights, since a corpus is text, got {self.name} "
                "without one. A model in memory comes without: pass "
                f"headcount.Loaded(model, transformers.AutoTokenizer.from_pretrained({place}), "
                "name), or give tokenizer=... where a function takes it. Of a model that "
                "headcount.load read, there is no tokenizer that loads (from_pretrained says why), "
                "or one whose vocabulary has at most one token besides special ones: add one."
            )
        start = None
        if config.is_encoder_decoder:
            start = language_in_generation(self.tokenizer).get("decoder_start_token_id")
            start = getattr(config, "decoder_start_token_id", None) if start is None else start
            start = self.model.generation_config.decoder_start_token_id if start is None else start
            if start is None:
                raise ModelError(
                    f"Expected a decoder_start_token_id in the config of {self.name}, an "
                    "encoder-decoder, got none. Set it in config.json."
                )
        longest = self.max_length
        if window is not None and longest is not None and window > longest:
            raise InputError(
                f"Expected --window of at most {amount(longest, 'token')}, which {self.name} "
                f"takes, got {window}. Give a smaller one, or --windows alone."
            )
        windows, length = windows or window is not None, window or longest
        return Encoder(self.tokenizer, length, start, strict, self.takes_token_types, windows)

    def source_encoder(self) -> Encoder:
        """The encoder of texts without targets, which an encoder-decoder's encoder reads alone."""
        encoder = self.encoder()
        return Encoder(encoder.tokenizer, encoder.max_length, token_types=encoder.token_types)

    def read_sources(
        self, rows: Sequence[Sequence[int]], is_seen_BN: Bool[Tensor, "batch token"] | None = None
    ) -> None:
        """Run the model without output layer and decoder, for those who listen.

        Args:
            rows: token ids of the texts of a batch.
            is_seen_BN: tokens that others may attend to; all but padding by default.
        """
        model: Any = self.model
        body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
        pad_id = getattr(self.tokenizer, "pad_token_id", None)
        ids_BN = torch.from_numpy(padded(rows, pad_id if isinstance(pad_id, int) else 0))
        is_seen_BN = torch.from_numpy(present(rows)) if is_seen_BN is None else is_seen_BN
        ids_BN, mask_BN = (each.to(input_device(model)) for each in (ids_BN, is_seen_BN.long()))
        with evaluating(model), torch.inference_mode():
            body(input_ids=ids_BN, attention_mask=mask_BN, **without_cache(body))


def as_loaded(model: Loaded | PreTrainedModel, tokenizer: Tokenizer | None = None) -> Loaded:
    """The result of `load`, or a plain model with its tokenizer as `load` would return them.

    A tokenizer that is given takes the place of the one that was loaded.

    Raises:
        InputError: if it is neither, or the tokenizer is none; says what to pass.
    """
    check_is_model(model_of(model))
    if not isinstance(tokenizer, Tokenizer | None):
        kind = type(tokenizer).__name__
        advice = "Pass its .tokenizer." if isinstance(tokenizer, Loaded) else "Leave it out."
        raise InputError(f"Expected a tokenizer of transformers, got a {kind}. {advice}")
    if isinstance(model, Loaded):
        same = tokenizer is None or tokenizer is model.tokenizer
        return model if same else replace(model, tokenizer=tokenizer)
    return Loaded(model, tokenizer, model.config.name_or_path or type(model).__name__)


def check_is_loaded(given: object) -> None:
    """Check that something is what `load` returns, for classes that keep it.

    Raises:
        InputError: if it is not; says what to pass.
    """
    if not isinstance(given, Loaded):
        raise InputError(
            f"Expected what headcount.load returns, got a {type(given).__name__}. Pass "
            "headcount.Loaded(model, tokenizer, name)."
        )


def check_has_heads(loaded: Loaded) -> None:
    """Check that a model has heads; one whose heads were all pruned has none.

    Raises:
        ModelError: if it has none.
    """
    if not len(loaded.heads):
        raise ModelError(
            f"Expected a model with attention heads, got {loaded.name} with none left, so there "
            "is nothing to measure or to score."
        )


def max_length(model: PreTrainedModel, tokenizer: Tokenizer | None) -> int | None:
    """The smaller of the limits of the tokenizer and the model's positions."""
    limits = []
    if tokenizer is not None and tokenizer.model_max_length < _NO_LIMIT:
        limits.append(tokenizer.model_max_length)
    if (positions := positions_of(model.config.get_text_config())) is not None:
        limits.append(positions - _before_positions(model))
    if (transcript := getattr(model.config, "max_target_positions", None)) is not None:
        limits.append(transcript)
    return min(limits, default=None)


def _before_positions(model: PreTrainedModel) -> int:
    """Number of position rows up to the padding's, which no token uses (RoBERTa and relatives)."""
    tables = [m for name, m in model.named_modules() if name.endswith(".position_embeddings")]
    padding = (getattr(table, "padding_idx", None) for table in tables)
    return max((index + 1 for index in padding if index is not None), default=0)
