"""Context: what a method chooses heads with, and the settings that it is made from.

Heads can be protected from every method, and a plan warns of what it prunes.

A head is protected by its name, by a role or by a skill. Roles come from an analysis of the model
and, for causal models, from repeated random tokens, which takes seconds. Skills of language models
are measured on needles in a sample of ours and on few-shot prompts, which takes minutes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

from headcount import analysis, skills
from headcount.compaction import FeedForward, feed_forwards
from headcount.core import (
    MAX_TOKENS,
    SAMPLE,
    Count,
    Head,
    InputError,
    ModelError,
    Plan,
    Progress,
    amount,
    check_known,
    check_options,
    names_a_head,
    silent,
    sorted_by,
)
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.pruning.budget import Units
from headcount.pruning.options import CALIBRATION
from headcount.tasks import Task, check_examples_fit, drawn
from headcount.training import TrainingRun
from headcount.vocabulary import REPEATED_ROLES, ROLES, SKILLS

Roles = Mapping[str, Sequence[str]]
"""Head name to the names of its roles."""

ASKED_SKILLS = ("retrieval", "answers", "function_vector")
"""Skills that are measured if heads are to be protected by them; others are roles, too."""
KNOWN_ROLES = tuple(dict.fromkeys((*ROLES, *REPEATED_ROLES, *ASKED_SKILLS)))
"""All roles and skills that heads can be protected by."""

SHOWN = 5
"""Number of heads that a warning names."""


def check_protect(names: Sequence[str], analysed: bool = True) -> list[Head]:
    """The heads with their sites among names of heads and roles, which could be some model's.

    Args:
        names: names of heads and roles.
        analysed: whether there is an analysis, from which roles are read.

    Raises:
        InputError: for a name that is neither a head's nor a role's, or a role that only an
            analysis finds.
    """
    heads = [Head.parse(name) for name in names if "." in name]
    for role in (name for name in names if not _is_head(name)):
        check_known("a head such as dec.17.3, a role or a skill", role, KNOWN_ROLES)
        if not analysed and role not in (*REPEATED_ROLES, *ASKED_SKILLS):
            raise _no_head_with(role)
    return heads


def known_roles(
    loaded: Loaded,
    seed: int = 0,
    analysed: Roles | None = None,
    progress: Progress = silent,
    protect: Sequence[str] = (),
    asked: skills.SkillOptions | None = None,
) -> Roles:
    """What is known of the roles of a model's heads, and of the skills that are to be protected.

    Args:
        loaded: the model.
        seed: seed of the random tokens.
        analysed: roles from an analysis of the model.
        progress: called with the number of random sequences and of skills so far.
        protect: what heads are to be protected by.
        asked: how skills are asked, in a chat for example; few needles in raw text if None.

    Raises:
        ModelError: if the model can't be asked for a skill that is to be protected, or does too few
            cases of it.
    """
    found = _roles(loaded, seed, analysed, progress)
    if names := [name for name in protect if name in ASKED_SKILLS]:
        how = asked or skills.BRIEF
        more = skills.heads_with(loaded, Corpus(SAMPLE), names, how, progress)
        return {head: [*its, *more[head]] for head, its in found.items()}
    return found


def _roles(loaded: Loaded, seed: int, analysed: Roles | None, progress: Progress) -> Roles:
    """The roles by an analysis, and of causal models those on repeated random tokens."""
    found = {str(head): list((analysed or {}).get(str(head), ())) for head in loaded.heads}
    if set(loaded.heads.counts) == {"decoder.self"}:
        try:
            repeated = analysis.repeated_roles(loaded, seed, partial(progress, "roles"))
        except ModelError:  # too few tokens, or too small a vocabulary
            return found
        for head, roles in found.items():
            roles += [role for role in repeated[head] if role not in roles]
    return found


def protected_heads(names: Sequence[str], loaded: Loaded, roles: Roles) -> list[Head]:
    """The heads with one of some names or roles.

    Raises:
        InputError: for a head that the model does not have, or a role that no head has.
    """
    check_protect(names)
    heads: list[Head] = []
    for name in names:
        found = [loaded.heads.named(name)] if _is_head(name) else _with_role(name, loaded, roles)
        if unknown := [head for head in found if head not in loaded.heads]:
            loaded.anatomy.check_saw_images(unknown[0].site)
            raise InputError(
                f"Expected a head of the model ({loaded.heads}) to protect, got {unknown[0]}."
            )
        heads += found
    return list(dict.fromkeys(heads))


def _is_head(name: str) -> bool:
    return "." in name or names_a_head(name)


def _with_role(role: str, loaded: Loaded, roles: Roles) -> list[Head]:
    found = [head for head in loaded.heads if role in roles[str(head)]]
    if not found:
        raise _no_head_with(role)
    return found


def _no_head_with(role: str) -> InputError:
    if role in ASKED_SKILLS:
        return InputError(
            f"Expected heads with the skill {role} to protect, found none with a score of "
            f"{SKILLS[role].least:g} or more. Leave the skill out."
        )
    return InputError(
        f"Expected heads with the role {role} to protect, found none. Roles other than "
        f"{', '.join(REPEATED_ROLES)} of causal models are read from --analysis. Add it, or leave "
        "the role out."
    )


def losses_of(
    plan: Plan, loaded: Loaded, roles: Roles, scores: Mapping[str, float]
) -> tuple[str, ...]:
    """Warnings of layers that lose all heads, and of pruned heads with a role.

    Args:
        plan: which heads are kept.
        loaded: the dense model.
        roles: roles of its heads; empty if none were looked for.
        scores: score of every head that can be pruned, by its name; empty without scores.
    """
    pruned = list(map(str, plan.pruned_heads(loaded.heads)))
    return (*_emptied(plan, loaded, roles, scores), *_with_roles(pruned, roles))


def _emptied(plan: Plan, loaded: Loaded, roles: Roles, scores: Mapping[str, float]) -> list[str]:
    """One warning for every layer that had heads and keeps none."""
    kept = {head.layer_id for head in plan.kept_heads(loaded.heads)}
    layers: dict[str, list[str]] = {}
    for head in plan.pruned_heads(loaded.heads):
        if head.layer_id not in kept:
            layers.setdefault(str(head).rpartition(".")[0], []).append(str(head))
    order = sorted_by(scores, scores.__getitem__, descending=True)
    found = []
    for layer, heads in layers.items():
        sentence = f"layer {layer} loses all of its {amount(len(heads), 'head')}"
        scored = [head for head in order if head in heads]
        if scored:
            place = order.index(scored[0]) + 1
            sentence += f"; {scored[0]} has the highest score there, number {place} of {len(order)}"
        if held := [f"{head} ({', '.join(roles[head])})" for head in heads if roles.get(head)]:
            sentence += f"; with a role: {', '.join(held[:SHOWN])}{_more(held)}"
        found.append(f"{sentence}. Keep a head of it with --protect")
    return found


def _with_roles(pruned: Sequence[str], roles: Roles) -> list[str]:
    """One warning for all roles that pruned heads have."""
    parts = []
    for role in dict.fromkeys(role for each in roles.values() for role in each):
        having = [head for head, each in roles.items() if role in each]
        lost = [head for head in having if head in pruned]
        if lost:
            named = f"{', '.join(lost[:SHOWN])}{_more(lost)}"
            parts.append(f"{len(lost)} of {len(having)} {role} ({named})")
    if not parts:
        return []
    return [f"heads with a role are pruned: {'; '.join(parts)}. Keep a role with --protect ROLE"]


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a choice of heads runs, and on how many examples."""

    seed: int = 0
    """Seed of everything that is drawn."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch."""
    state: Path | None = None
    """Folder for intermediate state, from which an interrupted call resumes; None for no state."""
    progress: Progress = silent
    """Function called with a stage's name, how much is done, and the total."""
    calibration: Count = CALIBRATION
    """Number of training examples drawn, or all if there are fewer, for steps without training:
    scores of heads, folding, rescaling."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: if no example would be drawn.
        """
        check_options(self)


