"""Layer-wise relevance propagation, module by module, in the papers' words, without gradients.

Every module returns its output and a function from the relevance of its outputs to that of its
inputs. x_i's part of an output z_j = sum_i x_i w_ij + b_j is x_i w_ij / z_j.
References: Voita et al. 2019, section 4 and appendix A, https://arxiv.org/abs/1905.09418;
Achtibat et al. 2024, section 3, https://arxiv.org/abs/2402.05602
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray
Weights = Mapping[str, Array]
Back = Callable[[Array], Array]


def shares(x: Array, w: Array, z: Array, R: Array) -> Array:
    """Relevance of the inputs of one linear map: each gets its share of every output's."""
    return np.array(
        [sum(x[i] * w[j, i] / z[j] * R[j] for j in range(len(z))) for i in range(len(x))]
    )


def linear(x: Array, w: Array, b: Array | float = 0.0) -> tuple[Array, Back]:
    """A linear map of every token."""
    z = x @ w.T + b

    def back(R: Array) -> Array:
        return np.array([shares_fast(x[n], w, z[n], R[n]) for n in range(len(x))])

    return z, back


def shares_fast(x: Array, w: Array, z: Array, R: Array) -> Array:
    """`shares` for all inputs at once; a test compares the two."""
    return (x[None, :] * w / z[:, None] * R[:, None]).sum(0)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Back]:
    """A linear map: only its standard deviation, a constant here, differs between tokens."""
    width = x.shape[1]
    out, backs = [], []
    for token in x:
        deviation = math.sqrt(((token - token.mean()) ** 2).mean() + eps)
        matrix = (np.eye(width) - 1 / width) * weight[:, None] / deviation
        z, back = linear(token[None], matrix, bias)
        out.append(z[0])
        backs.append(back)
    return np.array(out), lambda R: np.array(
        [back(R[n : n + 1])[0] for n, back in enumerate(backs)]
    )


def rms_norm(x: Array, weight: Array, eps: float) -> tuple[Array, Back]:
    """A norm with a constant root mean square: every output has one input, which gets all."""
    scale = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return x / scale * weight, lambda R: R


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def product_shares(a: float, b: float, rules: str) -> float:
    """The share of the first factor in a product of two activations."""
    if rules == "attnlrp":
        return 0.5
    # a / (a + b), with 1 / t held below 1 / (2 sqrt(1e-4)) where a and b cancel
    t = (a + b) / (a - b)
    return 0.5 + 0.5 * t / (t * t + 1e-4)


