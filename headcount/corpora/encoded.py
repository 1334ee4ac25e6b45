"""The token ids of one side of one sentence."""

from dataclasses import dataclass

NO_WORD = -1


@dataclass(frozen=True)
class Encoded:
    """One side of one sentence as the model will see it."""

    ids: list[int]
    """Token ids, special tokens included."""
    word_of: list[int]
    """Index of the word of each token; -1 for special tokens and for text without words."""
    is_special: list[bool]
    """True for tokens added by the tokenizer; an unknown word is content."""
    full_length: int
    """Number of tokens before truncation."""
    num_words_cut: int = 0
    """Number of words that truncation removed completely."""
    num_words_lost: int = 0
    """Number of words that the tokenizer turns into no piece at all."""
    type_ids: list[int] | None = None
    """Token types of a pair by the tokenizer's template; None for a single sentence."""

    @property
    def truncated(self) -> bool:
        """Whether the sentence was too long for the model."""
        return len(self.ids) < self.full_length
