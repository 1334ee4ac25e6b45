r"""MLPs as units of circuits beside heads: what feed-forward networks give, heard and replaced.

$$x_{l+1} = x_l + \sum_h W_O^{l,h} o_{l,h} + \mathrm{MLP}_l$$

The output of a layer's network is heard where its last linear map gives it, and is handled as the
output of the only head of a layer of its own, `mlp.3`: its estimate is the gradient times a
difference, summed over tokens and width, and in a circuit's complement it is replaced token by
token. So a circuit of heads and MLPs, unlike one of heads alone, does not keep all MLPs.

Reference: MIB (Mueller et al., 2025), section 3, https://arxiv.org/abs/2504.13151, whose units are
    heads, MLPs and the input; here the input is always that of the first prompt.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from headcount.compaction import feed_forwards
from headcount.core import Head, UnsuitedError
from headcount.models import Loaded
from headcount.tap import AttentionLayer, heard, intercepted


def mlps_of(loaded: Loaded) -> tuple[AttentionLayer, ...]:
    """The MLP of every layer, each as a layer of one head.

    Raises:
        UnsuitedError: for a model with two sides.
        ModelError: for layers without one feed-forward network whose neurons can be told apart.
    """
    if len(loaded.heads.counts) > 1:
        raise UnsuitedError(
            f"Expected a model of one kind of attention for --units mlps, got {loaded.name} "
            f"({loaded.heads}). Leave --units out."
        )
    return tuple(
        AttentionLayer(*each.layer_id, each.output, 0, 1, 1, 1, each.output)
        for each in feed_forwards(loaded.model, loaded.anatomy)
    )


def units_of(mlps: Sequence[AttentionLayer]) -> list[Head]:
    """MLPs as units of circuits."""
    return [Head(each.site, each.layer, 0) for each in mlps]


@contextmanager
def heard_units(
    loaded: Loaded,
    mlps: Sequence[AttentionLayer],
    listener: Callable[[AttentionLayer, Tensor], Tensor | None],
) -> Iterator[None]:
    """Inside, the outputs of heads and of MLPs are sent to a listener, which may replace them."""
    layers = {loaded.model.get_submodule(each.module): each for each in mlps}

    def after(module: nn.Module, output: Tensor) -> Tensor | None:
        new = listener(layers[module], output[:, :, None])
        return None if new is None else new[:, :, 0]

    with (
        heard(loaded.model, loaded.anatomy, head_outputs=listener),
        intercepted(layers, after=after),
    ):
        yield
