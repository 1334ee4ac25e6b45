"""Relevance under `alpha_beta`, module by module: contributions, shares by sign, scaling.

A module returns its output and a function from the relevance of its outputs to that of its
inputs. Contributions are z[j][i] = (what output j changes by with input i) times input i, plus
an equal part of the bias. Reference: Voita et al. 2021, section 2, and its code,
https://arxiv.org/abs/2010.10907
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from tests.textbook.lrp import Array, Weights, gelu, silu, under

ALPHA, BETA, EPSILON = 0.5, 0.5, 1e-5
Back = Callable[[Array], Any]


def shares(z: Array, R: Array) -> Array:
    """Positive contributions share half of each output's relevance, negative ones the rest."""
    found = np.zeros(z.shape[1])
    for j in range(len(z)):
        positive = sum(z[j, i] for i in range(z.shape[1]) if z[j, i] > 0)
        negative = sum(z[j, i] for i in range(z.shape[1]) if z[j, i] < 0)
        for i in range(z.shape[1]):
            if z[j, i] > 0:
                found[i] += ALPHA * z[j, i] / (positive + EPSILON) * R[j]
            else:
                found[i] += BETA * z[j, i] / (negative - EPSILON) * R[j]
    return found


def shares_fast(z: Array, R: Array) -> Array:
    """The shares of all inputs at once; a test compares the two."""
    positive, negative = z.clip(0), z.clip(None, 0)
    return (
        ALPHA * positive / (positive.sum(1, keepdims=True) + EPSILON)
        + BETA * negative / (negative.sum(1, keepdims=True) - EPSILON)
    ).T @ R


def scaled(parts: Sequence[Array], R: Array) -> list[Array]:
    """Absolute values of the inputs' relevance add up to those of the outputs'."""
    size = sum(abs(part).sum() for part in parts)
    return [part * (abs(R).sum() / size if size else 0) for part in parts]


def each_token(x: Array, jacobian: Callable[[Array], Array], b: Array | float) -> Back:
    """The way back through a module that treats every token separately."""
    width = x.shape[1]

    def back(R: Array) -> Array:
        found = []
        for n in range(len(x)):
            z = jacobian(x[n]) * x[n] + np.broadcast_to(b, R.shape[1:])[:, None] / width
            found += scaled([shares_fast(z, R[n])], R[n])
        return np.array(found)

    return back


def linear(x: Array, w: Array, b: Array | float = 0.0) -> tuple[Array, Back]:
    return x @ w.T + b, each_token(x, lambda token: w, b)


def layer_norm(x: Array, w: Array, b: Array, eps: float = 1e-5) -> tuple[Array, Back]:
    """A norm whose mean and variance change with the input too."""
    width = x.shape[1]
    deviation = np.sqrt(x.var(1, keepdims=True) + eps)

    def jacobian(token: Array) -> Array:
        centred, centring = token - token.mean(), np.eye(width) - 1 / width
        root = np.sqrt((centred**2).mean() + eps)
        of_root = centred @ centring / width / root
        return w[:, None] * (centring / root - np.outer(centred, of_root) / root**2)

    return (x - x.mean(1, keepdims=True)) / deviation * w + b, each_token(x, jacobian, b)


def rms_norm(x: Array, w: Array, eps: float = 1e-6) -> tuple[Array, Back]:
    width = x.shape[1]

    def jacobian(token: Array) -> Array:
        root = np.sqrt((token**2).mean() + eps)
        return w[:, None] * (np.eye(width) / root - np.outer(token, token / width) / root**3)

    return x / np.sqrt((x**2).mean(1, keepdims=True) + eps) * w, each_token(x, jacobian, 0.0)


def add(a: Array, b: Array) -> tuple[Array, Back]:
    """Every number has two inputs; scaled token by token."""

    def back(R: Array) -> tuple[Array, Array]:
        R_a, R_b = np.zeros_like(a), np.zeros_like(b)
        for place in np.ndindex(*a.shape):
            z = np.array([[a[place], b[place]]])
            R_a[place], R_b[place] = shares(z, np.array([R[place]]))
        for token in np.ndindex(*a.shape[:-1]):
            R_a[token], R_b[token] = scaled([R_a[token], R_b[token]], R[token])
        return R_a, R_b

    return a + b, back


