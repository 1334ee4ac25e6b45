r"""Memory that attention over a text needs, before the text is read.

Heads are read block by block, so that a layer never holds all of its weights. What still grows with
the square of a text's length is

- the mask, if there is one: what may be seen, its opposite, and numbers to add, 1 + 1 + 4 bytes for
  each pair of tokens. Causal models always have one, others if texts of a batch differ in length.
  Where a listener reads blocks, masks are made in strips and none is held, unless a bias is added
  to them, or the model's own function takes them;
- the bias of each distance, in models such as T5: 12 bytes for each pair and head;
- all weights of a layer, in modules that take a softmax of their own and where a layer is read in
  one block: 16 bytes for each pair and head, of scores, weights and copies of both.

These are measured (`tests/models/test_memory.py`), and less than what a run needs in all.

What grows with the number of tokens of a batch, on a CPU, is kept within a limit by smaller
batches:

- logits, twice in float32 where a loss is computed, four times where it has gradients;
- the graph of a pass with gradients: 17 vectors as wide as a layer, for each token and layer.

Reference for the graph: Reducing Activation Recomputation in Large Transformer Models (Korthikanti
et al., 2022), equation 1 without the weights of attention, https://arxiv.org/abs/2205.05198
"""

import torch
from transformers import PreTrainedModel

from headcount.core import InputError, amount, free_memory, size_in_words
from headcount.models.loaded import Loaded
from headcount.tap import Anatomy, input_device

MASK, BIAS, OWN = 6, 12, 16
"""Bytes for each pair of tokens of a mask; for each pair and head of a bias, of own weights."""
NUMBER = 8
"""Bytes of a token's number."""

WINDOW = "Read longer texts in windows, for example with --window 2048"
"""What to do about texts that do not fit, where they can be read in windows."""
CUT = "Leave out longer texts, or cut them"
"""What to do elsewhere."""


def attention_bytes(
    loaded: Loaded, num_rows: int, length: int, *, whole: bool = False, measured: bool = False
) -> int:
    """Bytes that attention needs over texts of a length that are read at once.

    Args:
        loaded: the model.
        num_rows: the number of texts.
        length: tokens of each.
        whole: whether a layer's weights are read in one block.
        measured: whether a listener reads blocks, for which masks are made in strips.
    """
    layers, config = loaded.anatomy.layers, loaded.config.get_text_config()
    heads = max((layer.num_heads for layer in layers), default=0)
    has_mask = num_rows > 1 or any(layer.site == "decoder.self" for layer in layers)
    has_bias = bool(getattr(config, "relative_attention_num_buckets", None))
    is_own = any(layer.by_own_softmax for layer in layers)
    in_strips = measured and not (loaded.anatomy.eager or has_bias or is_own)
    each = MASK * num_rows if has_mask and not in_strips else 0
    if has_bias:
        each += BIAS * heads
    if whole or is_own:
        each += OWN * heads * num_rows
    return each * length**2


def states_bytes(loaded: Loaded, num_rows: int, length: int) -> int:
    """Bytes of the hidden states that enter and leave a layer, and of the tokens' numbers.

    Args:
        loaded: the model.
        num_rows: the number of texts.
        length: tokens of each.
    """
    width: int = loaded.config.get_text_config().hidden_size
    return num_rows * length * (2 * width * loaded.model.dtype.itemsize + NUMBER)


ROOM = 1 << 28
"""Bytes that logits and graph of a batch may take, or half as many as the weights if that is
more."""
GRAPH = 17
"""Vectors as wide as a layer that the graph keeps of each token, for each layer."""


def batch_tokens(model: PreTrainedModel, max_tokens: int, graph: Anatomy | None = None) -> int:
    """The most tokens of a batch whose logits and graph are kept within a limit on a CPU.

    Args:
        model: the model.
        max_tokens: the most tokens in any case.
        graph: the anatomy of a model that runs with gradients; None without.
    """
    if input_device(model).type != "cpu":
        return max_tokens
    unembedding = getattr(model.get_output_embeddings(), "weight", None)
    logits = 4 * len(unembedding) if isinstance(unembedding, torch.Tensor) else 0  # not packed
    widths = [layer.num_heads * layer.head_dim for layer in graph.layers] if graph else []
    token = logits * (4 if graph else 2) + GRAPH * model.dtype.itemsize * sum(widths)
    room = max(ROOM, model.get_memory_footprint() // 2)
    return max(1, min(max_tokens, room // max(1, token)))


def check_memory(
    loaded: Loaded,
    longest: int,
    num_texts: int = 1,
    max_tokens: int = 1,
    advice: str = WINDOW,
    *,
    at_once: int | None = None,
    whole: bool = False,
    measured: bool = False,
) -> None:
    """Check that attention over the longest texts fits into the memory that is free.

    Args:
        loaded: the model.
        longest: tokens of the longest text.
        num_texts: the number of texts.
        max_tokens: the largest number of padded tokens in a batch; a longer text is one.
        advice: what to do if a single text of a model with one side does not fit, for the error.
        at_once: the number of texts that are read at once, where no option sets it.
        whole: whether a layer's weights are read in one block.
        measured: whether a listener reads blocks, for which masks are made in strips.

    Raises:
        InputError: if it does not.
    """
    free = free_for(loaded)
    rows = at_once or min(num_texts, max(1, max_tokens // max(1, longest)))

    def needs(num_rows: int) -> int:
        return attention_bytes(loaded, num_rows, longest, whole=whole, measured=measured)

    needed = needs(rows)
    if free is None or needed <= free:
        return
    if loaded.config.is_encoder_decoder and advice == WINDOW:
        advice = CUT
    if at_once is None and needs(1) <= free:
        advice = f"Lower --max-tokens to {longest}, so that each is read alone"
    texts = f"{amount(rows, 'text')} of {amount(longest, 'token')}"
    raise InputError(
        f"Expected {size_in_words(needed)} of free memory for the attention of {loaded.name} over "
        f"{texts}, got {size_in_words(free)}. {advice}."
    )


def free_for(loaded: Loaded) -> int | None:
    """Bytes that are free where a model runs; None if that is not known."""
    device = input_device(loaded.model)
    if device.type == "cpu":
        return free_memory()
    if device.type != "cuda":
        return None
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached
