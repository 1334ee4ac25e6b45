"""Write a run folder with made-up but valid results, as `headcount analyze` would leave it."""

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headcount.results import Analysis, read_run

SHORT = {"encoder.self": "enc", "decoder.self": "dec", "decoder.cross": "cross"}
RELATIONS = (
    "nsubj",
    "obj",
    "amod",
    "advmod",
    "det",
    "case",
    "nmod:poss",
    "aux",
    "mark",
    "conj",
    "cc",
    "compound:prt",
    "ccomp",
)
DIRECTIONS = ("dependent->head", "head->dependent", "head<-dependent")
PATTERNS = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
WORDS = (
    "the old keeper of a quiet lighthouse wrote letters that nobody answered , because every "
    "boat which passed the rocks at night was already late ."
).split()
HOSTILE = (
    "</script><script>window.stolen = 1</script>",
    "<img src=x onerror=window.stolen=1>",
    "\u2028{{ 7 * 7 }}",
    "\"'&lt;",
)

HOW = "|kernel:sdpa|dtype:float32|torch:2.13|transformers:5.23"
"""Ending of signatures of this version."""

_R = {"rho": 0.7, "low": 0.5, "high": 0.8, "num_heads": 72}


@dataclass(frozen=True)
class Wish:
    """The contents of the folder to write."""

    sites: tuple[str, ...] = ("encoder.self",)
    layers: int = 6
    heads: int = 12
    roles: bool = True
    relations: bool = True
    null: bool = False
    importance: bool = False
    profiles: bool = False
    hostile: bool = False
    not_a_number: bool = False
    num_words: int = 25
    warnings: tuple[str, ...] = ()
    seed: int = 3


@cache
def shared_run(folder: Path) -> Analysis:
    """The run in a folder of the whole session, read once: do not change it."""
    return read_run(folder)


