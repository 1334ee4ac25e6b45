"""The manifest of `headcount align` for models that read sound."""

from headcount.core import Capability

WORD_TIMES = Capability(
    name="align",
    group="Look at what heads do",
    sentence="Find the heads of a Whisper that say when words are spoken.",
    docs="howto/whisper",
    command="headcount.wordtimes.command:AlignSound",
    result="headcount.wordtimes.result:WordTimes",
    document="headcount.wordtimes.document:word_times_document",
    notes="headcount.wordtimes.document:word_times_notes",
)