@final
@dataclass(frozen=True, eq=False)
class PruningContext(Running):
    """What a method has to choose heads with."""

    loaded: Loaded
    train: Task
    """Training data; some of its examples are used to score heads."""
    units: Units
    """What can be pruned: single heads or entire groups; and which heads must be kept."""
    roles: Roles = field(default_factory=dict)
    """Roles of the heads, by head name; empty if none were looked for."""
    feed_forwards: tuple[FeedForward, ...] = ()
    """Networks whose neurons may be pruned beside heads; none if heads alone are."""
    is_even: bool = False
    """Whether all layers keep equally many heads, and neurons."""

    @cached_property
    def sample(self) -> Task:
        """The examples for steps without training."""
        return drawn(self.train, self.calibration, self.seed)

    def watched(self, task: Task, stage: str) -> Task:
        """A task whose examples are reported as a stage while a model runs on them."""
        return task.watched(partial(self.progress, task.bar(stage)))

    def scored(self, name: str) -> Task:
        """The examples for steps without training, reported as a score runs on them."""
        return self.watched(self.sample, name)

    def training_run(
        self, stage: str, state: Path | None, about: Mapping[str, Any] | None = None
    ) -> TrainingRun:
        """One run of a training, whose progress is reported as a stage.

        Args:
            stage: the stage's name.
            state: folder from which the training resumes.
            about: further values that must be the same on resuming.
        """
        return TrainingRun(
            self.seed,
            state,
            about,
            lambda moment: self.progress(stage, moment.step, moment.steps),
        )