def write_run(folder: Path, wish: Wish = Wish()) -> Path:
    """Write all files of a run and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(wish.seed)
    names = [
        (f"{SHORT[site]}.{layer}.{index}", site, layer, index)
        for site in wish.sites
        for layer in range(wish.layers)
        for index in range(wish.heads)
    ]
    roles = {name: _roles(random, wish) for name, *_ in names}
    heads = _heads(random, names, roles, wish)
    if wish.importance:
        heads = _with_scores(np.random.default_rng(wish.seed), heads, wish)
        found = _importance(heads, wish)
        (folder / "importance.json").write_text(json.dumps(found | {"files": {}}), encoding="utf-8")
    heads.to_parquet(folder / "heads.parquet")
    _offsets(random, heads).to_parquet(folder / "offsets.parquet")
    if wish.profiles:
        _profiles(np.random.default_rng(wish.seed), roles).to_parquet(folder / "profiles.parquet")
    if wish.relations:
        _relations(random, names, 0.35).to_parquet(folder / "relations.parquet")
    if wish.null:
        few = {name: [] if random.random() < 0.95 else ["positional"] for name, *_ in names}
        _heads(random, names, few, wish).to_parquet(folder / "null_heads.parquet")
        if wish.relations:
            _relations(random, names, 0.05).to_parquet(folder / "null_relations.parquet")
    examples = {name: _examples(random, found, wish) for name, found in roles.items()}
    (folder / "examples.json").write_text(json.dumps(examples), encoding="utf-8")
    (folder / "run.json").write_text(
        json.dumps(_info(roles, wish) | {"files": {}}), encoding="utf-8"
    )
    return folder


def _roles(random: np.random.Generator, wish: Wish) -> list[str]:
    if not wish.roles or random.random() < 0.45:
        return []
    known = ("positional", "syntactic", "rare", "sink", "punctuation", "block")
    number = random.choice([1, 2, 3], p=[0.75, 0.2, 0.05])
    chosen = random.choice(6, size=number, replace=False, p=[0.2, 0.25, 0.05, 0.35, 0.1, 0.05])
    found = [known[i] for i in sorted(chosen)]
    return [*found, HOSTILE[0]] if wish.hostile and random.random() < 0.2 else found


def _heads(random, names, roles, wish: Wish) -> pd.DataFrame:
    num = len(names)
    columns: dict[str, Any] = {
        name: [row[i] for row in names] for i, name in enumerate(("head", "site", "layer", "index"))
    }
    columns["confidence"] = random.beta(3, 4, num)
    columns["entropy"] = random.gamma(4, 0.4, num)
    columns["positional_offset"] = random.choice([-2, -1, 0, 1, 2], num)
    columns["positional_share"] = random.beta(1, 3, num)
    for name in ("self", "prev", "next", "first", "sep", "punct"):
        columns[f"attn_{name}"] = random.beta(1, 5, num)
    columns["rare_share"], columns["rare2_share"] = random.beta(1, 8, num), random.beta(2, 8, num)
    columns["rare_cases"] = np.full(num, 18_231)
    columns["value_norm"] = random.gamma(8, 0.2, num)
    for name in ("first", "sep", "punct"):
        columns[f"norm_{name}"] = columns[f"attn_{name}"] * random.uniform(0.1, 1, num)
    patterns = random.dirichlet([1.5, 1, 1, 0.3, 2], num)
    columns |= {f"pattern_{name}": patterns[:, i] for i, name in enumerate(PATTERNS)}
    columns["roles"] = [roles[row[0]] for row in names]
    table = pd.DataFrame(columns)
    if wish.not_a_number:
        table[["value_norm", "norm_first", "norm_sep", "norm_punct", "rare_share"]] = np.nan
        table.loc[:3, ["confidence", "positional_share", "positional_offset"]] = np.nan
    return table


def _with_scores(random, heads: pd.DataFrame, wish: Wish) -> pd.DataFrame:
    """The columns that `headcount importance` adds: a few heads help, most make no difference."""
    num = len(heads)
    delta = random.gamma(0.35, 0.03, num) - 0.002
    columns = {
        "gradient": delta + random.gamma(2, 0.01, num),
        "relevance": random.dirichlet(np.full(num, 2.0)),
        "ablation_delta": delta,
        "ablation_low": delta - 0.004,
        "ablation_high": delta + 0.005,
        "ablation_p": np.where(delta > 0.004, 0.003, 0.8),
        "norm_score": random.gamma(8, 1 / 8, num),
        "sink_score": -heads["attn_first"],
    }
    table = heads.assign(**columns)
    if wish.not_a_number:
        table.loc[:2, "norm_score"] = np.nan
        table.loc[1, ["ablation_delta", "ablation_low", "ablation_high", "ablation_p"]] = np.nan
    return table


def _importance(heads: pd.DataFrame, wish: Wish) -> dict[str, Any]:
    layers, single = [], []
    rows = heads.to_dict("records")
    for site, layer in dict.fromkeys((row["site"], row["layer"]) for row in rows):
        own = [row for row in rows if (row["site"], row["layer"]) == (site, layer)]
        place = {"site": site, "layer": layer}
        delta = float(np.nansum([max(0.0, row["ablation_delta"]) for row in own]))
        layers.append({**place, "delta": delta, "low": delta / 2, "high": 2 * delta, "p": 0.001})
        best = max(own, key=lambda row: row["gradient"])["head"]
        single.append({**place, "head": best, "delta": delta / 3, "low": None, "high": None})
    names = ["ablation_delta", "gradient", "relevance", "confidence"]
    ranks = [heads[name].rank().fillna(0).to_numpy() for name in names]
    rho = np.corrcoef(ranks).round(4)
    return {
        "task": HOSTILE[0] if wish.hostile else "similarity",
        "metric": HOSTILE[1] if wish.hostile else "spearman",
        "higher_is_better": True,
        "num_examples": 1500,
        "loss": 0.0312,
        "score": 0.8203,
        "methods": ["gradient", "relevance", "ablation", "norm", "sink"],
        "ablation": {
            "replacement": "zero",
            "quantity": "loss",
            "p_each": heads["ablation_p"].tolist(),
        },
        "sites": [
            {"site": site, "delta": 0.5 + number, "low": 0.4, "high": 3.0, "p": 0.001}
            for number, site in enumerate(dict.fromkeys(row["site"] for row in rows))
        ],
        "layers": layers,
        "single_heads": single,
        "agreement": {
            "names": names,
            "rho": rho.tolist(),
            "low": np.maximum(rho - 0.2, -1).tolist(),
            "high": np.minimum(rho + 0.2, 1).tolist(),
            "best_predictor": "gradient",
            "sentence": HOSTILE[1] if wish.hostile else "On this model gradient predicts best.",
        },
        "across": {
            "task": "similarity",
            "num_examples": 800,
            "pearson": _R,
            "spearman": _R,
            "sentence": HOSTILE[2] if wish.hostile else "Effects agree with other data.",
        },
        "seconds": {"ablation": 41.2},
        "signature": f"headcount:0.1|task:similarity{HOW}",
    }


def _offsets(random, heads: pd.DataFrame) -> pd.DataFrame:
    offsets = np.arange(-14, 15)
    tables = []
    for row in heads.to_dict("records"):
        share = np.nan_to_num(row["positional_share"], nan=0.3)
        rest = random.dirichlet(np.exp(-np.abs(offsets) / 4)) * (1 - share)
        rest[offsets == np.nan_to_num(row["positional_offset"])] += share
        tables.append(pd.DataFrame({"head": row["head"], "offset": offsets, "share": rest}))
    return pd.concat(tables)


def _relations(random, names, lift: float) -> pd.DataFrame:
    rows = []
    for relation in RELATIONS:
        cases = int(random.choice([37, 240, 1204, 4001], p=[0.2, 0.3, 0.3, 0.2]))
        for direction in DIRECTIONS:
            baseline = float(random.uniform(0.15, 0.7))
            offset = int(random.choice([-3, -2, -1, 1, 2]))
            for name, *_ in names:
                accuracy = float(
                    np.clip(baseline * random.beta(2, 6) + lift * random.beta(1, 3), 0, 1)
                )
                correct = round(accuracy * cases)
                rows.append(
                    (name, relation, direction, correct / cases, correct, cases, baseline, offset)
                )
    columns = [
        "head",
        "relation",
        "direction",
        "accuracy",
        "correct",
        "cases",
        "baseline",
        "baseline_offset",
    ]
    return pd.DataFrame(rows, columns=columns)


TRAITS = {
    "previous": "positional",
    "self": "positional",
    "nsubj": "syntactic",
    "amod": "syntactic",
    "rare": "rare",
    "first": "sink",
    "punctuation": "punctuation",
    "segment": "block",
}
"""Traits with the roles that they can give."""


def _profiles(random, roles: dict[str, list[str]]) -> pd.DataFrame:
    """Traits that agree with the roles; some heads without a role have a tendency."""
    rows = []
    for head, own in roles.items():
        tends = random.random() < 0.5 and not own
        tendency = random.choice([*TRAITS]) if tends else None
        for trait, role in TRAITS.items():
            first = next(name for name, its in TRAITS.items() if its == role)
            verdict = "role" if role in own and trait == first else "none"
            verdict = "tendency" if trait == tendency else verdict
            strength = float(random.uniform(0.1, 0.9)) if verdict != "none" else -0.4
            is_syntax = role == "syntactic"
            rows.append(
                {
                    "head": head,
                    "trait": trait,
                    "role": role,
                    "offset": {"previous": -1, "self": 0}.get(trait),
                    "relation": trait if is_syntax else None,
                    "direction": "head->dependent" if is_syntax else None,
                    "share": 0.2 + 0.8 * strength,
                    "null": 0.2,
                    "attainable": 1.0,
                    "strength": strength,
                    "low": strength - 0.1,
                    "high": strength + 0.1,
                    "cases": 400,
                    "units": 90,
                    "score": 0.2 + 0.8 * strength,
                    "chance": 0.2,
                    "position_null": 0.1,
                    "first_gain": 0.8 * strength,
                    "paper_share": 0.2 + 0.8 * strength,
                    "p": 0.6 if verdict == "none" else 1e-9,
                    "p_holm": 1.0 if verdict == "none" else 1e-7,
                    "verdict": verdict,
                }
            )
    return pd.DataFrame(rows).astype({"offset": "Int64"})


def _examples(random, roles: list[str], wish: Wish) -> list[dict]:
    words = [WORDS[i % len(WORDS)] for i in range(wish.num_words)]
    if wish.hostile:
        words[: len(HOSTILE)] = HOSTILE
    size = len(words)
    result = []
    for number in range(3):
        weights = random.dirichlet(np.full(size, 0.08), size)
        queries = random.choice(size, 3, replace=False)
        arcs = [[int(q), int(weights[q].argmax())] for q in queries]
        result.append(
            {
                "role": roles[0] if roles else "",
                "caption": HOSTILE[1]
                if wish.hostile
                else f"nsubj dependent->head: {3 - number} of 3",
                "queries": words,
                "keys": words,
                "weights": _base64(weights),
                "arcs": arcs,
            }
        )
    return result


def _base64(weights: np.ndarray) -> str:
    return base64.b64encode((weights * 255).round().astype(np.uint8).tobytes()).decode()


def _info(roles: dict[str, list[str]], wish: Wish) -> dict:
    why = {
        "positional": "points at offset -1 in 97 % of 24,011 queries",
        "syntactic": "finds nsubj (dependent->head) in 58.3 % of 1,204 cases, an offset in 45.1 %",
        "rare": "points at the rarest token in 61 % of 18,231 queries",
        "sink": "puts 78 % of its weight on the separator, but 21 % of the norm-weighted sum",
        "punctuation": "puts 44 % of its weight on punctuation",
        "block": "67 % of its maps have the block pattern",
    }
    found = {
        head: [{"role": name, "evidence": why.get(name, name), "score": 0.5} for name in names]
        for head, names in roles.items()
        if names
    }
    return {
        "version": 1,
        "signature": f"headcount:0.1|model:bert|revision:1f2e|corpus:9c0b|first:rarest-10{HOW}",
        "model": HOSTILE[0] if wish.hostile else "/models/all-MiniLM-L6-v2",
        "model_type": "bert",
        "corpora": ["/corpora/en_ewt-ud-dev.conllu"],
        "arguments": {"limit": None, "null": wish.null, "corpora": ["en_ewt-ud-dev.conllu"]},
        "counts": {"sentences": 2001, "tokens": 31_209, "words": 25_148, "truncated": 0},
        "sites": {site: [wish.heads] * wish.layers for site in wish.sites},
        "roles": found,
        "thresholds": {"positional_share": 0.9, "syntactic_gain": 0.1, "rare_share": 0.5},
        "warnings": [*wish.warnings, *(HOSTILE if wish.hostile else ())],
        "timings": {"census_s": 1.2, "measure_s": 31.2, "sentences_per_s": 64.1},
        "versions": {"python": "3.11", "torch": "2.13.0", "transformers": "5.23.0"},
    }
