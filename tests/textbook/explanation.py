"""Explanations by the book: hooks on the stock model, one head at a time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

Read = Callable[[Tensor], float]
"""Reads a prediction off the logits [token, option] of one text, or [option] of a classifier."""


def projections(model: Any) -> dict[str, list[Any]]:
    """The output projections of a tiny model, by site."""
    kind = model.config.model_type
    if kind in ("llama", "gemma2", "qwen3"):
        return {"decoder.self": [layer.self_attn.o_proj for layer in model.model.layers]}
    if kind == "gpt2":
        return {"decoder.self": [block.attn.c_proj for block in model.transformer.h]}
    if kind == "bert":
        layers = model.bert.encoder.layer
        return {"encoder.self": [layer.attention.output.dense for layer in layers]}
    if hasattr(model.config, "vision_config"):
        inner = model.model
        text = inner.text_model if hasattr(inner, "text_model") else inner.language_model
        return {"decoder.self": [layer.self_attn.o_proj for layer in text.layers]}
    assert kind == "t5"
    decoder = model.decoder.block
    return {
        "encoder.self": [block.layer[0].SelfAttention.o for block in model.encoder.block],
        "decoder.self": [block.layer[0].SelfAttention.o for block in decoder],
        "decoder.cross": [block.layer[1].EncDecAttention.o for block in decoder],
    }


def sizes(model: Any) -> int:
    """The size of one head."""
    config = model.config.get_text_config()
    known = getattr(config, "d_kv", None) or getattr(config, "head_dim", None)
    return known or config.hidden_size // config.num_attention_heads


def head_inputs(model: Any, inputs: Mapping[str, Tensor]) -> dict[tuple[str, int], Tensor]:
    """What enters every output projection, [token, heads x dim]."""
    seen: dict[tuple[str, int], Tensor] = {}
    with ExitStack() as stack:
        for site, modules in projections(model).items():
            for layer, module in enumerate(modules):

                def hear(_: Any, given: Any, key: tuple[str, int] = (site, layer)) -> None:
                    seen[key] = given[0][0].detach().clone()

                stack.callback(module.register_forward_pre_hook(hear).remove)
        with torch.no_grad():
            model(**inputs)
    return seen


def without(
    model: Any,
    inputs: Mapping[str, Tensor],
    heads: Sequence[tuple[str, int, int]],
    instead: Mapping[tuple[str, int], Tensor],
    read: Read,
) -> float:
    """A prediction if some heads give something else: rows of the same form as `head_inputs`."""
    dim = sizes(model)
    with ExitStack() as stack:
        for site, layer, head in heads:

            def change(_: Any, given: Any, key: Any = (site, layer), head: int = head) -> Any:
                new = given[0].clone()
                place = slice(head * dim, (head + 1) * dim)
                new[0, :, place] = instead[key][:, place]
                return (new,)

            module = projections(model)[site][layer]
            stack.callback(module.register_forward_pre_hook(change).remove)
        with torch.no_grad():
            return read(model(**inputs).logits[0].double())


def difference(place: int, target: int, against: int) -> Read:
    """The log-probability of a token less that of its rival."""

    def read(logits: Tensor) -> float:
        log = logits[place].log_softmax(-1)
        return float(log[target] - log[against])

    return read


def slope(
    model: Any, inputs: Mapping[str, Tensor], head: tuple[str, int, int], target: int, against: int
) -> float:
    """The derivative of a difference at a gate of 1 behind one head, by autograd."""
    site, layer, number = head
    gate, dim = torch.ones((), dtype=model.dtype, requires_grad=True), sizes(model)

    def change(_: Any, given: Any) -> Any:
        factors = torch.ones_like(given[0][0, 0]).unflatten(0, (-1, dim))
        factors[number] *= gate
        return (given[0] * factors.flatten(),)

    hook = projections(model)[site][layer].register_forward_pre_hook(change)
    log = model(**inputs).logits[0, -1].log_softmax(-1)
    hook.remove()
    return float(torch.autograd.grad(log[target] - log[against], gate)[0])


@torch.no_grad()
def attribution(model: Any, ids: Tensor, place: int, target: int, against: int) -> dict[str, float]:
    """What every part of a Llama, GPT-2 or Gemma-2 adds to the difference of two logits."""
    is_gpt2 = model.config.model_type == "gpt2"
    body = model.transformer if is_gpt2 else model.model
    layers = body.h if is_gpt2 else body.layers
    final = body.ln_f if is_gpt2 else body.norm
    seen: dict[Any, Tensor] = {}

    def keep(name: Any) -> Any:
        def hook(module: Any, given: Any, output: Any) -> None:
            seen[name] = (output[0] if isinstance(output, tuple) else output)[0, place].double()

        return hook

    def given_to(name: Any) -> Any:
        def hook(module: Any, given: Any) -> None:
            seen[name] = given[0][0, place].double()

        return hook

    with ExitStack() as stack:
        for number, layer in enumerate(layers):
            attn = layer.attn if is_gpt2 else layer.self_attn
            projection = attn.c_proj if is_gpt2 else attn.o_proj
            hooks = [
                projection.register_forward_pre_hook(given_to(("heads", number))),
                projection.register_forward_hook(keep(("attention", number))),
                layer.mlp.register_forward_hook(keep(("mlp", number))),
                layer.register_forward_pre_hook(given_to(("x", number))),
            ]
            if model.config.model_type == "gemma2":
                norm = layer.post_feedforward_layernorm
                hooks.append(norm.register_forward_hook(keep(("mlp", number))))
            for hook in hooks:
                stack.callback(hook.remove)
        stack.callback(final.register_forward_pre_hook(given_to("last")).remove)
        model(input_ids=ids)
    unembedding = model.get_output_embeddings().weight.double()
    direction = unembedding[target] - unembedding[against]

    def through_final(part: Tensor) -> float:
        """What a part of the last state adds, with the scale of the whole state."""
        last = seen["last"]
        if is_gpt2:
            scale = (last.var(correction=0) + final.eps).sqrt()
            normed = (part - part.mean()) / scale * final.weight.double()
        else:
            gain = final.weight.double()
            gain = gain + 1 if model.config.model_type == "gemma2" else gain
            eps = model.config.rms_norm_eps
            normed = part / (last.square().mean() + eps).sqrt() * gain
        return float(normed @ direction)

    def branch(part: Tensor, number: int) -> Tensor:
        """What a part of attention's output adds to the state: Gemma-2 has a norm there."""
        if model.config.model_type != "gemma2":
            return part
        norm, whole = layers[number].post_attention_layernorm, seen["attention", number]
        return part / (whole.square().mean() + norm.eps).sqrt() * (1 + norm.weight.double())

    found = {"embeddings": through_final(seen["x", 0]), "attention biases": 0.0}
    for number, layer in enumerate(layers):
        attn = layer.attn if is_gpt2 else layer.self_attn
        weight = (attn.c_proj.weight if is_gpt2 else attn.o_proj.weight.T).double()
        outputs = seen["heads", number].unflatten(0, (-1, sizes(model)))
        for head, output in enumerate(outputs):
            rows = weight[head * len(output) : (head + 1) * len(output)]
            found[f"dec.{number}.{head}"] = through_final(branch(output @ rows, number))
        found[f"mlp.{number}"] = through_final(seen["mlp", number])
        if is_gpt2:
            found["attention biases"] += through_final(attn.c_proj.bias.double())
    found["biases"] = float(final.bias.double() @ direction) if is_gpt2 else 0.0
    return found


