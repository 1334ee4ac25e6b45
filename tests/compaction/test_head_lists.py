"""Head lists: what configurations name by number is renumbered, and what looks like it is found."""

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSpeechSeq2Seq

import headcount
from headcount.compaction import compact, warn_of_numbers
from headcount.core import ConsentError, Head, Plan, accepting
from headcount.models import HEAD_LISTS, HeadList, as_loaded
from headcount.results import PruneRecord
from headcount.tap import Anatomy, examine
from headcount.tasks import TaskSplits
from tests import tiny
from tests.tasks.loaded import TASKS
from tests.turns import slow

LISTED = [[0, 2], [1, 0], [1, 2], [2, 1]]
"""Cross-attention heads, as [layer, head], that time words in the tiny Whisper; it has 3 x 3."""


@pytest.fixture(scope="module")
def whisper() -> tuple[Any, Anatomy]:
    model: Any = tiny.MODELS["whisper"]()
    how = model.generation_config
    how.alignment_heads, how.no_timestamps_token_id, how.is_multilingual = LISTED, 50, False
    how.decoder_start_token_id, how._from_model_config = 2, False  # as one that a file had
    return model, examine(model)


def stamps(model: Any) -> tuple[Tensor, Tensor]:
    """Generated tokens and when each was said, of two rows of sound."""
    sound = torch.randn(2, 19, 34, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.generate(
            sound,
            return_token_timestamps=True,
            return_timestamps=True,
            return_dict_in_generate=True,
            max_new_tokens=12,
            min_new_tokens=12,
        )
    return found["sequences"], found["token_timestamps"]


def without(model: Any, pruned: list[str], listed: list[list[int]]) -> Any:
    """The dense model with heads whose outputs do not count, and another list."""
    gated = copy.deepcopy(model)
    for layer, head in ((each.layer, each.index) for each in map(Head.parse, pruned)):
        gated.model.decoder.layers[layer].encoder_attn.out_proj.weight.data[
            :, 10 * head : 10 * (head + 1)
        ] = 0
    gated.generation_config.alignment_heads = listed
    return gated


def plan_without(anatomy: Anatomy, pruned: list[str]) -> Plan:
    return Plan.keeping(anatomy.heads, [head for head in anatomy.heads if str(head) not in pruned])


CHOICES = {
    "none that it lists": (["cross.0.0", "cross.1.1"], [[0, 1], [1, 0], [1, 1], [2, 1]], 0),
    "some": (["cross.0.2", "cross.1.0", "cross.2.0"], [[1, 1], [2, 0]], 2),
    "all of a layer": (["cross.1.0", "cross.1.1", "cross.1.2"], [[0, 2], [2, 1]], 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["some", *slow("none that it lists", "all of a layer")])
def test_time_stamps_are_those_of_the_gated_model(
    whisper: tuple[Any, Anatomy], name: str, tmp_path: Path
) -> None:
    """Compact, loaded by headcount, and by transformers alone."""
    model, anatomy = whisper
    pruned, numbers, num_gone = CHOICES[name]
    folder = tmp_path / "small"
    headcount.save_compact(as_loaded(model), plan_without(anatomy, pruned), folder)
    kept = [pair for pair in LISTED if f"cross.{pair[0]}.{pair[1]}" not in pruned]
    ids, times = stamps(without(model, pruned, kept))
    assert times.unique().numel() > 3
    loaders = (
        AutoModelForSpeechSeq2Seq.from_pretrained,
        lambda place, **_: headcount.load(place).model,
    )
    for load in loaders:
        again: Any = load(folder, trust_remote_code=True)
        assert again.generation_config.alignment_heads == numbers
        assert torch.equal(stamps(again)[0], ids) and torch.equal(stamps(again)[1], times)
    card, record = (folder / "README.md").read_text(), PruneRecord.read(folder)
    assert sum(len(each.heads) for each in record.unlisted) == num_gone
    assert ("Time stamps of words differ from the dense model's" in card) == bool(num_gone)


@pytest.mark.slow
def test_a_plan_on_a_plan(whisper: tuple[Any, Anatomy]) -> None:
    """What was renumbered once is renumbered again."""
    model, anatomy = whisper
    first = compact(model, plan_without(anatomy, ["cross.0.0", "cross.1.0"]))
    second: Any = compact(first, Plan({"decoder.cross": {0: (1,), 1: (1,)}}))
    assert second.generation_config.alignment_heads == [[0, 0], [1, 0], [2, 1]]
    pruned = ["cross.0.0", "cross.0.1", "cross.1.0", "cross.1.1"]
    ids, times = stamps(without(model, pruned, [[0, 2], [1, 2], [2, 1]]))
    assert torch.equal(stamps(second)[0], ids) and torch.equal(stamps(second)[1], times)
    assert model.generation_config.alignment_heads == LISTED


def change(path: Path, place: str, **fields: Any) -> None:
    """Set fields of a JSON file, or of a part of it; None removes one."""
    found = json.loads(path.read_text())
    part = found[place] if place else found
    part |= fields
    for name in [name for name, value in fields.items() if value is None]:
        del part[name]
    path.write_text(json.dumps(found))


@pytest.mark.slow
def test_a_folder_of_an_earlier_version_is_named_until_it_is_corrected(
    whisper: tuple[Any, Anatomy], tmp_path: Path
) -> None:
    """It was copied with the dense model's numbers, and the warning says what to change."""
    model, anatomy = whisper
    pruned, numbers, _ = CHOICES["some"]
    folder = tmp_path / "small"
    headcount.save_compact(as_loaded(model), plan_without(anatomy, pruned), folder)
    change(folder / "config.json", "head_plan", renumbered=None)
    change(folder / "generation_config.json", "", alignment_heads=LISTED)
    with pytest.warns(UserWarning, match="alignment_heads names heads of the dense model") as seen:
        early = headcount.load(folder).model
    (said,) = [str(each.message) for each in seen if "alignment_heads" in str(each.message)]
    assert "time stamps of words are wrong" in said
    again = compact(early, Plan({"decoder.cross": {2: (0,)}}))
    assert "renumbered" not in again.config.head_plan, "what is wrong stays named"
    kept = json.loads((folder / "config.json").read_text())["head_plan"]["kept"]["decoder.cross"]
    renumbered = [
        [layer, kept[str(layer)].index(head)] for layer, head in LISTED if head in kept[str(layer)]
    ]
    assert renumbered == numbers
    change(folder / "generation_config.json", "", alignment_heads=renumbered)
    change(folder / "config.json", "head_plan", renumbered=["alignment_heads"])
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        headcount.load(folder)
    assert not [each for each in left if "alignment_heads" in str(each.message)]


@pytest.mark.slow
def test_losing_all_needs_consent(whisper: tuple[Any, Anatomy], tmp_path: Path) -> None:
    model, anatomy = whisper
    plan = plan_without(anatomy, [f"cross.{layer}.{head}" for layer, head in LISTED])
    message = "keeps some of the 4 heads in the model's alignment_heads, .* no time stamps of words"
    with pytest.raises(ConsentError, match=f"{message}.* --yes"):
        headcount.save_compact(as_loaded(model), plan, tmp_path / "small")
    assert not (tmp_path / "small").exists()
    with accepting():
        headcount.save_compact(as_loaded(model), plan, tmp_path / "small")
    assert "There are no time stamps of words" in (tmp_path / "small" / "README.md").read_text()
    again: Any = headcount.load(tmp_path / "small").model
    with pytest.raises(ValueError, match="has no `alignment_heads`"):
        stamps(again)


PLAN = {
    "heads": {"encoder.self": [4, 4, 6], "decoder.self": [8]},
    "kept": {"encoder.self": {"0": [0, 3], "1": [1], "2": [5]}, "decoder.self": {"0": [*range(8)]}},
}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"a": {"heads_that_copy": [[0, 3], [2, 5]]}}, ["a.heads_that_copy"]),
        ({"anything": [[1, 3]]}, ["anything"]),
        ({"head_scale": [0.5, 1.0, 1.0, 2.0]}, ["head_scale"]),
        ({"pattern": [[1.0] * 4, [0.0] * 4, [0.5] * 6]}, ["pattern"]),
        ({"pruned_heads": {"0": [1, 2], "2": [5]}}, ["pruned_heads"]),
        ({"pairs": [[1, 4]], "more": [[3, 0]], "none": [], "ids": [[1, 50359], [2, 3]]}, []),
        ({"image_mean": [0.5, 0.5, 0.5, 0.5], "num_heads": [1, 2, 4, 6]}, []),
        ({"layer_types": ["full"] * 4, "pruned_heads": {}, "head_dim": 4}, []),
        ({"head_plan": {"kept": [[0, 1]]}, "alignment_heads": [[0, 1]]}, []),
    ],
    ids=str,
)
def test_what_looks_like_heads_is_found(value: Any, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.json").write_text(json.dumps(value))
    (tmp_path / "vocab.json").write_text(json.dumps([[0, 1]]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_numbers(tmp_path, PLAN, "whisper")
    said = "".join(str(each.message) for each in caught)
    assert [f"{name} in more/x.json" for name in names] == ([said.split(": ")[0]] if said else [])


def test_a_saved_folder_is_searched(tmp_path: Path) -> None:
    model: Any = tiny.MODELS["bert"]()
    model.config.heads_that_copy = [[0, 1], [1, 4]]
    heads = examine(model).heads
    with pytest.warns(UserWarning, match="heads_that_copy in config.json: this looks as if"):
        headcount.save(compact(model, Plan.keeping(heads, [*heads][1:])), tmp_path / "small")


def test_prune_asks_before_it_compensates(monkeypatch: pytest.MonkeyPatch) -> None:
    from headcount.pruning import choose_heads, prune

    loaded, data = TASKS["causal-gpt2"]()
    count, config = len(loaded.heads), loaded.model.config
    (gone,) = choose_heads(loaded, data, "norm", count - 1).pruned_heads(loaded.heads)
    monkeypatch.setitem(HEAD_LISTS, config.model_type, (HeadList("uses", gone.site, "use"),))
    monkeypatch.setattr(config, "uses", [[gone.layer, gone.index]], raising=False)
    with pytest.raises(ConsentError, match=f"some of the 1 head in the model's uses.*{gone}"):
        prune(loaded, TaskSplits(data, data), "norm", count - 1)
