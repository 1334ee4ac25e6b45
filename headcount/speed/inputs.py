"""Fit: check that two models take the same inputs and give the same kind of answers."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, final

import torch
from jaxtyping import Int64
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from headcount.core import InputError, ModelError
from headcount.corpora import Corpus, chunks
from headcount.models import Loaded
from headcount.speed.costs import Work
from headcount.tap import evaluating, input_device, run_tiny, tiny_inputs

SENTENCES_AT_ONCE = 64


@final
class TokenRows:
    """Cuts a stream of token ids into rows; the stream repeats when it ends.

    Rows have no special tokens and no padding, so all tokens of a batch count.
    """

    def __init__(self, ids_T: Int64[Tensor, " token"]) -> None:
        self.ids_T = ids_T

    @classmethod
    def random(cls, loaded: Loaded, num_tokens: int, seed: int = 0) -> "TokenRows":
        """Random ids, without special ones."""
        usual = sorted(set(range(vocabulary(loaded.model.config))) - _special(loaded))
        generator = torch.Generator().manual_seed(seed)
        choice_T = torch.randint(len(usual), (num_tokens,), generator=generator)
        return cls(torch.tensor(usual)[choice_T])

    @classmethod
    def of_text(cls, loaded: Loaded, corpus: Corpus, num_tokens: int) -> "TokenRows":
        """The first tokens of a corpus, without those that the tokenizer adds.

        Where the decoder has fewer ids than the encoder, higher ids wrap around to 0.
        """
        encoder = loaded.encoder()

        def tokens() -> Iterable[int]:
            for sentences in chunks(corpus, SENTENCES_AT_ONCE):
                for encoded in encoder.sources(sentences):
                    pairs = zip(encoded.ids, encoded.is_special, strict=True)
                    yield from (token for token, special in pairs if not special)

        ids_T = torch.tensor(list(islice(tokens(), num_tokens)))
        return cls(ids_T % vocabulary(loaded.model.config))

    def rows(self, batch: int, length: int) -> Int64[Tensor, "row token"]:
        """The first rows of a given length."""
        index_T = torch.arange(batch * length) % len(self.ids_T)
        return self.ids_T[index_T].reshape(batch, length)


def vocabulary(config: PreTrainedConfig) -> int:
    """Number of token ids that both sides of a model have.

    >>> from transformers import MarianConfig
    >>> vocabulary(MarianConfig(vocab_size=58101, decoder_vocab_size=70000))
    58101
    """
    text = config.get_text_config()
    return min(text.vocab_size, getattr(text, "decoder_vocab_size", None) or text.vocab_size)


def _special(loaded: Loaded) -> set[int]:
    config = loaded.model.config.get_text_config()
    kinds = ("pad", "bos", "eos", "sep", "cls", "mask", "decoder_start")
    named = {getattr(config, f"{kind}_token_id", None) for kind in kinds}
    ids = named if loaded.tokenizer is None else named | set(loaded.tokenizer.all_special_ids)
    return {each for each in ids if isinstance(each, int)}


_MEND = "Name a dense model and the model pruned from it"


def check_fits(dense: Loaded, pruned: Loaded) -> None:
    """Raise an error unless two models differ only in size.

    Raises:
        ModelError: If a model reads no tokens.
        InputError: If families, vocabularies, tasks, formats or devices differ.
    """
    for each in (dense, pruned):
        check_takes_tokens(each.model)
    for what, one, other in (
        ("architecture", dense.model.config.model_type, pruned.model.config.model_type),
        ("vocabulary", vocabulary(dense.model.config), vocabulary(pruned.model.config)),
        ("number format", dense.model.dtype, pruned.model.dtype),
        ("device", input_device(dense.model), input_device(pruned.model)),
        ("task", _answers(dense), _answers(pruned)),
    ):
        if one != other:
            raise InputError(
                f"Expected two models with the same {what}, but {dense.name} has {one} and "
                f"{pruned.name} has {other}. {_MEND}."
            )


def check_same_sizes(dense: Loaded, pruned: Loaded) -> None:
    """Raise an error unless the pruned model can come from the dense one, by all sizes but heads.

    Weights don't matter here: training does not change a model's speed.

    Raises:
        ModelError: If a model reads no tokens.
        InputError: If `check_fits` refuses the models, or sizes differ; the message names them.
    """
    check_fits(dense, pruned)
    one, other = (each.model.config.get_text_config().to_dict() for each in (dense, pruned))
    found = [
        f"{name} {one[name]} and {other[name]}"
        for name in one
        if type(one[name]) is int
        and name in other
        and one[name] != other[name]
        and not name.endswith("_token_id")
    ]
    if found:
        raise InputError(
            f"Expected the model that {pruned.name} was pruned from, since its head card gets the "
            f"numbers, but {dense.name} has other sizes ({', '.join(found)}). {_MEND}."
        )


def takes_tokens(model: PreTrainedModel) -> bool:
    """Whether lengths of a model's inputs are in tokens: of text, or of a Whisper's transcript."""
    return model.main_input_name == "input_ids" or model.config.model_type == "whisper"


def check_takes_tokens(model: PreTrainedModel) -> None:
    """Raise an error unless a model reads tokens.

    Raises:
        ModelError: If it reads pixels, or sound alone.
    """
    if not takes_tokens(model):
        raise ModelError(
            "Expected a model that reads tokens, in which lengths are given, but "
            f"{model.config.name_or_path or type(model).__name__} takes {model.main_input_name!r}."
        )


def _answers(loaded: Loaded) -> str:
    """Names of the model's outputs, and their last dimensions."""
    model = loaded.model
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, tiny_inputs(model))
    sizes = [
        f"{name} of size {each.shape[-1]}"
        for name, each in found.items()
        if isinstance(each, Tensor)
    ]
    return ", ".join(sizes)


