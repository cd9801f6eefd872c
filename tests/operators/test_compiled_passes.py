"""The passes in C: GELU to rounding, threads, and what happens without a compiler."""

import ctypes

import pytest
import torch

from stcl.operators import compiled_passes, passes
from stcl.operators.fno import FNO

pytestmark = pytest.mark.skipif(
    not compiled_passes.available(torch.empty(())), reason="there is no C compiler with OpenMP"
)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-7), (torch.float64, 1e-15)])
def test_gelu_and_its_derivatives(dtype: torch.dtype, tolerance: float) -> None:
    h = torch.linspace(-14, 14, 1321, dtype=dtype)
    found = [torch.empty_like(h) for _ in range(3)]
    compiled_passes._library(dtype).gelu_of(2, len(h), h, *found)

    x = h.double().requires_grad_()  # the numbers that were rounded to dtype
    g = torch.nn.functional.gelu(x)
    (first,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    for ours, expected in zip(found, (g, first, second), strict=True):
        error = (ours.double() - expected).abs() / expected.abs().clamp_min(1)
        assert error.max() <= tolerance


def test_threads_share_samples() -> None:
    """One, two and more threads than samples: the same to rounding, and exactly the same again."""
    network = FNO(2, 2, 5, 2, 3, 7)
    x, dx = torch.randn(3, 6, 7, 2), torch.randn(2, 6, 7, 2)

    def gradients() -> list[torch.Tensor]:
        y, dy = network.value_and_tangents(x, dx)
        loss = y.square().sum() + dy.square().sum() + network(x).pow(3).sum()
        return torch.autograd.grad(loss, list(network.parameters()))

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
        value = network(x)
        with torch.no_grad():
            again = network(x)  # nothing is kept for a backward pass
        loss = y.square().mean() + dy.square().mean() + value.pow(3).mean()
        return [y, dy, value, again, *torch.autograd.grad(loss, list(network.parameters()))]

    compiled = gradients()
    monkeypatch.setattr(compiled_passes, "available", lambda x: False)
    for found, expected in zip(compiled, gradients(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12 * float(expected.detach().abs().max()))


def test_compiled_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build = compiled_passes._library.__wrapped__  # without the memory of this process
    assert build(torch.float32) is not None
    (made,) = (tmp_path / "stcl").iterdir()
    written = made.stat().st_mtime_ns
    assert build(torch.float32) is not None
    assert [path.stat().st_mtime_ns for path in (tmp_path / "stcl").iterdir()] == [written]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_torch_does_it(compiler: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(compiled_passes, "_library", compiled_passes._library.__wrapped__)
    network, x = FNO(2, 1, 5, 2, 2, 7), torch.randn(3, 6, 7, 2)
    called = []
    monkeypatch.setattr(passes, "convolve", lambda *a, f=passes.convolve, **k: (called.append(1), f(*a, **k))[1])
    network.value_and_tangents(x, x)
    assert called


def test_arguments_of_the_wrong_kind_do_not_reach_c():
    """A tensor in the place of a size, of another dtype, or strided would be read as something else."""
    library, h = compiled_passes._library(torch.float64), torch.randn(4, 4)
    out = [torch.empty(16) for _ in range(3)]
    library.gelu_of(2, 16, h, *out)
    for bad in ((2, h, h, *out), (2, 16, h.float(), *out), (2, 16, h.mT, *out), (2, 16, h.numpy(), *out)):
        with pytest.raises(ctypes.ArgumentError):
            library.gelu_of(*bad)
    network = FNO(2, 1, 5, 2, 2, 7)
    with pytest.raises(TypeError, match=r"expected torch\.float32 weights"):
        compiled_passes.forward(torch.randn(1, 6, 7, 2).float(), None, network.weights())