def attention_jacobian(q: Array, k: Array, v: Array, A: Array, scale: float) -> Array:
    """The change of output [query, dim] with every number of queries, keys and values."""
    N, K, E = len(q), len(k), v.shape[1]
    J_q, J_k, J_v = (np.zeros((N, E, len(x), x.shape[1])) for x in (q, k, v))
    for i in range(N):
        of_scores = v.T @ (np.diag(A[i]) - np.outer(A[i], A[i]))
        for e, j in product(range(E), range(K)):
            J_v[i, e, j, e] = A[i, j]
            J_k[i, e, j] = of_scores[e, j] * scale * q[i]
            J_q[i, e, i] += of_scores[e, j] * scale * k[j]
    return np.concatenate([J.reshape(N * E, -1) for J in (J_q, J_k, J_v)], 1)


def attention(q: Array, k: Array, v: Array, scale: float, sees: Array) -> tuple[Array, Back]:
    """One head is one module, with three inputs."""
    scores = q @ k.T * scale
    powers = np.exp(scores - scores.max(-1, keepdims=True)) * sees
    A = powers / powers.sum(-1, keepdims=True)
    inputs = (q, k, v)

    def back(R: Array) -> list[Array]:
        x = np.concatenate([each.ravel() for each in inputs])
        found = shares_fast(attention_jacobian(q, k, v, A, scale) * x, R.ravel())
        cuts = np.cumsum([each.size for each in inputs])[:-1]
        parts = zip(np.split(found, cuts), inputs, strict=True)
        return scaled([part.reshape(each.shape) for part, each in parts], R)

    return A @ v, back


def heads_of(x: Array, num_heads: int) -> Array:
    return x.reshape(len(x), num_heads, -1).swapaxes(0, 1)


def tokens_of(x: Array) -> Array:
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def attend(q: Array, k: Array, v: Array, sees: Array, heads: list[Array]) -> tuple[Array, Back]:
    """All heads, [head, token, dim]; back appends their relevance to `heads`."""
    scale = q.shape[-1] ** -0.5
    made = [attention(q[h], k[h], v[h], scale, sees) for h in range(len(q))]

    def back(R: Array) -> list[Array]:
        R_heads = heads_of(R, len(q))
        heads.append(R_heads.sum((1, 2)))
        each = [back_head(R_head) for R_head, (_, back_head) in zip(R_heads, made, strict=True)]
        return [np.array(parts) for parts in zip(*each, strict=True)]

    return tokens_of(np.array([out for out, _ in made])), back


Names = dict[str, str]
BERT: Names = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "norm": "attention.output.LayerNorm",
}
BERT_FFN: Names = {"in": "intermediate.dense", "out": "output.dense", "norm": "output.LayerNorm"}
SELF, CROSS = (
    {each: f"{name}.{each}_proj" for each in "qkv"}
    | {"o": f"{name}.out_proj", "norm": f"{name}_layer_norm"}
    for name in ("self_attn", "encoder_attn")
)
FFN: Names = {"in": "fc1", "out": "fc2", "norm": "final_layer_norm"}


def attention_block(
    x: Array,
    source: Array | None,
    p: Weights,
    names: Names,
    num_heads: int,
    sees: Array,
    heads: list[Array],
    eps: float,
) -> tuple[Array, Back]:
    """Attention to itself or to a source, residual sum, norm; back gives the parts of both."""

    def mapped(y: Array, name: str) -> tuple[Array, Back]:
        return linear(y, p[f"{names[name]}.weight"], p[f"{names[name]}.bias"])

    looked_at = x if source is None else source
    maps = [mapped(x, "q"), mapped(looked_at, "k"), mapped(looked_at, "v")]
    joint, back_heads = attend(*[heads_of(z, num_heads) for z, _ in maps], sees, heads)  # type: ignore[misc]
    o, back_o = mapped(joint, "o")
    a, back_a = add(o, x)
    y, back_y = layer_norm(a, p[f"{names['norm']}.weight"], p[f"{names['norm']}.bias"], eps)

    def back(R: Array) -> tuple[Array, Array]:
        R_o, R_x = back_a(back_y(R))
        R_q, R_k, R_v = (
            back_map(tokens_of(part))
            for (_, back_map), part in zip(maps, back_heads(back_o(R_o)), strict=True)
        )
        if source is None:
            return R_x + R_q + R_k + R_v, np.zeros(0)
        return R_x + R_q, R_k + R_v

    return y, back