@final
@dataclass(frozen=True)
class PruneSettings(Running):
    """Settings of `prune` beside model, data, method and budget: sites, seed, state and the like.

    >>> PruneSettings(sites=("encoder.self",), calibration=500, seed=1).whole_groups
    True
    """

    sites: tuple[str, ...] = ()
    """Sites whose heads may be pruned; all if empty."""
    whole_groups: bool = True
    """Whether heads that share keys and values are pruned together; otherwise a layer keeps equally
    many heads of every group."""
    protect: tuple[str, ...] = ()
    """Names of heads that are kept whatever the method, or roles or skills whose heads are; a
    protected head protects its whole group."""
    roles: Roles | None = None
    """Roles of the heads by an analysis, such as `read_roles` gives; of causal models, induction
    and the like are found without."""
    even: bool = False
    """Whether all layers of a site keep equally many heads, so that the folder can be plain."""
    neurons: bool = False
    """Whether neurons of feed-forward networks may be pruned, too, under the same budget."""
    asked: skills.SkillOptions | None = None
    """How skills are asked, of heads to protect and of the pruned model; few needles in raw text if
    None."""

    def context(self, loaded: Loaded, train: Task, with_roles: bool = False) -> PruningContext:
        """What a method has to choose heads with.

        Args:
            loaded: the model.
            train: the data to choose heads with.
            with_roles: whether to find roles even if no head is protected, which takes seconds.

        Raises:
            InputError: for texts that do not fit into memory, a site or a protected head that the
                model does not have, or a protected role that no head has.
            ModelError: if neurons are to be pruned that can't be told apart, or are shared, or if
                skills are asked in a chat and there is no chat template.
        """
        if self.asked is not None and self.asked.chat:
            skills.Hay(loaded, (), chat=True, template=self.asked.template)  # needs a template
        fed = feed_forwards(loaded.model, loaded.anatomy, loaded.inputs) if self.neurons else ()
        check_examples_fit(loaded, train, self.max_tokens)
        units, roles = self.units(loaded), dict[str, list[str]]()
        if self.protect or with_roles:
            known = self.roles, self.progress, self.protect, self.asked
            roles = known_roles(loaded, self.seed, *known)
        units = units.protecting(protected_heads(self.protect, loaded, roles))
        how = {each.name: getattr(self, each.name) for each in fields(Running)}
        return PruningContext(
            loaded=loaded,
            train=train,
            units=units,
            roles=roles,
            feed_forwards=tuple(fed),
            is_even=self.even,
            **how,
        )

    def units(self, loaded: Loaded) -> Units:
        """What may be pruned, whatever is protected."""
        return Units.of(loaded.anatomy, self.sites or None, self.whole_groups, self.even)

    @property
    def signed_options(self) -> Mapping[str, object]:
        """The settings that numbers depend on, besides the seed, for signatures."""
        return {
            "sites": "+".join(self.sites) or None,
            "groups": self.whole_groups,
            "protect": "+".join(self.protect) or None,
            "calibration": self.calibration,
            "even": self.even or None,
            "neurons": self.neurons or None,
        }
