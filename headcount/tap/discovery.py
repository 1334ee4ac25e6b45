"""Discovery: a model's attention layers, found by what they do in one tiny forward pass.

There is no table of architectures. A module is an attention layer when it calls the attention
function, or when it multiplies what its own softmax returns with values. Its site follows from what
it attends to, and its output projection is the linear map that receives its heads' outputs. What
can't be attributed to a site and a layer is refused with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headcount.core import InputError, LayerId, ModelError, amount, reason
from headcount.tap.anatomy import Anatomy, AttentionLayer, Parts, dead_modules
from headcount.tap.attention_interface import dispatching, plain_attention
from headcount.tap.call import Call, implementation_of
from headcount.tap.own_softmax import OwnAttention, OwnSoftmax
from headcount.tap.placement import head_group, input_device
from headcount.tap.sample_inputs import ERRORS, check_given, refusal, run_tiny, tiny_inputs
from headcount.tap.seen_keys import visible


def discover(model: PreTrainedModel, inputs: Mapping[str, Tensor] | None = None) -> Anatomy:
    """Run one forward pass and record every attention layer that takes part.

    Args:
        model: Any transformers model, in evaluation mode.
        inputs: Its inputs, with different numbers of queries on both sides; made up if None.

    Raises:
        InputError: If inputs are given that are not tensors by names that the model takes.
        ModelError: If no attention is seen, if some can't be attributed, or if the model does not
            run on the inputs.
    """
    if inputs is not None:
        check_given(model, inputs)
    recorder = _record(model, inputs, None)
    implementation = None
    if recorder.fused and not recorder.calls and implementation_of(model) == "sdpa":
        # Some models call torch's fused function themselves, but have a softmax of their own, too
        implementation = "eager"
        recorder = _record(model, inputs, implementation)
    unseen = _check_attributed(model, recorder)
    calls, parts = recorder.calls, Parts(model)
    others = [call for call in calls if not parts.is_vision(call.module)] or calls
    # An audio classifier with Whisper's encoder has a configuration that claims a decoder
    has_sides = len({call.num_queries for call in others}) > 1
    encoder_decoder = model.config.is_encoder_decoder and has_sides
    layers: list[AttentionLayer] = []
    hollow, dead = dead_modules(model), dict[LayerId, str]()
    parts_of_heads = _parts_of_heads(model, calls)
    for call in calls:
        site = _site(call, encoder_decoder, others[-1].num_queries, parts)
        number = sum(each == site for each, _ in [*dead, *(at.layer_id for at in layers)])
        if call.module in hollow:
            dead[LayerId(site, number)] = call.module
            continue
        layers.append(
            AttentionLayer(
                site,
                number,
                call.module,
                call=sum(layer.module == call.module for layer in layers),
                num_heads=call.num_heads * parts_of_heads,
                num_key_value_heads=call.num_key_value_heads * parts_of_heads,
                head_dim=call.head_dim,
                output=call.output,
                by_own_softmax=call.by_own_softmax,
            )
        )
    anatomy = Anatomy(
        tuple(layers),
        implementation=implementation,
        unseen=unseen,
        not_run=tuple(
            each for each in (*parts.towers, *parts.hearing) if not recorder.has_run(each)
        ),
        dead=dead,
    )
    _check_sides(model, anatomy, others)
    return anatomy


@final
@dataclass(frozen=True)
class _Call:
    module: str
    num_queries: int
    num_keys: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    is_causal: bool
    has_source: bool
    """Whether the module was given states of their own for its keys."""
    output: str | None = None
    by_own_softmax: bool = False


def _record(
    model: PreTrainedModel, given: Mapping[str, Tensor] | None, implementation: str | None
) -> "_Recorder":
    recorder, inputs = _Recorder(model), tiny_inputs(model) if given is None else given
    with (
        torch.no_grad(),
        dispatching(model, recorder.attend, implementation),
        recorder.listening(),
    ):
        try:
            run_tiny(model, inputs)
        except InputError:
            raise  # it already says so
        except ERRORS as error:
            raise ModelError(refusal(model, reason(error), given)) from error
    with torch.no_grad():
        recorder.find_adapters()
    return recorder


class _Recorder:
    """Records the attention of a forward pass, and the linear map that each output goes into."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.paths = {module: path for path, module in model.named_modules()}
        self.calls: list[_Call] = []
        self.fused: list[str] = []
        """Modules that called a fused function of torch, of which no weights can be seen."""
        self.changed: list[str] = []
        """Modules that change what their softmax returns before values are multiplied with it."""
        self.unprojected: dict[str, OwnAttention] = {}
        """Attention by a softmax of its own, by module, until its output projection runs."""
        self._around: dict[str, nn.Module] = {}
        """Modules around output projections that were given the same tensor, by path."""
        self._returned: Tensor | None = None
        self._inputs: dict[nn.Module, list[torch.Size]] = {}
        """Shapes of the states that a module was given last."""
        self._given: list[Tensor | None] = []
        """The first input of each module that is running."""
        self._running: list[nn.Module] = []
        self._forwards: Counter[nn.Module] = Counter()
        self._attended: Counter[nn.Module] = Counter()
        self._softmax = OwnSoftmax(self._running, self._own, self._fused)

    @property
    def unattributed(self) -> dict[str, str]:
        """Modules whose attention can't be attributed, and what they did."""
        several = {
            self.paths[module]: "calls attention more than once in one forward"
            for module, count in self._attended.items()
            if count > self._forwards[module] > 0
        }
        fused = dict.fromkeys(self.fused, "calls a fused attention function of torch by itself")
        softmax = {
            self.paths[module]: "takes a softmax that no product with values follows"
            for module, weights in self._softmax.waiting.items()
            if weights.ndim == 4 and weights.shape[-2] > 1 < weights.shape[-1]
        }
        unprojected = dict.fromkeys(
            self.unprojected, "takes a softmax, but no linear map receives its heads' outputs"
        )
        changed = dict.fromkeys(self.changed, "changes its weights after the softmax")
        return several | fused | softmax | unprojected | changed

    def has_run(self, path: str) -> bool:
        """Whether a module, or one in it, ran."""
        return any(self._forwards[each] for each in self.model.get_submodule(path).modules())

    def attend(self, call: Call) -> Tensor:
        self._attended[call.module] += 1
        num_queries, num_keys = call.query.shape[2], call.key.shape[2]
        self.calls.append(
            _Call(
                module=self.paths[call.module],
                num_queries=num_queries,
                num_keys=num_keys,
                num_heads=call.query.shape[1],
                num_key_value_heads=call.key.shape[1],
                head_dim=call.value.shape[3],
                is_causal=_is_causal_mask(call.mask, num_queries),
                has_source=self._has_source(call.module, num_queries, num_keys),
            )
        )
        with self._softmax.paused():
            self._returned = output = plain_attention(call)
        return output

    @contextmanager
    def listening(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in self.paths:
                for handle in (
                    module.register_forward_pre_hook(self._before_module, with_kwargs=True),
                    module.register_forward_hook(self._after_module, always_call=True),
                ):
                    stack.callback(handle.remove)
            stack.enter_context(self._softmax)
            yield

    def find_adapters(self) -> None:
        """Take the module around an output projection where that, too, is affine and differs.

        An adapter adds to what the map inside makes of the heads' outputs.
        """
        for number, call in enumerate(self.calls):
            if call.output is not None and call.output in self._around:
                path = self._adapted(call.output, self._around[call.output])
                self.calls[number] = replace(call, output=path)

    def _adapted(self, path: str, outer: nn.Module) -> str:
        inner = self.model.get_submodule(path)
        width = inner.nx if isinstance(inner, Conv1D) else inner.in_features
        assert isinstance(width, int)
        generator = torch.Generator().manual_seed(0)
        states = torch.randn(3, width, generator=generator).to(
            input_device(self.model), self.model.dtype
        )
        states = torch.cat([states, states[:1] + states[1:2] - states[2:]])
        try:
            outside, inside = outer(states), inner(states)
        except ERRORS:
            return path  # it takes more than the heads' outputs
        if not isinstance(outside, Tensor) or outside.shape != inside.shape:
            return path
        first, second, third, fourth = outside.double()
        size = outside.abs().max().item() * max(torch.finfo(outside.dtype).eps ** 0.5, 1e-4)
        is_affine = (first + second - third - fourth).abs().max().item() <= size
        return self.paths[outer] if is_affine and not outside.equal(inside) else path

    def _before_module(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._inputs[module] = [
            each.shape
            for each in (*args, *kwargs.values())
            if isinstance(each, Tensor) and each.ndim == 3 and each.is_floating_point()
        ]
        given = args[0] if args and isinstance(args[0], Tensor) else None
        if isinstance(module, nn.Linear | Conv1D) and given is not None:
            path = self.paths[module]
            if self._returned is None:
                found = self._project_own(path, given)
            elif found := _is_same(given, self._returned):
                self.calls[-1] = replace(self.calls[-1], output=path)
            self._returned = None
            if found and self._given and _is_view(self._given[-1], given):
                self._around[path] = self._running[-1]
        self._running.append(module)
        self._given.append(given)
        self._forwards[module] += 1

    def _after_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()
            self._given.pop()

    def _has_source(self, module: nn.Module, num_queries: int, num_keys: int) -> bool:
        """Whether a module was given states of as many tokens as there are keys."""
        lengths = {shape[1] for shape in self._inputs.get(module, [])}
        return num_queries != num_keys and num_keys in lengths

    def _own(self, module: nn.Module, attention: OwnAttention) -> None:
        self._attended[module] += 1
        self.unprojected[self.paths[module]] = attention
        if attention.is_changed:
            self.changed.append(self.paths[module])

    def _fused(self, module: nn.Module) -> None:
        self.fused.append(self.paths[module])

    def _project_own(self, path: str, given: Tensor) -> bool:
        """Whether a linear map receives just the heads' outputs of an own softmax; records it."""
        for module, attention in [*self.unprojected.items()]:
            batch, (num_queries, num_keys) = len(given), attention.weights.shape[-2:]
            num_heads, head_dim = attention.num_heads(batch), attention.output.shape[-1]
            if given.shape != (batch, num_queries, num_heads * head_dim) or not num_heads:
                continue
            if given.unflatten(-1, (num_heads, head_dim)).equal(attention.output_by_query(batch)):
                del self.unprojected[module]
                weights = attention.weights_by_head(batch)
                self.calls.append(
                    _Call(
                        module=module,
                        num_queries=num_queries,
                        num_keys=num_keys,
                        num_heads=num_heads,
                        num_key_value_heads=attention.value_by_head(batch).shape[1],
                        head_dim=head_dim,
                        is_causal=num_queries == num_keys and not weights.triu(1).any(),
                        has_source=self._has_source(
                            self.model.get_submodule(module), num_queries, num_keys
                        ),
                        output=path,
                        by_own_softmax=True,
                    )
                )
                return True
        return False


def _parts_of_heads(model: PreTrainedModel, calls: list[_Call]) -> int:
    """Over how many processes the heads of every layer are split: 1 if the model is whole."""
    group = head_group(model)
    if group is None:
        return 1
    for call in calls:
        width = call.num_heads * call.head_dim
        projection = None if call.output is None else model.get_submodule(call.output)
        inputs = getattr(projection, "in_features", None)
        if call.by_own_softmax or inputs != width * group.size:
            raise ModelError(
                f"Expected a {type(model).__name__} with the heads of every layer split over "
                f"{amount(group.size, 'process')}, but those of {call.module} are not: its output "
                f"projection has {inputs} inputs, and the heads here give {width}. Load it "
                "without tp_plan, or with device='auto'."
            )
    return group.size


def _check_attributed(model: PreTrainedModel, recorder: _Recorder) -> tuple[str, ...]:
    """Paths of modules outside any list of layers whose attention can't be attributed."""
    name, unseen = type(model).__name__, []
    for path, what in recorder.unattributed.items():
        if recorder.calls and not any(part.isdigit() for part in path.split(".")):
            unseen.append(path)
            continue
        raise ModelError(
            f"Expected attention that headcount can attribute to a site, a layer and its heads, "
            f"but {path} of {name} {what}. Some of its heads could not be measured or gated, so "
            "the model is refused."
        )
    if not recorder.calls:
        raise ModelError(
            f"{name} has no attention site that headcount can see. Expected a model whose "
            "attention goes through transformers' AttentionInterface or takes a softmax of scores, "
            "but this one never did. Heads of such an architecture can't be measured or gated."
        )
    return tuple(unseen)


def _check_sides(model: PreTrainedModel, anatomy: Anatomy, calls: list[_Call]) -> None:
    """Check that both sides of an encoder-decoder were seen, each attention on its own."""
    by_site = {layer.site for layer in anatomy.layers} | {site for site, _ in anatomy.dead}
    name = type(model).__name__
    if not model.config.is_encoder_decoder or by_site <= {"encoder.self"}:
        return
    if "decoder.cross" in by_site and "encoder.self" not in by_site:
        raise ModelError(
            f"Expected an encoder whose attention headcount can see, but that of {name} never "
            "called it, although its decoder did. Heads would be missing, so the model is refused."
        )
    encoded = {call.num_keys for call in calls if call.num_keys == call.num_queries}
    for call in calls:
        if call.num_keys - call.num_queries in encoded and call.num_keys not in encoded:
            raise ModelError(
                f"Expected self-attention and cross-attention apart, but {call.module} of {name} "
                f"attends to encoder and decoder at once ({amount(call.num_keys, 'key')} for "
                f"{amount(call.num_queries, 'query')}). Its heads belong to no site, so it is "
                "refused."
            )


def _is_view(one: Tensor | None, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    if one is None:
        return False
    return one.data_ptr() == other.data_ptr() and one.numel() == other.numel()


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers, in memory or copied."""
    if one.numel() != other.numel():
        return False
    return _is_view(one, other) or one.flatten().equal(other.flatten())


def _is_causal_mask(mask: Tensor | None, num_queries: int) -> bool:
    """Whether no query sees a later one; there may be further keys in front of the queries'."""
    if mask is None or mask.shape[-1] < num_queries or mask.shape[-2] != num_queries:
        return False
    return not visible(mask)[..., -num_queries:].triu(1).any()


def _site(call: _Call, encoder_decoder: bool, num_decoder_queries: int, parts: Parts) -> str:
    if parts.is_vision(call.module):
        return "vision.self"
    if call.num_queries != call.num_keys and (encoder_decoder or call.has_source):
        return "decoder.cross"
    if encoder_decoder:  # the last call of a forward pass is the decoder's
        return "decoder.self" if call.num_queries == num_decoder_queries else "encoder.self"
    is_decoder = call.is_causal or parts.is_decoder(call.module)
    return "decoder.self" if is_decoder else "encoder.self"