def ffn_block(x: Array, p: Weights, names: Names, eps: float) -> tuple[Array, Back]:
    inner, back_inner = linear(x, p[f"{names['in']}.weight"], p[f"{names['in']}.bias"])
    f, back_f = linear(gelu(inner), p[f"{names['out']}.weight"], p[f"{names['out']}.bias"])
    s, back_s = add(f, x)
    y, back_y = layer_norm(s, p[f"{names['norm']}.weight"], p[f"{names['norm']}.bias"], eps)

    def back(R: Array) -> Array:
        R_f, R_x = back_s(back_y(R))
        return R_x + back_inner(back_f(R_f))  # gelu passes relevance through

    return y, back


def start_at_top(logits: Array, positions: list[int]) -> Array:
    """All relevance, 1, starts at the largest logit of each position."""
    R = np.zeros_like(logits)
    for position in positions:
        R[position, logits[position].argmax()] = 1
    return R


def bert(x: Array, p: Weights, num_heads: int, positions: list[int]) -> tuple[Array, list[Array]]:
    """Relevance of every number that enters layer 0, and of the heads, layer by layer."""
    backs, heads = [], []
    everything = np.ones((len(x), len(x)))
    for number in range(_layers(p, "bert.encoder.layer.")):
        layer = under(p, f"bert.encoder.layer.{number}.")
        x, back = attention_block(x, None, layer, BERT, num_heads, everything, heads, 1e-12)
        backs.append(lambda R, back=back: back(R)[0])
        x, back = ffn_block(x, layer, BERT_FFN, 1e-12)
        backs.append(back)
    head = under(p, "cls.predictions.")
    inner, back = linear(x, head["transform.dense.weight"], head["transform.dense.bias"])
    backs.append(back)
    name = "transform.LayerNorm"
    y, back = layer_norm(gelu(inner), head[f"{name}.weight"], head[f"{name}.bias"], 1e-12)
    backs.append(back)
    logits, back = linear(y, head["decoder.weight"], head["decoder.bias"])
    R = back(start_at_top(logits, positions))
    for back in reversed(backs):
        R = back(R)
    return R, heads[::-1]


def rotated(x: Array, theta: float) -> tuple[Array, Back]:
    """[head, token, dim]: x times cosines plus x, turned by a right angle, times sines."""
    _, num_tokens, dim = x.shape
    half = dim // 2
    angles = np.outer(np.arange(num_tokens), theta ** (-2 * np.arange(half) / dim))
    angles = np.concatenate([angles, angles], 1)
    turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
    out, back_sum = add(x * np.cos(angles), turned * np.sin(angles))

    def back(R: Array) -> Array:
        R_straight, R_turned = back_sum(R)
        return R_straight + np.concatenate([R_turned[..., half:], R_turned[..., :half]], -1)

    return out, back


def for_groups(x: Array, times: int) -> tuple[Array, Back]:
    """Key or value heads, each as often as queries share it."""

    def back(R: Array) -> Array:
        return R.reshape(len(x), times, *x.shape[1:]).sum(1)

    return x.repeat(times, 0), back


