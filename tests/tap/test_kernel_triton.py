"""The kernel triton, in Triton's interpreter: it finds what the blocks and NumPy find."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from headcount.core import InputError, ModelError
from headcount.tap import Reduction, Statistics, chosen, examine
from headcount.tap import kernel_triton as kernel_triton_module
from headcount.tap.kernel_triton import IS_INTERPRETED, LogSums, Triton
from tests import tiny
from tests.pretended import ONE, Devices
from tests.tap.kernel_cases import CASES, NEEDS
from tests.tap.triton_cases import TRITONS, by_definition, call_on, check, swept

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "device.py"
interpreted = pytest.mark.skipif(
    not IS_INTERPRETED, reason="needs triton and TRITON_INTERPRET=1: make kernels"
)


@interpreted
@pytest.mark.parametrize("name", TRITONS)
def test_triton_finds_what_the_blocks_and_numpy_find(name: str) -> None:
    """Numbers to 1e-5, and the same keys, on a pretended device."""
    with Devices():
        check(name, device=str(ONE))


@interpreted
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["causal", "padding on the left", "soft cap"])
def test_numbers_of_16_bits_are_added_up_in_float32(name: str, dtype: torch.dtype) -> None:
    """To 1e-4: on a CPU, fused attention of such numbers takes coarse exponentials."""
    check(name, dtype, tolerance=1e-4)


@interpreted
def test_column_sums_are_whole_numbers_of_their_unit() -> None:
    from headcount.tap import device_sweep

    (one, *_), (two, *_) = (swept(*call_on(CASES["gaps"])) for _ in range(2))
    column = one.numbers[Reduction.COLUMN]
    assert torch.equal(column, two.numbers[Reduction.COLUMN])
    units = column.double() / device_sweep.UNIT
    assert torch.equal(units, units.round())


@interpreted
def test_many_columns_take_several_sweeps() -> None:
    call, counted = call_on(CASES["cross attention"])
    found, _, _ = swept(call, counted, columns=kernel_triton_module.MOST_COLUMNS + 3)
    assert found.masses_BHQC is not None and found.columns_BHKC is not None
    expected = by_definition(call, counted) @ found.columns_BHKC.double()
    torch.testing.assert_close(found.masses_BHQC.double(), expected, rtol=1e-5, atol=1e-5)


@interpreted
def test_weights_that_do_not_add_up_are_refused() -> None:
    """The scores of fused attention are others than those of the sweep: it scales them."""
    call, counted = call_on(CASES["padding on the right"])
    call.scaling *= 1.01
    asked, _, kernel = swept(call, counted)
    with pytest.raises(ModelError, match=r"those of 1\d\d queries don't.* --kernel blocks"):
        kernel.check()
    kernel.check()  # each once


@interpreted
def test_numbers_that_are_not_finite_are_found_by_their_own_check() -> None:
    call, counted = call_on(CASES["a window"])
    call.query[0, 2, 20, 0] = torch.nan
    asked, _, kernel = swept(call, counted)
    assert asked.numbers[Reduction.FIRST][0, 2, 20].isnan()
    assert asked.numbers[Reduction.FIRST][0, 1].isfinite().all()
    kernel.check()


def _run_script(monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@interpreted
def test_the_script_for_a_gpu_on_tiny_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "device.md"
    _run_script(monkeypatch, "--tiny", "--rounds", "1", "--out", str(out))
    written = out.read_text(encoding="utf-8")
    assert written.startswith("no card, torch ")
    assert written.count("1 of 1 cases are right in torch.") == 3
    (row,) = [line for line in written.splitlines() if line.startswith("| tiny Llama | 2 x 9 |")]
    assert row.count("|") == 8 and "aten::" in written


# ------------------------------------------------------------------ without a compiler


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_script_for_a_gpu_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"^Expected a GPU for CUDA, but torch sees none\. Run"):
        _run_script(monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shared", [1, 3])
def test_the_operation_that_torch_chooses_returns_its_log_sums(
    dtype: torch.dtype, shared: int
) -> None:
    query, key = torch.randn(2, 6, 5, 24).to(dtype), torch.randn(2, 6 // shared, 7, 24).to(dtype)
    mask = torch.rand(2, 1, 5, 7) < 0.8
    mask[..., 0] = True
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, LogSums() as sums:
            torch.nn.functional.scaled_dot_product_attention(
                query, key, key, mask, enable_gqa=shared > 1
            )
        scores = query.double() @ key.double().repeat_interleave(shared, 1).mT / 24**0.5
        expected = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
        assert sums.found is not None
        torch.testing.assert_close(sums.found.double(), expected, rtol=1e-5, atol=1e-5)


def test_calls_that_triton_leaves_to_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_triton_module, "IS_INTERPRETED", True)
    call, counted = call_on(CASES["causal"])
    value = torch.zeros(*call.key.shape[:3], 1)
    asked, kernel = Statistics.zeros(counted, value, NEEDS), Triton()
    assert kernel.takes(call, asked) and not kernel.left
    assert not kernel.takes(call, asked.with_map())
    call.query.requires_grad_(True)
    assert not kernel.takes(call, asked)
    with torch.no_grad():
        assert kernel.takes(call, asked)
        call.is_eager = True
        assert not kernel.takes(call, asked)
        call.is_eager, call.empty = False, torch.zeros(1, 1, 1, 1).bool()
        assert not kernel.takes(call, asked)
        call.empty, call.kwargs["s_aux"] = None, torch.zeros(3)
        assert not kernel.takes(call, asked)
        del call.kwargs["s_aux"]
        call.query = call.query.double()
        assert not kernel.takes(call, asked)
        call.query = torch.zeros(*call.query.shape[:3], 257)
        assert not kernel.takes(call, asked)
        monkeypatch.setattr(kernel_triton_module, "IS_INTERPRETED", False)
        call.query = torch.zeros(*call.query.shape[:3], 7)
        assert not kernel.takes(call, asked)
    assert kernel.left == {
        "maps of words or patches are read",
        "there are gradients",
        "the model's own eager function computes weights",
        "scores are blocked",
        "heads have learned sinks",
        "numbers are torch.float64",
        "heads have more than 256 dimensions",
        "the model is on cpu",
    }


def test_triton_is_chosen_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.MODELS["bert"]().eval()
    anatomy = examine(model)
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: name)
    for is_interpreted in (True, False):
        monkeypatch.setattr("headcount.tap.kernels.IS_INTERPRETED", is_interpreted)
        found = chosen("triton", model, anatomy, 1)
        assert found.kernel.name == ("triton" if is_interpreted else "blocks")
    says = "in blocks: the model is on cpu, and the kernel triton runs on a GPU"
    assert found.warning == f"attention was computed {says}"
    assert chosen("auto", model, anatomy, 9999).kernel.name == "sweep"
    monkeypatch.setattr("headcount.tap.kernels.IS_INTERPRETED", True)
    monkeypatch.setattr("headcount.tap.kernels.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"kernel triton, but triton is not installed.* for CUDA"):
        chosen("triton", model, anatomy, 1)