def faithfulness(predicted_PK: Any, weights_P: Any) -> Any:
    """The share of a prediction that is left, by size; the first is without any, the last with all.

    Args:
        predicted_PK: what is predicted for each prompt, by the number of heads that are kept.
        weights_P: how much each prompt counts.
    """
    means = [
        sum(w * value for w, value in zip(weights_P, column, strict=True)) / sum(weights_P)
        for column in zip(*predicted_PK, strict=True)
    ]
    return [(mean - means[0]) / (means[-1] - means[0]) for mean in means]


def area(at: Sequence[float], values: Sequence[float]) -> float:
    """The integral of values at some places, by trapezoids."""
    total = 0.0
    for k in range(1, len(at)):
        total += (at[k] - at[k - 1]) * (values[k] + values[k - 1]) / 2
    return total


def reach(number: Callable[[Any], float], prompts: int) -> float:
    """Half of Student's interval of a function of the weights of prompts, by its derivatives."""
    from scipy import stats

    slopes, step = list[float](), 1e-6
    for n in range(prompts):
        weights = [1 / prompts * (1 - step)] * prompts
        weights[n] += step
        slopes.append((number(weights) - number([1 / prompts] * prompts)) / step)
    mean = sum(slopes) / prompts
    spread = sum((each - mean) ** 2 for each in slopes) / (prompts - 1)
    return float(stats.t.ppf(0.975, prompts - 1) * (spread / prompts) ** 0.5)
