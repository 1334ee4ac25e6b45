"""Stores of a run: which states each model needs, their size, and their making when asked for."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import final

from headcount.core import CorpusError, Progress, check_disk, forget, size_in_words
from headcount.corpora import Corpus
from headcount.papers.evolution.pictures import Pictured, pictured
from headcount.papers.evolution.record import EvolutionOptions, StoreFacts
from headcount.papers.evolution.state_store import (
    StateStore,
    has_output,
    rows_of,
    write_states,
)
from headcount.papers.evolution.subjects import CAUSAL, MASKED, Subject
from headcount.papers.evolution.tokens import Occurrences, Tokens, balanced, of_sentences

TEXT, OUTPUT, SENTENCES = "text", "output", "sentences"
REPLACED, PICTURES = "replaced", "pictures"

_NEEDED_BY = {
    TEXT: {"information", "neighbours"},
    OUTPUT: {"information"},
    REPLACED: {"information"},
    PICTURES: {"pictures"},
    SENTENCES: {"distance", "influence"},
}
"""The quantities that need a view."""


@final
class Stores:
    """The states of all models of a run; models with one tokenizer share their tokens.

    Args:
        subjects: the models.
        corpus: the texts.
        options: what is measured.
        folder: folder of the files.
        progress: called with the stage and the number of inputs.

    Raises:
        CorpusError: if the corpus has too few occurrences or states.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        corpus: Corpus,
        options: EvolutionOptions,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.options, self.folder, self.progress = options, folder, progress
        self.tokens: dict[str, Tokens] = {}
        self._chosen: dict[tuple[str, str, bool], Occurrences] = {}
        self._pictured: dict[str, Pictured] = {}
        self._open: dict[tuple[str, str], StateStore] = {}
        self.facts: list[StoreFacts] = []
        for subject in subjects:
            revision = subject.tokenizer_revision
            if revision not in self.tokens:
                self.tokens[revision] = Tokens.of(corpus, subject.encoder)
            for view in self.views(subject):
                store = self.planned(subject, view)
                self.facts.append(self._facts(subject, view, store))

    def views(self, subject: Subject) -> list[str]:
        """The views of a model that are stored."""
        needed = [name for name, by in _NEEDED_BY.items() if by & set(self.options.measure)]
        lacks = {OUTPUT: not has_output(subject), REPLACED: subject.objective != MASKED}
        return [name for name in needed if not lacks.get(name, False)]

    @property
    def peak_bytes(self) -> int:
        """Largest size on disk at a time: all sentences, and one model's other views."""
        kept = sum(each.num_bytes for each in self.facts if each.view == SENTENCES)
        passing = [each.num_bytes for each in self.facts if each.view != SENTENCES]
        return kept + max(passing, default=0)

    def check(self) -> None:
        """Say the size, and check it against the free disk.

        Raises:
            InputError: if the disk is too small.
        """
        there = sum(path.stat().st_size for path in self._stored())
        advice = "Name a folder on another disk with --out, or lower --occurrences or --types."
        check_disk(self.folder, self.peak_bytes - there, "hidden states", advice)
        if self.peak_bytes:
            self.progress(f"states take {size_in_words(self.peak_bytes)} on disk", 1, 1)

    def tokens_of(self, subject: Subject) -> Tokens:
        """The corpus as a model reads it."""
        return self.tokens[subject.tokenizer_revision]

    def planned(self, subject: Subject, view: str) -> StateStore:
        """A store before the model has run; nothing is written."""
        path = self.folder / subject.label / f"{view}.f16"
        chosen = self.occurrences(subject, view)
        return StateStore(path, len(subject.states), chosen, subject.width)

    def get(self, subject: Subject, view: str, key: str) -> StateStore:
        """The states of a model, from disk as far as they are there."""
        which = subject.label, view
        if which not in self._open:
            store = self.planned(subject, view)
            if view != SENTENCES:
                self.release(store.path)
            tokens, seed = self.tokens_of(subject), self.options.seed
            rows = list(rows_of(subject, tokens, store.occurrences, view, seed))
            steps = partial(self.progress, f"{subject.label}, states ({view}): inputs")
            write_states(subject, store, rows, key, self.options.max_tokens, steps)
            self._open[which] = store
        return self._open[which]

    def _stored(self) -> Iterator[Path]:
        """The files of states on this process's disk."""
        return self.folder.glob("*/*.f16")

    def release(self, wanted: Path | None = None) -> None:
        """Delete all states; or, if some are wanted, others that belong to one model alone."""
        for path in [*self._stored()]:
            if wanted is None or (path != wanted and path.stem != SENTENCES):
                self._open.pop((path.parent.name, path.stem), None)
                forget(path.with_suffix(".json"))  # before the numbers, which it says are there
                path.unlink()

    def occurrences(self, subject: Subject, view: str) -> Occurrences:
        """The tokens whose states are stored in a view."""
        if view == PICTURES:
            return self.pictured(subject).occurrences
        before = view == OUTPUT and subject.objective == CAUSAL
        which = subject.tokenizer_revision, SENTENCES if view == SENTENCES else TEXT, before
        if which not in self._chosen:
            self._chosen[which] = self._draw(self.tokens_of(subject), *which[1:])
        return self._chosen[which]

    def pictured(self, subject: Subject) -> Pictured:
        """The tokens in pictures."""
        revision = subject.tokenizer_revision
        if revision not in self._pictured:
            self._pictured[revision] = pictured(
                subject, self.tokens_of(subject), self.options.words, self.options.seed
            )
        return self._pictured[revision]

    def _draw(self, tokens: Tokens, view: str, before: bool) -> Occurrences:
        options = self.options
        if view == SENTENCES:
            return of_sentences(tokens, options.sentences, options.seed)
        found = balanced(
            tokens, options.occurrences, options.types, options.seed, first=int(before)
        )
        if options.clusters is not None and len(found) < options.clusters:
            raise CorpusError(
                f"Expected at least as many states as clusters ({options.clusters:,}), got "
                f"{len(found):,}. Give a larger corpus, or lower --clusters."
            )
        return found

    def _facts(self, subject: Subject, view: str, store: StateStore) -> StoreFacts:
        return StoreFacts(
            model=subject.name,
            objective=subject.objective,
            seed=subject.seed,
            view=view,
            occurrences=0 if view in (SENTENCES, PICTURES) else self.options.occurrences,
            types=store.occurrences.num_types,
            states=len(store.occurrences),
            num_bytes=store.num_bytes,
        )
