"""Every kernel finds what the blocks find, and is chosen where it can compute the model."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, get_ident
from time import sleep

import pytest
import torch
from torch import nn

from headcount.core import InputError
from headcount.tap import (
    BLOCKS,
    LONG,
    Call,
    Counted,
    Reduction,
    Statistics,
    chosen,
    compiled,
    examine,
    kernels,
    unsuited,
)
from headcount.tap import kernel_sweep as kernel_sweep_module
from headcount.tap.kernel_blocks import AttentionCall, Cut, blocks
from headcount.tap.kernel_sweep import NUMBA, Sweep, machine_code
from tests import tiny
from tests.tap.kernel_cases import CASES, NEEDS, call_of, found_by


@pytest.fixture(scope="module")
def sweep() -> Iterator[Sweep]:
    yield Sweep()


@pytest.mark.once
@pytest.mark.parametrize("size", [50, 2**20])
@pytest.mark.parametrize("name", CASES)
def test_the_sweep_finds_what_the_blocks_find(
    name: str, size: int, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers to 1e-5 of their size; other keys only where the two weights are nearly equal."""
    monkeypatch.setattr("headcount.tap.seen_keys.LEAST", 100)  # keys that are not seen are left out
    call, counted = call_of(CASES[name])
    expected, maps = found_by(BLOCKS, call, counted, size)
    found, its_maps = found_by(sweep, call, counted, size)
    is_query_BQ = counted.is_attending_BQ[:, None]
    torch.testing.assert_close(
        its_maps * is_query_BQ[..., None], maps * is_query_BQ[..., None], rtol=1e-5, atol=1e-6
    )
    for reduction, numbers in found.numbers.items():
        those = expected.numbers[reduction]
        if reduction is Reduction.COLUMN:
            torch.testing.assert_close(numbers, those, rtol=1e-5, atol=1e-6)
        elif reduction in (Reduction.PEAK_KEY, Reduction.PEAK_LATER):
            differs = (numbers != those) & is_query_BQ
            at, there = (maps.gather(-1, each[..., None])[..., 0] for each in (numbers, those))
            assert (at - there).abs()[differs].le(1e-6).all(), reduction
            assert differs.float().mean() <= 1e-4, reduction
        else:
            torch.testing.assert_close(
                numbers * is_query_BQ, those * is_query_BQ, rtol=1e-5, atol=2e-6
            )


@pytest.mark.slow
@pytest.mark.parametrize("strip", [200, 2**18])
@pytest.mark.parametrize("name", ["long", "padding on the right", "one token"])
def test_the_sweep_gives_the_same_bits_with_any_number_of_threads(
    name: str, strip: int, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_sweep_module, "STRIP", strip)
    monkeypatch.setattr(kernel_sweep_module, "QUERIES", 1)
    monkeypatch.setattr("headcount.tap.seen_keys.LEAST", 2000)  # `long` leaves keys out
    call, counted = call_of(CASES[name])
    alone = found_by(sweep, call, counted, has_map=False)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        try:
            statistics, maps = found_by(sweep, call, counted, has_map=False)
            assert torch.get_num_threads() == threads, "torch's own threads are as before"
        finally:
            torch.set_num_threads(1)
        assert torch.equal(maps, alone[1])
        for reduction, numbers in statistics.numbers.items():
            assert torch.equal(numbers, alone[0].numbers[reduction]), reduction


