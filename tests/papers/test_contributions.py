"""Contributions by weights and norms equal the textbook's, and add up to the module's output."""

import copy
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headcount import Corpus, Loaded, load
from headcount.core import InputError, LayerId, ModelError
from headcount.corpora import Batch, Batches, take_census
from headcount.importance import KINDS
from headcount.papers import collect_contributions, measure_contributions
from headcount.papers.contribution_rows import TokenSums, masked
from headcount.papers.contributions import Contributions, Residuals
from headcount.statistics import Bootstrap
from headcount.tap import examine
from headcount.tasks import mask_id_of
from tests import saved, tiny
from tests.textbook import contributions as textbook

TEXTS = ("the man , who", "a cat", "She saw ! Why ?")


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A post-norm encoder and a pre-norm decoder, with attention far from uniform."""
    loaded = load(getattr(saved, request.param)(tmp_path_factory.mktemp(request.param)))
    tiny.seeded(loaded.model)
    return loaded


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return Corpus([path])


def work(loaded: Loaded, corpus: Corpus, max_tokens: int = 4096) -> Batches:
    encoder = loaded.encoder()
    return Batches(corpus, encoder, take_census(corpus, encoder), max_tokens=max_tokens)


def value_and_norm(loaded: Loaded, layer: int, x: Tensor) -> tuple[Tensor, Any]:
    """Values [row, head, key, dim] of the stock model, and the norm after it."""
    path = loaded.anatomy.layers[layer].module
    module: Any = loaded.model.get_submodule(path)
    with torch.no_grad():
        if hasattr(module, "value"):
            value = module.value(x)
            norm = loaded.model.get_submodule(path.replace(".self", ".output.LayerNorm"))
        else:
            block: Any = loaded.model.get_submodule(path.rpartition(".")[0])
            value, norm = module.c_attn(block.ln_1(x)).chunk(3, -1)[2], None
    return value.unflatten(-1, (3, -1)).transpose(1, 2), norm


@pytest.mark.once
def test_textbook(loaded: Loaded, corpus: Corpus) -> None:
    """Every number of every token; and all parts, with the biases, are the module's output."""
    found = collect_contributions(loaded.model, loaded.anatomy, work(loaded, corpus))
    (batch,) = work(loaded, corpus)
    (site, maps), *_ = tiny.attention_maps(loaded.model, batch.inputs).items()
    outputs: list[Tensor] = []
    for number, layer in enumerate(loaded.anatomy.layers):
        with torch.no_grad():
            states = loaded.model.base_model(**batch.inputs, output_hidden_states=True)
        x_BNM = states.hidden_states[number]
        value_BHKD, norm = value_and_norm(loaded, number, x_BNM)
        each, token = found[LayerId(site, number)], 0
        projection: Any = loaded.model.get_submodule(layer.output or "")
        bias = projection.bias.detach().double().numpy()
        for row in range(len(x_BNM)):
            n = int(batch.source.is_token_BN[row].sum())
            A = maps[number][row, :, :n, :n].double().numpy()
            v, x = value_BHKD[row, :, :n].double().numpy(), x_BNM[row, :n].double().numpy()
            W_O = layer.output_weight(loaded.model).double().numpy()
            gain = None if norm is None else (bias, norm.weight.detach().numpy(), norm.eps)
            for key in range(n):
                assert each.sentence_T[token] == row
                assert each.weight_TH[token] == pytest.approx(A[:, :, key].sum(1), rel=1e-4)
                lengths = [textbook.length(textbook.f(v, W_O, h, key)) for h in range(3)]
                assert each.norm_TH[token] == pytest.approx(lengths, rel=1e-4)
                joint = sum(
                    textbook.length(textbook.added(A, v, W_O, query, key)) for query in range(n)
                )
                assert each.joint_T[token] == pytest.approx(joint, rel=1e-4)
                seen = n - key if site == "decoder.self" else n
                assert each.queries_T[token] == seen
                expected = [
                    textbook.mixing_of_weights(A, key, False),
                    textbook.mixing(A, v, W_O, key),
                    textbook.mixing_of_weights(A, key, True),
                    textbook.mixing(A, v, W_O, key, x[key]),
                    np.nan if gain is None else textbook.mixing(A, v, W_O, key, x[key], gain),
                ]
                assert each.mixing_TM[token] == pytest.approx(
                    expected, rel=1e-4, abs=1e-5, nan_ok=True
                )
                token += 1
            if norm is not None:
                outputs.append(whole_output(A, v, W_O, x, gain, norm))
        assert token == len(each.kind_T)
        if norm is not None:
            stock = stock_outputs(loaded, norm, batch)
            for row, output in enumerate(outputs):
                torch.testing.assert_close(
                    output, stock[row, : len(output)].double(), rtol=1e-4, atol=1e-4
                )
            outputs.clear()


