"""Mistakes that the user can fix, each reported as: expected, got, what to do."""


class InputError(ValueError):
    """The user's input cannot be used; the message says what to change."""


class CorpusError(InputError):
    """A corpus cannot be read, or cannot be read with this tokenizer."""


class ModelError(InputError):
    """A model cannot be loaded or cannot be measured."""


class UnsuitedError(ModelError):
    """One of several methods can't choose heads of this model."""


class ConsentError(InputError):
    """Something takes very long, or loses something, and the user has not accepted it."""


class OtherRunError(InputError):
    """A state belongs to a run with another model, data or options."""


class LongRunWarning(UserWarning):
    """Something takes long, though less than what needs the user's consent."""
