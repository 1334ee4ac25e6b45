"""Retrieval by the book: the stock model generates, and its whole maps are looked through."""

from typing import Any

import numpy as np
import torch


def copied_shares(
    model: Any, ids: list[int], place: int, num_answer: int
) -> tuple[list[int], np.ndarray]:
    """The tokens that follow, and for all heads the share of them copied from a place."""
    prompt = torch.tensor([ids])
    everything = model.generate(
        input_ids=prompt, max_new_tokens=num_answer, do_sample=False, eos_token_id=None
    )
    made = everything[0, len(ids) :].tolist()
    with torch.no_grad():
        maps = model(input_ids=everything, output_attentions=True, use_cache=False).attentions
    shares = []
    for layer in maps:
        for head in layer[0]:
            hits = 0
            for step, token in enumerate(made):
                query = len(ids) - 1 + step
                key = int(head[query].argmax())
                hits += place <= key < place + num_answer and everything[0, key] == token
            shares.append(hits / num_answer)
    return made, np.array(shares)