def whole_output(A: Any, v: Any, W_O: Any, x: Any, gain: Any, norm: nn.LayerNorm) -> Tensor:
    """The sum of all tokens' parts of a block's output, its biases added."""
    bias, weight, eps = gain
    rows = []
    for query in range(A.shape[1]):
        parts = [textbook.added(A, v, W_O, query, key) for key in range(A.shape[2])]
        parts[query] = parts[query] + x[query]
        total = sum(parts, start=bias)
        made = sum(textbook.normalised(part, total, weight, eps) for part in [*parts, bias])
        rows.append(made + norm.bias.detach().double().numpy())
    return torch.from_numpy(np.stack(rows))


def stock_outputs(loaded: Loaded, norm: nn.Module, batch: Batch) -> Tensor:
    kept: list[Tensor] = []
    handle = norm.register_forward_hook(
        lambda module, given, output: kept.append(cast(Any, output))
    )
    with torch.no_grad():
        loaded.model.base_model(**batch.inputs)
    handle.remove()
    return kept[0]


def test_batches_of_any_size_say_the_same(loaded: Loaded, corpus: Corpus) -> None:
    whole = collect_contributions(loaded.model, loaded.anatomy, work(loaded, corpus))
    parts = collect_contributions(loaded.model, loaded.anatomy, work(loaded, corpus, 1))
    for place, each in whole.items():
        for name in Contributions.__dataclass_fields__:
            one, other = getattr(each, name), getattr(parts[place], name)
            assert one == pytest.approx(other, rel=1e-4, abs=1e-6, nan_ok=True), name


def test_masks_replace_a_share_of_every_text(loaded: Loaded, corpus: Corpus) -> None:
    plain = [*work(loaded, corpus)]
    (batch,) = masked(plain, 0.4, 3, 0)
    changed_BN = batch.inputs["input_ids"] != plain[0].inputs["input_ids"]
    assert (batch.inputs["input_ids"][changed_BN] == 3).all()
    assert not (changed_BN & ~batch.source.is_content_BN).any()
    sizes = batch.source.is_content_BN.sum(1)
    assert changed_BN.sum(1).tolist() == [max(1, int(0.4 * int(size))) for size in sizes]
    assert min(changed_BN.sum(1)) == 1 < max(changed_BN.sum(1))
    torch.testing.assert_close(batch.source.ids_BN, plain[0].source.ids_BN)
    alone = [each.inputs["input_ids"] for each in masked(work(loaded, corpus, 1), 0.4, 3, 0)]
    for row, ids_1N in enumerate(alone):
        assert ids_1N[0].tolist() == batch.inputs["input_ids"][row, : ids_1N.shape[1]].tolist()


def test_masked_numbers_are_those_of_masked_texts(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus
) -> None:
    loaded = load(saved.bert(tmp_path_factory.mktemp("bert")))
    mask_id = mask_id_of(loaded)
    found = measure_contributions(loaded, corpus, samples=2, share_masked=0.4, seed=5)
    ours = collect_contributions(
        loaded.model, loaded.anatomy, masked(work(loaded, corpus), 0.4, mask_id, 5)
    )
    plain = measure_contributions(loaded, corpus, samples=2, seed=5)
    for layer in range(2):
        ratio = found.find("encoder.self", "mixing", "attn-n", layer=layer)
        expected = ours[LayerId("encoder.self", layer)].mixing_TM[:, 1].mean()
        assert ratio is not None and ratio.value == pytest.approx(expected)
        other = plain.find("encoder.self", "mixing", "attn-n", layer=layer)
        assert other is not None and other.value != pytest.approx(expected, rel=1e-4)
    assert "|masked:0.4" in found.record.signature and found.record.share_masked == 0.4
    assert "masked" not in plain.record.signature


