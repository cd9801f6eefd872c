"""The C rows: GELU to rounding, threads, and what happens without a compiler."""

import ctypes

import pytest
import torch

from stcl.operators import compiled_rows, rows
from stcl.operators.dft import truncated_dft
from stcl.operators.fno import FNO

pytestmark = pytest.mark.skipif(
    not compiled_rows.available(torch.empty(())), reason="there is no C compiler with OpenMP"
)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-7), (torch.float64, 1e-15)])
def test_gelu_and_its_derivatives(dtype: torch.dtype, tolerance: float) -> None:
    """With P = I and a unit tangent, the local part is (g, g′); a unit bar of the tangent gives back g″."""
    h = torch.linspace(-14, 14, 40 * 33).reshape(1, 10, 1, 4, 33)
    dft = truncated_dft(10, 4, 1, dtype, h.device)
    inputs = (h.to(dtype), torch.ones_like(h, dtype=dtype), torch.eye(33, dtype=dtype), dft)
    local, half = compiled_rows.first_forward(*inputs)
    bar = torch.zeros_like(local)
    bar[:, :, 1] = 1
    curvature, slope, _ = compiled_rows.first_backward(*inputs, bar, torch.zeros_like(half))

    x = h.to(dtype).double().requires_grad_()  # the numbers that were rounded to dtype
    g = torch.nn.functional.gelu(x)
    (first,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    for found, expected in ((local[:, :, :1], g), (local[:, :, 1:], first), (slope, first), (curvature, second)):
        error = (found.double() - expected).abs() / expected.abs().clamp_min(1)
        assert error.max() <= tolerance


def test_threads_share_samples() -> None:
    """One, two and more threads than samples: the same to rounding, and exactly the same again."""
    network = FNO(2, 2, 5, 2, 3, 7)
    x, dx = torch.randn(3, 6, 7, 2), torch.randn(2, 6, 7, 2)

    def gradients() -> list[torch.Tensor]:
        y, dy = network.value_and_tangents(x, dx)
        return torch.autograd.grad(y.square().sum() + dy.square().sum(), list(network.parameters()))

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = gradients()
        for threads in (2, 5):
            torch.set_num_threads(threads)
            shared = gradients()
            assert all(torch.equal(a, b) for a, b in zip(shared, gradients(), strict=True))
            for a, b in zip(shared, alone, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("width", [1, 7, 8, 16, 19, 24, 40, 51])
def test_every_width_gives_what_array_operations_give(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that are full, half empty, or both."""
    network = FNO(2, 3, width, 2, 3, 2 * width + 1)
    x, dx = torch.randn(3, 6, 11, 2), torch.randn(2, 6, 11, 2)

    def gradients() -> list[torch.Tensor]:
        y, dy = network.value_and_tangents(x, dx)
        loss = y.square().mean() + dy.square().mean()
        return [y, dy, *torch.autograd.grad(loss, list(network.parameters()))]

    compiled = gradients()
    monkeypatch.setattr(compiled_rows, "available", lambda field: False)
    for found, expected in zip(compiled, gradients(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12 * float(expected.detach().abs().max()))


def test_compiled_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build = compiled_rows._library.__wrapped__  # without the memory of this process
    assert build(torch.float32) is not None
    (made,) = (tmp_path / "stcl").iterdir()
    written = made.stat().st_mtime_ns
    assert build(torch.float32) is not None
    assert [path.stat().st_mtime_ns for path in (tmp_path / "stcl").iterdir()] == [written]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_torch_does_it(compiler: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(compiled_rows, "_library", compiled_rows._library.__wrapped__)
    network, x = FNO(2, 1, 5, 2, 2, 7), torch.randn(3, 6, 7, 2)
    called = []
    monkeypatch.setattr(rows, "head_forward", lambda *a, f=rows.head_forward: (called.append(1), f(*a))[1])
    network.value_and_tangents(x, x)
    assert called


def test_arguments_of_the_wrong_kind_do_not_reach_c():
    """A tensor in the place of strides, of another dtype, or one too many would be read as something else."""
    dft = truncated_dft(6, 6, 2, torch.float64, torch.device("cpu"))
    h, dh, weight = torch.randn(1, 6, 1, 6, 3), torch.randn(1, 6, 2, 6, 3), torch.randn(3, 3)
    local, half = compiled_rows.first_forward(h, dh, weight, dft)
    size, strides = compiled_rows._Size.of(local.shape, dft), compiled_rows._Strides.of(dh)
    good = (h, dh, strides, weight.mT, dft.analysis_y, local.clone(), half.clone())
    compiled_rows._call("first_forward", size, *good)
    torch.testing.assert_close(good[-1], half)
    for bad in ((h, strides, dh, *good[3:]), (h, dh.float(), *good[2:])):
        with pytest.raises(ctypes.ArgumentError):
            compiled_rows._call("first_forward", size, *bad)
    with pytest.raises(TypeError, match="takes 9 arguments, got 10"):
        compiled_rows._call("first_forward", size, *good, half)
