"""Protected heads are kept by every method, and what is lost without protection is said."""

from dataclasses import replace

import pytest

from headcount.core import Heads, InputError, Plan
from headcount.gates import Layout
from headcount.models import Loaded
from headcount.pruning import (
    METHOD_OPTIONS,
    BudgetSpec,
    Compensation,
    PruneSettings,
    Pruning,
    Units,
    choose_heads,
    method,
    prune,
)
from headcount.pruning.budget import by_site, pruned_heads
from headcount.pruning.context import losses_of, protected_heads
from headcount.pruning.methods.learned import L0, Subset
from headcount.tasks import TaskSplits
from tests import tiny
from tests.examined import examined
from tests.pruning.context import TRAINED, context
from tests.tasks.loaded import TASKS

QUICK = TRAINED | {
    name: {"tuning": replace(kind().tuning, updates=2)}
    for name, kind in (("l0", L0), ("subset", Subset))
}


@pytest.mark.once
@pytest.mark.parametrize("name", METHOD_OPTIONS)
@pytest.mark.parametrize("task", ["masked-bert", "causal-gpt2"])
def test_every_method_keeps_protected_heads(name: str, task: str) -> None:
    """Those that the method itself would prune first, at every budget."""
    whole = context(task)
    chosen = method(name, **QUICK.get(name, {}))
    free = chosen.choose(whole, 2).plan.pruned_heads(whole.loaded.heads)
    guarded = replace(whole, units=whole.units.protecting(free[:2]))
    assert guarded.units.protected == tuple(sorted(free[:2], key=list(whole.loaded.heads).index))
    for keep in (2, 3):
        kept = chosen.choose(guarded, keep).plan.kept_heads(whole.loaded.heads)
        assert len(kept) == keep and set(free[:2]) <= set(kept)


@pytest.mark.once
@pytest.mark.parametrize("name", METHOD_OPTIONS)
def test_a_protected_head_protects_its_group(name: str) -> None:
    """Whole groups by default; otherwise no group loses more than that of the protected heads."""
    loaded, task = TASKS["causal-llama"]()
    protect = ("dec.0.1", "dec.1.3", "dec.1.4", "dec.1.5")
    units = PruneSettings(protect=protect).context(loaded, task).units
    assert [str(head) for head in units.protected] == [
        *(f"dec.0.{index}" for index in (0, 1, 2)),
        *(f"dec.1.{index}" for index in (3, 4, 5)),
    ]
    assert units.possible() == [6, 9, 12]
    settings = PruneSettings(protect=protect, whole_groups=False)
    evenly = settings.context(loaded, task)
    # In layer 0 the group of dec.0.1 can lose two heads; in layer 1 a group can lose none.
    assert evenly.units.possible() == [8, 10, 12]
    chosen = method(name, **QUICK.get(name, {}))
    for keep in (8, 10):
        plan = chosen.choose(evenly, keep).plan
        kept = set(map(str, plan.kept_heads(loaded.heads)))
        assert len(kept) == keep and {*protect} <= kept
        by_group = [sum(f"dec.0.{i}" in kept for i in group) for group in ((0, 1, 2), (3, 4, 5))]
        assert by_group[0] == by_group[1] == (keep - 6) // 2


def test_groups_with_places_protected_in_turn() -> None:
    """Tied gates can prune as many heads as a ranking: rows pair what is left of each group."""
    heads = Heads({"decoder.self": (6,)})
    every = list(heads)
    groups = ((tuple(every[:3]), tuple(every[3:])),)
    units = Units(heads, tuple((head,) for head in heads), groups)
    units = units.protecting([every[0], every[4]])
    assert units.possible() == units.tied().possible() == [2, 4, 6]
    assert [list(map(str, unit)) for unit in units.tied().units] == [
        ["dec.0.1", "dec.0.3"],
        ["dec.0.2", "dec.0.5"],
    ]
    units = units.protecting([every[1]])  # of one group two are protected, of the other one
    assert units.possible() == units.tied().possible() == [4, 6]
    gone = pruned_heads([every[5], every[2], every[3]], units, 4)
    assert gone == [every[2], every[5]], "dec.0.3 is left over in its group"
    assert Layout(heads, units.tied().units).units == ((every[2], every[3]),)