def attention(
    q: Array, k: Array, v: Array, scale: float, sees: Array, rules: str
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """One head; back gives the relevance of queries, keys and values."""
    scores = q @ k.T * scale
    powers = np.exp(scores - scores.max(-1, keepdims=True)) * sees
    weights = powers / powers.sum(-1, keepdims=True)
    out = weights @ v

    def back(R: Array) -> tuple[Array, Array, Array]:
        R_q, R_k, R_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        half = 0.5 if rules == "attnlrp" else 1.0
        for i in range(len(q)):
            R_weights = np.zeros(len(k))
            for j in np.flatnonzero(sees[i]):
                part = weights[i, j] * v[j] / out[i] * R[i]
                R_v[j] += half * part
                R_weights[j] = half * part.sum()
            if rules != "attnlrp":
                continue  # weights are constants
            for j in np.flatnonzero(sees[i]):
                R_score = scores[i, j] * (R_weights[j] - weights[i, j] * R_weights.sum())
                part = q[i] * k[j] * scale / scores[i, j] * R_score
                R_q[i] += part / 2
                R_k[j] += part / 2
        return R_q, R_k, R_v

    return out, back


def add(a: Array, b: Array) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
    return a + b, lambda R: (a / (a + b) * R, b / (a + b) * R)


def bert_layer(x: Array, p: Weights, num_heads: int, rules: str, heads: list[Array]) -> Any:
    """A layer of BERT; back appends the relevance of its heads to `heads`."""

    def projected(y: Array, name: str) -> tuple[Array, Back]:
        return linear(y, p[f"{name}.weight"], p[f"{name}.bias"])

    def normed(y: Array, name: str) -> tuple[Array, Back]:
        return layer_norm(y, p[f"{name}.weight"], p[f"{name}.bias"], 1e-12)

    maps = [projected(x, f"attention.self.{name}") for name in ("query", "key", "value")]
    dim = x.shape[1] // num_heads
    sees = np.ones((len(x), len(x)), dtype=bool)
    cuts = [slice(h * dim, (h + 1) * dim) for h in range(num_heads)]
    each = [attention(*[z[:, cut] for z, _ in maps], dim**-0.5, sees, rules) for cut in cuts]  # type: ignore[misc]
    joined = np.concatenate([out for out, _ in each], 1)
    o, back_o = projected(joined, "attention.output.dense")
    a, back_a = add(o, x)
    y, back_y = normed(a, "attention.output.LayerNorm")
    inner, back_inner = projected(y, "intermediate.dense")
    f, back_f = projected(gelu(inner), "output.dense")
    s, back_s = add(f, y)
    out, back_out = normed(s, "output.LayerNorm")

    def back(R: Array) -> Array:
        R_f, R_y = back_s(back_out(R))
        R_y = R_y + back_inner(back_f(R_f))  # gelu passes relevance through
        R_o, R_x = back_a(back_y(R_y))
        R_joined = back_o(R_o)
        heads.append(np.array([R_joined[:, cut].sum() for cut in cuts]))
        for cut, (_, back_head) in zip(cuts, each, strict=True):
            for (z, back_map), R_part in zip(maps, back_head(R_joined[:, cut]), strict=True):
                R_z = np.zeros_like(z)
                R_z[:, cut] = R_part
                R_x = R_x + back_map(R_z)
        return R_x

    return out, back


def rotation(position: int, dim: int, theta: float) -> Array:
    """The matrix that turns the pairs (d, d + dim / 2) by their angles."""
    matrix = np.zeros((dim, dim))
    for d in range(dim // 2):
        angle = position * theta ** (-2 * d / dim)
        e = d + dim // 2
        matrix[d, d] = matrix[e, e] = math.cos(angle)
        matrix[d, e], matrix[e, d] = -math.sin(angle), math.sin(angle)
    return matrix


def rotated(x: Array, theta: float) -> tuple[Array, Back]:
    parts = [linear(x[n : n + 1], rotation(n, x.shape[1], theta)) for n in range(len(x))]
    out = np.concatenate([z for z, _ in parts])
    return out, lambda R: np.concatenate([b(R[n : n + 1]) for n, (_, b) in enumerate(parts)])


def llama_layer(
    x: Array,
    p: Weights,
    num_heads: int,
    num_groups: int,
    theta: float,
    rules: str,
    heads: list[Array],
) -> Any:
    """A layer of Llama with grouped queries; back appends the relevance of its heads."""
    normed, back_norm = rms_norm(x, p["input_layernorm.weight"], 1e-6)
    maps = [linear(normed, p[f"self_attn.{name}_proj.weight"]) for name in "qkv"]
    dim = maps[0][0].shape[1] // num_heads
    sees = np.tril(np.ones((len(x), len(x)), dtype=bool))
    each, cuts = [], []
    for h in range(num_heads):
        group = h * num_groups // num_heads
        cut = [slice(h * dim, (h + 1) * dim)] + [slice(group * dim, (group + 1) * dim)] * 2
        q, back_q = rotated(maps[0][0][:, cut[0]], theta)
        k, back_k = rotated(maps[1][0][:, cut[1]], theta)
        out, back_head = attention(q, k, maps[2][0][:, cut[2]], dim**-0.5, sees, rules)
        each.append((out, back_head, (back_q, back_k, lambda R: R)))
        cuts.append(cut)
    o, back_o = linear(np.concatenate([out for out, *_ in each], 1), p["self_attn.o_proj.weight"])
    a, back_a = add(x, o)
    y, back_y = rms_norm(a, p["post_attention_layernorm.weight"], 1e-6)
    up, back_up = linear(y, p["mlp.up_proj.weight"])
    gate, back_gate = linear(y, p["mlp.gate_proj.weight"])
    down, back_down = linear(silu(gate) * up, p["mlp.down_proj.weight"])
    s, back_s = add(a, down)
    share = np.vectorize(lambda u, w: product_shares(u, w, rules))(silu(gate), up)

    def back(R: Array) -> Array:
        R_a, R_down = back_s(R)
        R_m = back_down(R_down)
        R_a = R_a + back_y(back_gate(share * R_m) + back_up((1 - share) * R_m))
        R_x, R_o = back_a(R_a)
        R_joined = back_o(R_o)
        heads.append(np.array([R_joined[:, cut[0]].sum() for cut in cuts]))
        R_normed = np.zeros_like(x)
        for cut, (_, back_head, turned) in zip(cuts, each, strict=True):
            parts = zip(maps, cut, turned, back_head(R_joined[:, cut[0]]), strict=True)
            for (z, back_map), place, back_turned, R_part in parts:
                R_z = np.zeros_like(z)
                R_z[:, place] = back_turned(R_part)
                R_normed = R_normed + back_map(R_z)
        return R_x + back_norm(R_normed)

    return s, back


def start_at_top(logits: Array, position: int) -> Array:
    """All relevance starts at the largest logit of one position."""
    R = np.zeros_like(logits)
    top = logits[position].argmax()
    R[position, top] = logits[position, top]
    return R


def under(p: Weights, prefix: str) -> dict[str, Array]:
    return {name[len(prefix) :]: each for name, each in p.items() if name.startswith(prefix)}


def bert(
    x: Array, p: Weights, num_heads: int, rules: str, position: int
) -> tuple[Array, list[Array]]:
    """Relevance of a masked language model's tokens on entering layer 0, and of its heads."""
    backs, heads = [], []
    layers = 1 + max(int(name.split(".")[3]) for name in p if name.startswith("bert.encoder.layer"))
    for number in range(layers):
        weights = under(p, f"bert.encoder.layer.{number}.")
        x, back = bert_layer(x, weights, num_heads, rules, heads)
        backs.append(back)
    head = under(p, "cls.predictions.")
    inner, back = linear(x, head["transform.dense.weight"], head["transform.dense.bias"])
    backs.append(back)
    name = "transform.LayerNorm"
    y, back = layer_norm(gelu(inner), head[f"{name}.weight"], head[f"{name}.bias"], 1e-12)
    backs.append(back)
    logits, back = linear(y, head["decoder.weight"], head["decoder.bias"])
    R = back(start_at_top(logits, position))
    for back in reversed(backs):
        R = back(R)
    return R.sum(1), heads[::-1]


def llama(
    x: Array, p: Weights, num_heads: int, num_groups: int, theta: float, rules: str, position: int
) -> tuple[Array, list[Array]]:
    """Relevance of a causal language model's tokens and heads."""
    backs, heads = [], []
    layers = 1 + max(int(name.split(".")[2]) for name in p if name.startswith("model.layers"))
    for number in range(layers):
        weights = under(p, f"model.layers.{number}.")
        x, back = llama_layer(x, weights, num_heads, num_groups, theta, rules, heads)
        backs.append(back)
    y, back = rms_norm(x, p["model.norm.weight"], 1e-6)
    backs.append(back)
    logits, back = linear(y, p["lm_head.weight"])
    R = back(start_at_top(logits, position))
    for back in reversed(backs):
        R = back(R)
    return R.sum(1), heads[::-1]


def normalised(heads: list[Array]) -> list[Array]:
    """Each layer divided by the sum of its heads' absolute relevance."""
    return [R / sum(abs(each) for each in R) for R in heads]
