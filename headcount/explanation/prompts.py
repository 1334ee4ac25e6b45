"""Prompts of predictions to explain: one, those of a file, and those that we ship. Needs no torch.

    {"prompt": "When Mary and John went to the store, John gave a drink to", "target": " Mary",
     "against": " John", "corrupt": "When Mary and John went to the store, Peter gave a drink to"}

A file has such an object on every line; `against` and `corrupt` may be left out.

Options of an explanation. Needs no torch.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from headcount.core import (
    DATA,
    Head,
    InputError,
    check_choice,
    check_seed,
    check_unicode,
    names_a_head,
)
from headcount.corpora import check_template, json_of, numbered_lines
from headcount.vocabulary import EffectName

OURS = DATA / "prompts"
"""Folder of the prompts that we ship, a task a file."""


@final
@dataclass(frozen=True)
class Prompt:
    """A text, and what is asked of a model that reads it.

    Raises:
        InputError: for an empty text.
    """

    prompt: str
    """What the model reads; a masked model fills its [MASK]."""
    target: str
    """The continuation, filling or label that is explained; of most models, " Mary" with a blank
    is a word."""
    against: str | None = None
    """Its rival."""
    corrupt: str | None = None
    """A second prompt, with another answer, whose heads' outputs replace those of the first."""
    origin: str = "The prompt"
    """Where it is from, for messages."""

    def __post_init__(self) -> None:
        for name in ("prompt", "target", "against", "corrupt"):
            text = getattr(self, name)
            if isinstance(text, str) and not text.strip() or text is None and name in _NEEDED:
                raise InputError(
                    f"{self.origin}: expected a {name} of at least one word, got "
                    f"{'none' if text is None else repr(text)}. Give a text."
                )
            check_unicode(text or "", f"the {name}", f"{self.origin}: ")


_NEEDED = ("prompt", "target")
_NAMES = tuple(field.name for field in fields(Prompt) if field.name != "origin")


def read_prompts(file: str | Path) -> tuple[Prompt, ...]:
    """The prompts of a file, or of a task of ours by its name.

    >>> len(read_prompts("indirect-objects"))
    16

    Raises:
        CorpusError: if the file can't be read.
        InputError: for a file without prompts, or a line that is no prompt.
    """
    ours = {path.stem: path for path in sorted(OURS.glob("*.jsonl"))}
    path = ours.get(str(file), Path(file))
    if not path.is_file():
        raise InputError(
            f"Expected a file of prompts (.jsonl), or one of {', '.join(ours)}, got {file}, which "
            "is neither. Check the name."
        )
    found = tuple(
        _prompt(json_of(line, f"{path}:{number}"), f"{path}:{number}")
        for number, line in numbered_lines(path)
        if line.strip()
    )
    if not found:
        raise InputError(f"Expected prompts in {path}, a JSON object a line, got none. Add some.")
    return found


def _prompt(row: Any, origin: str) -> Prompt:
    cells = row if isinstance(row, dict) else {}
    is_text = all(isinstance(cells.get(name), str | None) for name in _NAMES)
    if not is_text or not {*_NEEDED} <= {*cells} <= {*_NAMES}:
        raise InputError(
            f"{origin}: expected an object with texts as prompt and target, and maybe against and "
            f"corrupt, got {row!r:.80}. Fix the line."
        )
    return Prompt(**cells, origin=origin)


@final
@dataclass(frozen=True)
class ExplainOptions:
    """How a prediction is read, and which effects of which heads are measured.

    Raises:
        InputError: for values that can't be used.
    """

    first: bool = False
    """Read the first token of a target of several tokens, in place of their joint probability."""
    chat: bool = False
    """Write prompts as a user's message of the model's chat template; as they are by default."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""
    effects: tuple[EffectName, ...] = ()
    """Effects to measure; all by default, those of a second prompt where there is one."""
    heads: tuple[str, ...] = ()
    """Heads to replace, such as dec.3.7; all by default."""
    query: str | None = None
    """Word whose look at another is knocked out; by default the tokens that predict."""
    key: str | None = None
    """Word that is not seen, wherever it stands; by default the target where the prompt has it."""
    together: tuple[int, ...] = (1, 3, 5, 10)
    """Numbers of the best heads that are replaced together."""
    circuit: bool = False
    """Find the smallest sets of heads that keep what is predicted; needs several prompts."""
    draws: int = 3
    """Number of sets of random heads beside the best ones."""
    seed: int = 0
    """Seed of the random heads."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_template(self.chat, self.template)
        for name in ("query", "key"):
            check_unicode(getattr(self, name) or "", name)
        for effect in self.effects:
            check_choice("an effect", effect, EffectName)
        for head in self.heads:
            if not names_a_head(head):
                Head.parse(head)
        if self.circuit and self.heads:
            raise InputError(
                f"Expected all heads for a circuit, got {' '.join(self.heads)} alone. Leave "
                "--heads or --circuit out."
            )
        if min(self.draws, *self.together, 1) < 1:
            raise InputError(
                "Expected numbers of heads and of draws of at least 1, got "
                f"{self.together} and {self.draws}. Leave them out for the defaults."
            )
