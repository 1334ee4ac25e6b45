"""The command `headcount align`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from headcount import alignment, models
from headcount.alignment.result import AlignmentOptions
from headcount.commands import BesideCommand, Command, Flat, ParallelArguments, Report, check_data
from headcount.core import InputError
from headcount.corpora import Corpus, read_links
from headcount.wordtimes import AlignSound

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Align(ParallelArguments, BesideCommand["alignment.Alignment"]):
    """The arguments of `headcount align`."""

    RESULT = alignment.Alignment

    pairs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PAIRS ...")] = ()
    """Parallel text: .tsv (source<TAB>target), or any table with --columns text=NAME
    target=NAME. For a Whisper, SOUND: see headcount align WHISPER --help."""
    gold: Path = field(kw_only=True)
    """Gold links of every pair in Pharaoh's format (0-0 1p2) or NAACL's (1 1 2 S)."""
    how: Flat[AlignmentOptions] = field(default_factory=AlignmentOptions)

    @classmethod
    def parsed_by(cls, arguments: Sequence[str]) -> type[Command]:
        """The class for the model's input: pairs of texts, or sound.

        Raises:
            InputError: If an option is for the other input; says which.
        """
        model = next((each for each in arguments if not each.startswith("-")), "")
        kinds = (AlignSound, cls) if models.reads_sound(model) else (cls, AlignSound)
        own, other = map(_options, kinds)
        given = [each.partition("=")[0] for each in arguments if each.startswith("--")]
        if strange := [each for each in given if each in other - own]:
            inputs = ("sound", "pairs of texts") if kinds[0] is AlignSound else ("texts", "sound")
            raise InputError(
                f"{strange[0]} is an option for models that read {inputs[1]}, but {model} reads "
                f"{inputs[0]}. Leave it out."
            )
        return kinds[0]

    @cached_property
    def texts(self) -> Corpus:
        """The parallel text."""
        return self.read(self.pairs, self.source, self.target)

    def check(self) -> None:
        """Check everything that needs no model, the links included."""
        super().check()
        check_data([self.gold, *self.how.compare])
        read_links(self.gold, sum(1 for _ in self.texts))

    def measure(self, read: "models.Loaded", progress: Report) -> "alignment.Alignment":
        """Align."""
        return alignment.align(read, self.texts, self.gold, self.how, progress)


def _options(kind: type[Any]) -> set[str]:
    """The options of a command, those in its groups included, as they are written."""
    found = set[str]()
    for each in fields(kind):
        found |= {f"--{each.name.replace('_', '-')}"}
        if isinstance(made := each.default_factory, type) and is_dataclass(made):
            found |= _options(made)
    return found