def test_threads_share_the_heads_of_a_layer(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit of a head and a part of its queries is one thread's, and torch is alone in it."""
    monkeypatch.setattr(kernel_sweep_module, "STRIP", 200)
    monkeypatch.setattr(kernel_sweep_module, "QUERIES", 1)
    call, counted = call_of(CASES["long"])
    statistics = Statistics.zeros(counted, torch.zeros(*call.key.shape[:3], 1), NEEDS)
    attending, of_unit, meeting = sweep.begin(call, statistics, 2**20), {}, Barrier(2)

    def unit_of(cut: Cut) -> tuple[int, int, int]:
        rows, heads, queries = cut
        return rows.start, heads.start, queries.start * 8 // call.query.shape[2]

    def attend(cut: Cut) -> None:
        unit = unit_of(cut)
        if unit not in of_unit:
            of_unit[unit] = get_ident()
            if len(of_unit) <= 2:
                meeting.wait(20)
        assert of_unit[unit] == get_ident() and torch.get_num_threads() == 1
        assert torch.is_inference_mode_enabled()

    begun = set[tuple[int, int, int]]()

    def fails(cut: Cut) -> None:
        begun.add(unit_of(cut))
        if len(begun) == 1:
            raise ZeroDivisionError(cut)
        sleep(0.001)

    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            attending.over(blocks(call, attending.size, False), attend)
        with pytest.raises(ZeroDivisionError):
            attending.over(blocks(call, attending.size, False), fails)
    finally:
        torch.set_num_threads(1)
    assert len(begun) <= 2, "where one thread fails, the other ends with its unit"
    assert "bias" not in vars(call), "a mask without gaps is not needed as numbers"
    assert len({*of_unit.values()} - {get_ident()}) == 2
    assert len(of_unit) > call.query.shape[0] * call.query.shape[1]


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_not_finite_reach_the_weights(number: float, sweep: Sweep) -> None:
    call, counted = call_of(CASES["no mask"])
    call.query[1, 2, 3, 0] = number
    statistics, maps = found_by(sweep, call, counted)
    assert maps[1, 2, 3].isnan().any() and maps[1, 2, :3].isfinite().all()
    assert statistics.numbers[Reduction.FIRST][1, 2, 3].isnan()


def test_scores_of_minus_infinity_have_no_weight(sweep: Sweep) -> None:
    call, counted = call_of(replace(CASES["gaps"], is_additive=True))
    assert call.mask is not None
    call.mask.masked_fill_(call.mask < 0, -torch.inf)
    expected, found = (found_by(kernel, call, counted)[0].numbers for kernel in (BLOCKS, sweep))
    is_query_BQ = counted.is_attending_BQ[:, None]
    for reduction in (Reduction.ENTROPY, Reduction.PEAK):
        torch.testing.assert_close(
            found[reduction] * is_query_BQ, expected[reduction] * is_query_BQ, rtol=1e-5, atol=1e-6
        )


def test_blocks_leave_the_map_only_where_it_is_read() -> None:
    call, counted = call_of(CASES["causal"])
    _, maps = found_by(BLOCKS, call, counted)
    torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:3]))
    _, overwritten = found_by(BLOCKS, call, counted, has_map=False)
    assert (overwritten < 0).any()


@pytest.mark.parametrize(("length", "queries"), [(4096, 128), (32768, 32)])
def test_long_texts_are_swept_in_strips(length: int, queries: int, sweep: Sweep) -> None:
    query = torch.zeros(1, 2, length, 3)
    call = AttentionCall(Call(nn.Identity(), query, query, query, None, {}), None)
    is_token = torch.ones(1, length).bool()
    counted = Counted(is_token, is_token, is_token, is_token, ())
    asked = Statistics.zeros(counted, torch.zeros(1, 2, length, 1), NEEDS)
    size = sweep.begin(call, asked, 2**21).size
    cuts = [*blocks(call, size, False)]
    assert {len(range(length)[each]) for _, _, each in cuts} == {queries}
    assert sweep.begin(call, asked, 7).size == 7


# ------------------------------------------------------------------ which kernel


def test_calls_that_the_sweep_can_t_take(sweep: Sweep) -> None:
    call, counted = call_of(CASES["causal"])
    statistics = Statistics.zeros(counted, torch.zeros(3, 3, 29, 1), NEEDS)
    assert sweep.takes(call, statistics)
    assert not sweep.takes(call, Statistics()), "nothing is asked for"
    call.query.requires_grad_(True)
    assert not sweep.takes(call, statistics)
    with torch.no_grad():
        assert sweep.takes(call, statistics)
        call.empty = torch.zeros(1, 1, 1, 1).bool()
        assert not sweep.takes(call, statistics), "scores are blocked"
        call.empty, call.dtype = None, torch.float64
        assert not sweep.takes(call, statistics)


