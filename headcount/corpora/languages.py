"""Languages: multilingual translators mark each text by the language that it is written in.

Their tokenizers (M2M100's, NLLB's, mBART's) have a `src_lang` and a `tgt_lang`. Left unset the
latter is an error in one of them and silently the source's language in the others.
"""

from transformers import PreTrainedTokenizerBase

from headcount.errors import InputError

Languages = tuple[str, str]
"""Of the sources and of the targets, by the tokenizer's own names: `en de`, `eng_Latn deu_Latn`."""


def set_languages(tokenizer: PreTrainedTokenizerBase, languages: Languages) -> None:
    """Set a tokenizer's languages, with which it is saved, too.

    Raises:
        InputError: if it knows no languages, or not these.
    """
    if not _is_multilingual(tokenizer):
        raise InputError(
            f"a tokenizer that marks languages was expected with --languages; "
            f"{type(tokenizer).__name__} knows none: leave the option out"
        )
    for language in languages:
        if not _is_known(tokenizer, language):
            raise InputError(
                f"languages by the names of {type(tokenizer).__name__} were expected; it does not "
                f"know {language!r}: see the model's card for their codes"
            )
    names = dict(zip(("src_lang", "tgt_lang"), languages, strict=True))
    for name, language in names.items():
        setattr(tokenizer, name, language)
    tokenizer.init_kwargs |= names


def has_languages(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it is known what targets are written in, or needs not be."""
    return not _is_multilingual(tokenizer) or getattr(tokenizer, "tgt_lang", None) is not None


def refuse_unset_languages(tokenizer: PreTrainedTokenizerBase) -> None:
    """Let a tokenizer pass that knows what its targets are written in, or needs not know.

    Raises:
        InputError: for any other.
    """
    if not has_languages(tokenizer):
        raise InputError(
            f"the languages of the sources and of the targets were expected, since "
            f"{type(tokenizer).__name__} marks texts by them; none are set: give --languages "
            "where a command has it, load(name, languages=(source, target)), or save the tokenizer "
            "with its src_lang and tgt_lang"
        )


def refuse_language_at_end(tokenizer: PreTrainedTokenizerBase) -> None:
    """Let a tokenizer pass whose targets don't end with their language.

    Raises:
        InputError: for any other (mBART-25's, PLBart's): decoders would have to start with it.
    """
    if "decoder_start_token_id" in language_in_generation(tokenizer):
        raise InputError(
            f"a tokenizer whose targets end with {tokenizer.eos_token} was expected, since that is "
            f"what the decoder starts with; {type(tokenizer).__name__} ends them with their "
            "language: take that of another model, or have pieces learned"
        )


def language_in_generation(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """What `generate` is to be told, so that it writes in the targets' language.

    Either targets begin with it, behind the decoder's start (M2M100, NLLB, mBART-50), or they end
    with it, and then the decoder starts with it (mBART-25, PLBart). Empty where neither is so.
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
    if codes is not None:  # M2M100 has its codes in tokens of their own
        return language in codes
    return not {language, f"__{language}__"}.isdisjoint(tokenizer.all_special_tokens)