def test_too_many_protected_heads_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(*_: object, **__: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr("headcount.pruning.pipeline.evaluate", measured)
    bert = context("masked-bert")
    bert = replace(bert, units=bert.units.protecting(list(bert.loaded.heads)[:5]))
    sentence = "between 5 and .* got 3. The nearest is 5; 5 heads there are protected."
    with pytest.raises(InputError, match=sentence):
        Pruning(bert, method("fisher"), BudgetSpec(keep=3), bert.train).run()
    site = "encoder.self"
    with pytest.raises(InputError, match="keep at encoder.self, got 3. .*5 heads there are prot"):
        by_site(bert.units.named({site: 3}), {site: 3})


def test_what_can_be_protected() -> None:
    loaded, task = TASKS["causal-gpt2"]()
    roles = {"dec.0.1": ["induction"], "dec.1.0": ["induction", "previous"]}
    roles = {str(head): roles.get(str(head), []) for head in loaded.heads}
    found = protected_heads(["previous", "induction", "dec.0.0"], loaded, roles)
    assert list(map(str, found)) == ["dec.1.0", "dec.0.1", "dec.0.0"]
    for name, sentence in (
        ("dec.9.0", "Expected a head of the model .* to protect, got dec.9.0"),
        ("dec.0", "Expected a head such as enc.3.7"),
        ("inducton", "Expected a head such as dec.17.3, a role or a skill out of .*inducton"),
        (
            "syntactic",
            "Expected heads with the role syntactic to protect, found none. .*--analysis",
        ),
    ):
        with pytest.raises(InputError, match=sentence):
            protected_heads([name], loaded, roles)
    with pytest.raises(InputError, match="role induction to protect, found none"):
        choose_heads(loaded, task, "random", 2, protect=["induction"])
    plan = choose_heads(loaded, task, "random", 1, protect=["dec.1.1"])
    assert list(map(str, plan.kept_heads(loaded.heads))) == ["dec.1.1"]


def test_roles_of_an_analysis_are_protected_in_prune() -> None:
    loaded, task = TASKS["masked-bert"]()
    roles = {"enc.1.2": ["syntactic"], "enc.1.3": ["rare"]}
    settings = PruneSettings(protect=("syntactic", "enc.0.0"), roles=roles)
    splits = TaskSplits(task, task)
    found = prune(loaded, splits, "random", 2, Compensation(fold=False, rescale=False), settings)
    assert found.record.kept == ("enc.0.0", "enc.1.2")
    assert found.record.choice is not None
    assert found.record.choice.protected == ("enc.0.0", "enc.1.2")
    assert "|protect:syntactic+enc.0.0" in (found.record.signature or "")
    assert "heads with a role are pruned: 1 of 1 rare (enc.1.3). Keep a role with" in " ".join(
        found.record.warnings
    )


def test_emptied_layers_and_pruned_roles_are_said() -> None:
    _, anatomy = examined("gpt2")
    loaded = Loaded(tiny.MODELS["gpt2"](), None, "gpt2")
    heads = list(loaded.heads)
    last = [head for head in heads if head.layer == 1]
    plan = Plan.keeping(loaded.heads, [head for head in heads if head.layer != 1][1:])
    roles = {str(head): [] for head in heads} | {"dec.1.2": ["induction"], "dec.0.0": ["previous"]}
    roles |= {"dec.0.1": ["previous"]}
    scores = {str(head): float(number) for number, head in enumerate(heads)}
    found = losses_of(plan, loaded, roles, scores)
    assert found == (
        f"layer dec.1 loses all of its {len(last)} heads; {last[-1]} has the highest score there, "
        f"number 1 of {len(heads)}; with a role: dec.1.2 (induction). Keep a head of it with "
        "--protect",
        "heads with a role are pruned: 1 of 2 previous (dec.0.0); 1 of 1 induction (dec.1.2). "
        "Keep a role with --protect ROLE",
    )
    assert losses_of(Plan.keeping(loaded.heads, heads), loaded, roles, scores) == ()
    assert losses_of(plan, loaded, {}, {})[0] == (
        f"layer dec.1 loses all of its {len(last)} heads. Keep a head of it with --protect"
    )


def test_a_budget_that_no_groups_meet_is_refused_before_roles_are_looked_for() -> None:
    loaded, task = TASKS["causal-llama"]()
    stages = list[str]()
    settings = PruneSettings(progress=lambda stage, done, total: stages.append(stage))
    with pytest.raises(InputError, match="in groups of 3, got 5. The nearest is 6"):
        prune(loaded, TaskSplits(task, task), "norm", 5, settings=settings)
    assert stages == []