def test_the_kernel_is_chosen_by_the_model_and_the_length_of_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny.MODELS["bert"]().eval()
    anatomy = examine(model)
    names = {n: chosen("auto", model, anatomy, n).kernel.name for n in (LONG - 1, LONG)}
    assert names == {LONG - 1: "blocks", LONG: "sweep"}
    assert chosen("blocks", model, anatomy, LONG).kernel is BLOCKS
    assert chosen("sweep", model, anatomy, 1).kernel.name == "sweep"
    eager = chosen("sweep", model, replace(anatomy, eager=True), LONG)
    assert eager.kernel is BLOCKS and "eager" in str(eager.warning)
    monkeypatch.setattr("headcount.tap.kernels.IS_INTERPRETED", False)
    assert unsuited("triton", model, anatomy) == (
        "the model is on cpu, and the kernel triton runs on a GPU"
    )
    double = chosen("sweep", model.double(), anatomy, LONG)
    assert double.kernel is BLOCKS
    why = "the model is in float64, and the kernel sweep computes in float32"
    assert double.warning == f"attention was computed in blocks: {why}"
    assert chosen("auto", model, anatomy, LONG).warning is None
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: None)
    monkeypatch.setattr("headcount.tap.kernels.IS_INTERPRETED", True)
    with pytest.raises(InputError, match="triton is not installed. .* or pass --kernel blocks"):
        chosen("triton", model.float(), anatomy, LONG)


UNFIT = {
    "missing": ("raise ModuleNotFoundError(name='numba')", "numba is not installed"),
    "too old": ("__version__ = '0.61.2'", "numba is 0.61.2, and 0.62 or newer is needed"),
    "too new for NumPy": (
        "raise ImportError('Numba needs NumPy 2.4 or less.\\nGot NumPy 2.6.')",
        "numba does not work here (ImportError: Numba needs NumPy 2.4 or less. Got NumPy 2.6.)",
    ),
    "broken": (
        "raise OSError('libllvmlite.so: cannot open')",
        "numba does not work here (OSError: libllvmlite.so: cannot open)",
    ),
    "half": (
        "__version__ = '0.99'",
        "numba does not work here (ImportError: cannot import name 'njit' from 'numba')",
    ),
}
"""What a numba that does not fit does when it is imported, and what is said of it."""


@pytest.fixture(params=UNFIT)
def unfit(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A numba that does not fit is the first on the path; why it does not."""
    code, why = UNFIT[request.param]
    (tmp_path / "numba.py").write_text(code)
    for name in [each for each in sys.modules if each.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "headcount.tap.compiled", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    machine_code.cache_clear()
    yield why
    monkeypatch.undo()
    machine_code.cache_clear()


@pytest.mark.once
def test_a_numba_that_does_not_fit_leaves_attention_to_the_blocks(unfit: str) -> None:
    """A warning says what is lost; a sweep that is asked for is refused."""
    model = tiny.MODELS["bert"]().eval()
    anatomy = examine(model)
    auto = chosen("auto", model, anatomy, LONG)
    assert auto.kernel is BLOCKS
    assert str(auto.warning).startswith(f"attention was computed in blocks: {unfit}"[:90])
    assert str(auto.warning).endswith("tokens or more in down to half the time")
    assert chosen("auto", model, anatomy, LONG - 1).warning is None, "short texts lose nothing"
    with pytest.raises(InputError, match="Run pip install 'numba>=.*, or pass --kernel blocks"):
        chosen("sweep", model, anatomy, LONG)


@pytest.mark.slow
def test_a_broken_numba_stops_no_import(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text(UNFIT["too new for NumPy"][0])
    code = "from headcount import analyze; from headcount.tap import machine_code as m; print(m())"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    run = [sys.executable, "-c", code]
    printed = subprocess.check_output(run, env={**os.environ, "PYTHONPATH": path}, text=True)
    assert "Got NumPy 2.6." in printed


def test_a_sweep_that_no_cache_holds_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba raises RuntimeError where it finds no folder for its cache."""

    def njit(signature: str, cache: bool = False, **options: object) -> Callable[..., object]:
        if cache:
            raise RuntimeError("cannot cache function '_sweep': no locator available")
        return lambda function: function

    monkeypatch.setattr(compiled, "njit", njit)
    monkeypatch.setattr(kernels, "machine_code", machine_code.__wrapped__)
    model = tiny.MODELS["bert"]().eval()
    found = chosen("auto", model, examine(model), LONG)
    assert found.kernel.name == "sweep"
    assert found.warning is not None and "set NUMBA_CACHE_DIR" in found.warning


def test_the_project_asks_for_the_numba_that_was_compared() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (numba,) = (each for each in project["dependencies"] if each.startswith("numba"))
    assert numba.startswith(f"numba>={NUMBA};")
