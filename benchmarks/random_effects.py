"""Effects of heads of random weights that an explanation takes for real.

A BERT of six layers of twelve heads, with random weights, fills a mask at the end of the prompts of
indirect objects, so no head has a reason to raise the name. A row for each effect says how many of
its 95 % intervals leave out 0, and how many heads have an effect after Holm's correction.

    python benchmarks/random_effects.py TOKENIZER --seeds 3
"""

from dataclasses import dataclass, replace

import torch
import tyro
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, set_seed

from headcount import Loaded
from headcount.core import table
from headcount.explanation import (
    EFFECTS,
    EffectRow,
    Explained,
    ExplainOptions,
    Prompt,
    explain,
    read_prompts,
)
from headcount.statistics import ALPHA

LAYERS, HEADS, WIDTH = 6, 12, 384


@dataclass(frozen=True)
class Arguments:
    """Explain what random weights predict."""

    tokenizer: tyro.conf.Positional[str]
    """Name or folder of a model whose tokenizer has a mask, such as MiniLM."""
    prompts: str = "indirect-objects"
    """The prompts."""
    seeds: int = 3
    """Number of models with random weights."""


def main() -> None:
    """Print a row for each effect, with a number for each seed."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    prompts = [_masked(each) for each in read_prompts(arguments.prompts)]
    found = [_explained(arguments.tokenizer, prompts, seed) for seed in range(arguments.seeds)]
    rows = [
        (
            EFFECTS[name].label,
            ", ".join(str(sum(map(_leaves_out_0, _heads(each, name)))) for each in found),
            ", ".join(str(sum(row.p < ALPHA for row in _heads(each, name))) for each in found),
        )
        for name in found[0].measured
    ]
    print(table(("effect", "intervals without 0", "p < 0.05 after Holm"), rows))


def _masked(prompt: Prompt) -> Prompt:
    """The prompt with a mask in place of its continuation."""
    both = (f"{each} [MASK]." for each in (prompt.prompt, prompt.corrupt))
    given = dict(zip(("prompt", "corrupt"), both, strict=True))
    against = None if prompt.against is None else prompt.against.strip()
    return replace(prompt, target=prompt.target.strip(), against=against, **given)


def _explained(place: str, prompts: list[Prompt], seed: int) -> Explained:
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(place)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )
    loaded = Loaded(BertForMaskedLM(config).eval(), tokenizer, f"random, seed {seed}")
    return explain(loaded, prompts, options=ExplainOptions(together=()))


def _heads(found: Explained, effect: str) -> list[EffectRow]:
    return [row for row in found.of(effect).values() if row.is_head]


def _leaves_out_0(row: EffectRow) -> bool:
    return row.low > 0 or row.high < 0


if __name__ == "__main__":
    main()