Rows = Int64[Tensor, "row token"]


def forward(model: PreTrainedModel, ids_BN: Rows, new_tokens: int) -> Work:
    """One forward; an encoder-decoder gets as many target tokens as source tokens.

    A Whisper gets as much sound as it takes at once, and the tokens as transcript.
    """
    inputs = _sources(model, ids_BN)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids_BN
    return partial(run_tiny, model, inputs)


def _sources(model: PreTrainedModel, ids_BN: Rows) -> dict[str, Tensor]:
    """The tokens, or in place of them silence for each row."""
    if model.main_input_name == "input_ids":
        return {"input_ids": ids_BN}
    config: Any = model.config
    shape = (len(ids_BN), config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": torch.zeros(shape, dtype=model.dtype, device=ids_BN.device)}


def generation(model: PreTrainedModel, ids_BN: Rows, new_tokens: int) -> Work:
    """Greedy search with a cache for exactly `new_tokens` tokens."""
    inputs = _sources(model, ids_BN)
    if "input_ids" in inputs:
        inputs["attention_mask"] = ids_BN.new_ones(ids_BN.shape)
    else:  # the tokens of a transcript are all written, and no language is looked for
        inputs["decoder_input_ids"] = ids_BN[:, :1]
    return partial(
        model.generate,  # type: ignore[arg-type]
        **inputs,
        min_new_tokens=new_tokens,
        max_new_tokens=new_tokens,
        num_beams=1,
        do_sample=False,
        use_cache=True,
    )


MODES: dict[str, Callable[[PreTrainedModel, Rows, int], Work]] = {
    "forward": forward,
    "generate": generation,
}
"""Every mode by its name. A decoder's forward is the processing of a prompt."""


def fitting(model: PreTrainedModel) -> tuple[str, ...]:
    """The modes of a model; encoders don't generate."""
    return tuple(MODES) if model.can_generate() else ("forward",)
