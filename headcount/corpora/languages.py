"""Languages: multilingual translators mark each text with its language.

Their tokenizers (M2M100's, NLLB's, mBART's) have a `src_lang` and a `tgt_lang`. An unset
`tgt_lang` is an error in one of them and silently means the source language in the others.
"""

from transformers import PreTrainedTokenizerBase

from headcount.core import InputError

Languages = tuple[str, str]
"""Source and target language, by the tokenizer's own names: `en de`, `eng_Latn deu_Latn`."""


def set_languages(tokenizer: PreTrainedTokenizerBase, languages: Languages) -> None:
    """Set a tokenizer's languages; they are saved with it.

    Raises:
        InputError: if the tokenizer knows no languages, or not these.
    """
    if not _is_multilingual(tokenizer):
        raise InputError(
            f"Expected a tokenizer that marks languages with --languages, got a "
            f"{type(tokenizer).__name__}, which knows none. Omit the option."
        )
    for language in languages:
        if not _is_known(tokenizer, language):
            raise InputError(
                f"Expected languages by the names of {type(tokenizer).__name__}, got "
                f"{language!r}. See the model's card for their codes."
            )
    names = dict(zip(("src_lang", "tgt_lang"), languages, strict=True))
    for name, language in names.items():
        setattr(tokenizer, name, language)
    tokenizer.init_kwargs |= names


def has_languages(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the language of targets is set or not needed."""
    return not _is_multilingual(tokenizer) or getattr(tokenizer, "tgt_lang", None) is not None


def check_languages_set(tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the language of targets is set, if the tokenizer needs it.

    Raises:
        InputError: if it is not.
    """
    if not has_languages(tokenizer):
        raise InputError(
            f"Expected the languages of sources and targets, since "
            f"{type(tokenizer).__name__} marks texts by them, but none are set. Give --languages "
            "where a command has it, load(name, languages=(source, target)), or save the tokenizer "
            "with its src_lang and tgt_lang."
        )


def check_language_position(tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that a tokenizer's targets don't end with their language.

    Raises:
        InputError: if they do (mBART-25, PLBart): decoders would have to start with it.
    """
    if "decoder_start_token_id" in language_in_generation(tokenizer):
        raise InputError(
            f"Expected a tokenizer whose targets end with {tokenizer.eos_token}, since that is "
            f"what the decoder starts with, got a {type(tokenizer).__name__}, which ends them with "
            "their language. Use another model's tokenizer, or learn new pieces."
        )


def language_in_generation(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Arguments that make `generate` write in the targets' language.

    Targets either begin with their language, after the decoder's start (M2M100, NLLB, mBART-50), or
    end with it, and then the decoder starts with it (mBART-25, PLBart). Empty in all other cases.
    """
    if getattr(tokenizer, "tgt_lang", None) is None:
        return {}
    content, ids = (
        [
            int(token)
            for token in tokenizer(text_target="a", add_special_tokens=special)["input_ids"]
        ]
        for special in (False, True)
    )
    before, after = ids[0], ids[-1]
    if ids[1 : 1 + len(content)] == content:
        return {"forced_bos_token_id": before}
    is_after = ids[: len(content)] == content and len(ids) > len(content)
    return {"decoder_start_token_id": after} if is_after and after != tokenizer.eos_token_id else {}


def _is_multilingual(tokenizer: PreTrainedTokenizerBase) -> bool:
    return hasattr(tokenizer, "src_lang") and hasattr(tokenizer, "tgt_lang")


def _is_known(tokenizer: PreTrainedTokenizerBase, language: str) -> bool:
    codes = getattr(tokenizer, "lang_code_to_token", None)
    if codes is not None:  # M2M100 keeps its codes in separate tokens
        return language in codes
    return not {language, f"__{language}__"}.isdisjoint(tokenizer.all_special_tokens)
