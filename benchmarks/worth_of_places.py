"""What the heads that find places are worth in the small model of shapes and words.

    python benchmarks/worth_of_places.py SHAPES

takes the heads that find most places that captions name, and removes them together: how much the
loss of answers rises, in nats a token, beside sets of as many random other heads. Then no head may
look at the picture from the question's words, or from where the reply begins. Intervals are of
2,000 bootstrap samples of questions.
"""

import random
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

import headcount
from headcount.models import Loaded, encoder_of
from headcount.tap import Tap

KINDS = ("color", "place", "count", "digit")
RESAMPLES = 2000


def finders(loaded: Loaded, captions: Path, number: int, limit: int | None) -> list[str]:
    """The heads that find most places, by all captions."""
    found = headcount.analyze(loaded, headcount.Corpus(captions, limit=limit))
    assert found.links is not None
    links: Any = found.links[found.links["direction"] == "query->key"]
    return [str(head) for head in links.nlargest(number, "accuracy")["head"]]


def losses(loaded: Loaded, task: headcount.tasks.Task, without: Iterable[str]) -> np.ndarray:
    """Loss of each answer in nats a token, without some heads."""
    with headcount.gated(loaded.model, dict.fromkeys(without, 0.0), loaded.anatomy):
        found = headcount.tasks.score(loaded, task).evaluation
    return np.array(found.loss_N) / np.array(found.count_N)


def blind_losses(loaded: Loaded, file: Path, limit: int | None) -> dict[str, np.ndarray]:
    """Loss of each answer in nats a token, if no head looks at the picture from some tokens."""
    corpus, found = headcount.Corpus(file, limit=limit), dict[str, list[float]]()
    encoder: Any = encoder_of(loaded, corpus)
    model, tokenizer = loaded.model, encoder.tokenizer
    reply = tokenizer.convert_tokens_to_ids("<assistant>")
    for pair in encoder.encode([*corpus]):
        ids_1N, shown_N = torch.tensor([pair.source.ids]), torch.tensor(pair.source.is_picture)
        place_N = torch.arange(len(shown_N))
        begins, last = pair.source.ids.index(reply), int(place_N[shown_N].max())
        said = [place for place, role in enumerate(pair.source.roles) if role == "assistant"]
        inputs = encoder.arguments([pair.sentence], ids_1N, torch.ones_like(ids_1N).bool())
        for name, is_blind_N in (
            ("nobody", place_N < 0),
            ("the question's words", (place_N > last) & (place_N < begins)),
            ("where the reply begins", place_N >= begins),
        ):
            blocked_NN = is_blind_N[:, None] & shown_N
            blocked = {
                layer.layer_id: blocked_NN.expand(1, layer.num_heads, -1, -1)
                for layer in loaded.anatomy.layers
            }
            with torch.no_grad(), Tap(model, loaded.anatomy, blocked=blocked):
                log_NV = model(**inputs).logits[0].log_softmax(-1)
            lost = [-log_NV[place - 1, pair.source.ids[place]].item() for place in said]
            found.setdefault(name, []).append(sum(lost) / len(lost))
    return {name: np.array(each) for name, each in found.items()}


def interval(values_N: np.ndarray, seed: int = 0) -> str:
    """A mean with its 95 % interval."""
    drawn = np.random.default_rng(seed).integers(0, len(values_N), (RESAMPLES, len(values_N)))
    low, high = np.percentile(values_N[drawn].mean(1), [2.5, 97.5])
    return f"{values_N.mean():.2f} ({low:.2f} to {high:.2f})"


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    heads: int = 4,
    sets: int = 6,
    limit: int | None = None,
    seed: int = 0,
) -> None:
    """Print how much losses rise.

    Args:
        folder: what `shapes_and_words.py` wrote.
        heads: number of heads that are removed together.
        sets: number of sets of random others.
        limit: largest number of captions and of questions of each kind.
        seed: seed of the random sets.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    loaded, rng = headcount.load(folder / "model"), random.Random(seed)
    best = finders(loaded, folder / "captions.jsonl", heads, limit)
    others = [str(head) for head in loaded.heads if str(head) not in best]
    drawn = [rng.sample(others, heads) for _ in range(sets)]
    print(f"The heads that find most places: {', '.join(best)}")
    for kind in KINDS:
        file = folder / f"{kind}.jsonl"
        task = headcount.tasks.build("causal-lm", loaded, file, limit=limit, roles=["assistant"])
        dense_N = losses(loaded, task, [])
        without_N = losses(loaded, task, best) - dense_N
        random_SN = np.stack([losses(loaded, task, each) for each in drawn]) - dense_N
        each = ", ".join(f"{mean:.2f}" for mean in sorted(random_SN.mean(1)))
        print(
            f"{kind}: {interval(dense_N)} nats; without them {interval(without_N)} more, without "
            f"others {interval(random_SN.mean(0))} ({each}); difference "
            f"{interval(without_N - random_SN.mean(0))}, {len(dense_N)} questions"
        )
        blind = blind_losses(loaded, file, limit)
        nobody_N = blind.pop("nobody")
        for name, loss_N in blind.items():
            print(f"{kind}: {interval(loss_N - nobody_N)} more if nobody looks from {name}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