def llama_layer(
    x: Array, p: Weights, num_heads: int, num_groups: int, theta: float, heads: list[Array]
) -> tuple[Array, Back]:
    normed, back_norm = rms_norm(x, p["input_layernorm.weight"])
    (q, back_q), (k, back_k), (v, back_v) = (
        linear(normed, p[f"self_attn.{name}_proj.weight"]) for name in "qkv"
    )
    q, back_turn_q = rotated(heads_of(q, num_heads), theta)
    k, back_turn_k = rotated(heads_of(k, num_groups), theta)
    k, back_group_k = for_groups(k, num_heads // num_groups)
    v, back_group_v = for_groups(heads_of(v, num_groups), num_heads // num_groups)
    out, back_heads = attend(q, k, v, np.tril(np.ones((len(x), len(x)))), heads)
    o, back_o = linear(out, p["self_attn.o_proj.weight"])
    a, back_a = add(x, o)
    y, back_y = rms_norm(a, p["post_attention_layernorm.weight"])
    up, back_up = linear(y, p["mlp.up_proj.weight"])
    gate, back_gate = linear(y, p["mlp.gate_proj.weight"])
    down, back_down = linear(silu(gate) * up, p["mlp.down_proj.weight"])
    s, back_s = add(a, down)

    def back(R: Array) -> Array:
        R_a, R_down = back_s(R)
        half = back_down(R_down) / 2  # both factors contribute their product
        R_x, R_o = back_a(R_a + back_y(back_gate(half) + back_up(half)))
        R_q, R_k, R_v = back_heads(back_o(R_o))
        R_normed = (
            back_q(tokens_of(back_turn_q(R_q)))
            + back_k(tokens_of(back_turn_k(back_group_k(R_k))))
            + back_v(tokens_of(back_group_v(R_v)))
        )
        return R_x + back_norm(R_normed)

    return s, back


def llama(
    x: Array, p: Weights, num_heads: int, num_groups: int, theta: float, positions: list[int]
) -> tuple[Array, list[Array]]:
    """Relevance of a causal language model's tokens and heads."""
    backs, heads = [], []
    for number in range(_layers(p, "model.layers.")):
        weights = under(p, f"model.layers.{number}.")
        x, back = llama_layer(x, weights, num_heads, num_groups, theta, heads)
        backs.append(back)
    y, back = rms_norm(x, p["model.norm.weight"])
    backs.append(back)
    logits, back = linear(y, p["lm_head.weight"])
    R = back(start_at_top(logits, positions))
    for back in reversed(backs):
        R = back(R)
    return R, heads[::-1]


def marian(
    x: Array, y: Array, p: Weights, num_heads: tuple[int, int], positions: list[int]
) -> tuple[Array, Array, dict[str, list[Array]]]:
    """Relevance of a translator's source, target, and heads by site."""
    encoder, decoder = under(p, "model.encoder.layers."), under(p, "model.decoder.layers.")
    heads: dict[str, list[Array]] = {
        name: [] for name in ("encoder.self", "decoder.self", "decoder.cross")
    }
    backs, backs_decoder = [], []
    everything = np.ones((len(x), len(x)))
    for number in range(_layers(encoder, "")):
        layer = under(encoder, f"{number}.")
        x, back_a = attention_block(
            x, None, layer, SELF, num_heads[0], everything, heads["encoder.self"], 1e-5
        )
        x, back_f = ffn_block(x, layer, FFN, 1e-5)
        backs.append((back_a, back_f))
    past, source = np.tril(np.ones((len(y), len(y)))), np.ones((len(y), len(x)))
    for number in range(_layers(decoder, "")):
        layer = under(decoder, f"{number}.")
        y, back_a = attention_block(
            y, None, layer, SELF, num_heads[1], past, heads["decoder.self"], 1e-5
        )
        y, back_c = attention_block(
            y, x, layer, CROSS, num_heads[1], source, heads["decoder.cross"], 1e-5
        )
        y, back_f = ffn_block(y, layer, FFN, 1e-5)
        backs_decoder.append((back_a, back_c, back_f))
    logits, back = linear(y, p["lm_head.weight"])
    logits = logits + p["final_logits_bias"]  # a bias of a single input each, which takes all
    R_y, R_x = back(start_at_top(logits, positions)), np.zeros_like(x)
    for back_a, back_c, back_f in reversed(backs_decoder):
        R_y, R_source = back_c(back_f(R_y))
        R_y, _ = back_a(R_y)
        R_x = R_x + R_source
    for back_a, back_f in reversed(backs):
        R_x, _ = back_a(back_f(R_x))
    return R_x, R_y, {site: each[::-1] for site, each in heads.items()}


def _layers(p: Weights, prefix: str) -> int:
    numbers = [name[len(prefix) :].partition(".")[0] for name in p if name.startswith(prefix)]
    return 1 + max(map(int, numbers))