def test_a_share_of_masks_that_can_t_be_is_refused(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus
) -> None:
    gpt2 = load(saved.gpt2(tmp_path_factory.mktemp("gpt2")))
    with pytest.raises(ModelError, match="tokenizer with a mask token"):
        measure_contributions(gpt2, corpus, share_masked=0.12)
    for share in (-0.1, 1.0):
        with pytest.raises(InputError, match="at least 0 and below 1"):
            measure_contributions(gpt2, corpus, share_masked=share)


def test_with_the_residual_only_the_ratio_is_0(loaded: Loaded, corpus: Corpus) -> None:
    """A planted block that moves nothing: values of 0 leave the token itself alone."""
    model = copy.deepcopy(loaded.model)
    with torch.no_grad():
        for layer in loaded.anatomy.layers:
            for parameter in model.get_submodule(layer.output or "").parameters():
                parameter.zero_()
    found = collect_contributions(model, loaded.anatomy, work(loaded, corpus))
    assert len(found) == len(loaded.anatomy.layers)
    for each in found.values():
        is_known = not np.isnan(each.mixing_TM[:, 4]).all()
        assert (each.mixing_TM[:, 3] < 1e-6).all() and (each.norm_TH == 0).all()
        assert is_known == (loaded.model.config.model_type == "bert")
        assert not is_known or (each.mixing_TM[:, 4] < 1e-6).all()


@pytest.mark.parametrize(("name", "post"), [("bert", True), ("llama", False), ("marian", True)])
def test_orders_of_blocks(name: str, post: bool) -> None:
    model = tiny.TAPPED[name]()
    anatomy = examine(model)
    residuals = Residuals(model, anatomy)
    residuals.find(tiny.inputs(model))
    found = residuals.known
    assert set(found) == {layer.layer_id for layer in anatomy.layers}
    assert {each.is_post_norm for each in found.values()} == {post}


def test_rows_add_up(loaded: Loaded, corpus: Corpus) -> None:
    table = measure_contributions(loaded, corpus, samples=20)
    (site,) = {row.site for row in table.rows}
    for layer in (-1, 0, 1):
        for metric in ("weight_share", "weighted_norm_share", "joint_share"):
            shares = [table.find(site, metric, kind, layer) for kind in KINDS]
            assert sum(row.value for row in shares if row is not None) == pytest.approx(1)
    half, one = (table.find(site, "mixing", method) for method in ("attnres-w", "attn-w"))
    assert half is not None and one is not None and half.value == pytest.approx(one.value / 2)
    missing = {row.kind for row in table.rows if row.metric == "mixing" and row.value != row.value}
    is_bert = loaded.model.config.model_type == "bert"
    assert missing == (set() if is_bert else {"attnresln-n"})
    few, *others = table.record.warnings
    assert few.startswith("intervals from 3 sentences are wide or missing") and len(others) == (
        not is_bert
    )
    with pytest.raises(InputError, match="Expected samples of at least 1"):
        measure_contributions(loaded, corpus, samples=0)


def test_a_planted_correlation_is_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(3)
    sentence_T = np.repeat(np.arange(40), 20)
    sums = TokenSums(sentence_T, 40, Bootstrap(40, 200, 0))
    a_TH = rng.random((800, 3))
    planted = sums.spearman(a_TH, np.exp(a_TH), sentence_T)
    assert planted.value == pytest.approx(1) and planted.drawn_R.min() > 0.99
    noise = sums.spearman(a_TH, rng.random((800, 3)), sentence_T)
    low, high = np.quantile(noise.drawn_R, [0.025, 0.975])
    assert low < 0 < high
