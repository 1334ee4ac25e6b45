"""A script that splits a model over its processes, and keeps what public functions say of it.

`python -m tests.models.split_over MODEL DEVICE FOLDER NAME...` writes FOLDER/RANK.pickle.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.distributed.configuration_utils import DistributedConfig

from headcount import Corpus, Options, analyze
from headcount.core import InputError, processes, wait_for_everyone
from headcount.models import Loaded, load
from headcount.skills import SkillOptions, skills
from tests.test_any_model import CASES, CORPUS

MANY = Corpus.from_sentences([f"The {n}th of these dogs {'slept ' * (n % 7)}." for n in range(90)])

FEW = SkillOptions(
    kinds=("pass key",), lengths=(150,), depths=(0.5,), prompts=4, draws=1, replace=("zero",)
)


def shared(model: Any) -> dict[str, Any]:
    """What an analysis of many batches measures, and the number of its passes in this process."""
    passes, anatomy = list[int](), model.anatomy  # whose check needs passes too
    hook = model.model.base_model.register_forward_pre_hook(lambda *_: passes.append(1))
    found = analyze(model, MANY, Options(max_tokens=64, pool=20, induction=False))
    hook.remove()
    assert found.heads.frame["head"].tolist() == [*map(str, anatomy.heads)]
    return {"heads": found.heads.frame, "passes": len(passes)}


def skilled(model: Any) -> pd.DataFrame:
    """The skills of the heads, on texts as long as rotary positions allow."""
    config = model.model.config
    longest, config.max_position_embeddings = config.max_position_embeddings, 512
    try:
        return pd.DataFrame(skills(model, MANY, FEW).heads)
    finally:
        config.max_position_embeddings = longest


MORE: dict[str, Any] = {
    "shared": shared,
    "skills": skilled,
    "analyze of a random copy": lambda model: analyze(model, CORPUS, Options(null=True)),
}


def said(model: Any, name: str, folder: Path) -> Any:
    """What a function returns, or the sentence with which it refuses."""
    try:
        return MORE[name](model) if name in MORE else CASES[name](model, {}, folder / name)
    except InputError as error:
        return str(error)


if __name__ == "__main__":
    place, device, out, names = *sys.argv[1:3], Path(sys.argv[3]), sys.argv[4:]
    rank = processes().process_index
    if device == "plan":  # as in a script of a user
        plan = DistributedConfig(tp_plan="auto")
        split = AutoModelForCausalLM.from_pretrained(place, distributed_config=plan).eval()
        model = Loaded(split, AutoTokenizer.from_pretrained(place), place)
    else:
        model = load(place, device=device)
    found = {name: said(model, name, out / str(rank)) for name in names or CASES}
    (out / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    wait_for_everyone()
    processes().destroy_process_group()
