"""Mistakes that the user can mend, each told in one sentence: expected, found, what to do."""


class InputError(ValueError):
    """Something the user gave us cannot be used; the message says what to change."""


class CorpusError(InputError):
    """A corpus cannot be read, or cannot be read by this tokenizer."""


class ModelError(InputError):
    """A model cannot be loaded or cannot be measured."""


class UnsuitedError(ModelError):
    """A method, of several that there are, can't choose heads of this model."""
