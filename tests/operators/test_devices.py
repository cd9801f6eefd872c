"""Forward, tangents and backward keep to one device and never ask it for a number."""

import numpy as np
import pytest
import torch
from dispatch import OneDevice

from stcl.core.layout import Layout
from stcl.operators.fno import FNO
from stcl.operators.surrogate import Surrogate


def surrogate() -> Surrogate:
    x, t = np.linspace(0, 1, 9), np.linspace(0, 5, 8)
    layout = Layout(("t", "x"), (t, x), (5.0, 1.0), ("a",), ("u",), ("a", "t", "x"), ("x",), ("u",), "t")
    return Surrogate(FNO(3, 1, 5, 3, 3, 8), layout)


@pytest.mark.parametrize("lead", [(2,), (3, 2)], ids=["shared", "per sample"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_no_host_reads_and_one_device(device: str, lead: tuple[int, ...], passes: str) -> None:
    model = surrogate().to(device)
    a, v = torch.randn(3, 9, device=device), torch.randn(*lead, 9, device=device)
    model.value_and_tangents(a, v)  # the cached matrices go to the device once
    with OneDevice(device):
        u, w = model.value_and_tangents(a, v)
        (model(a).square().mean() + u.square().mean() + w.square().mean()).backward()
    assert all(p.grad is not None and p.grad.device.type == device for p in model.parameters())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda x: x.sum().item(), "reads"),
        (lambda x: x[x > 0], "reads"),
        (lambda x: x @ torch.ones(3, 3), "mixes devices"),
        (lambda x: x.to("cpu"), "copies from meta to cpu"),
    ],
)
def test_the_mode_catches(fault, message: str) -> None:
    x = torch.ones(3, 3, device="meta")
    with pytest.raises(AssertionError, match=message), OneDevice("meta"):
        fault(x)


def test_the_mode_allows_host_bookkeeping() -> None:
    """An optimiser's step counter is a scalar on the host."""
    parameter = torch.nn.Parameter(torch.ones(3, device="meta"))
    optimiser = torch.optim.Adam([parameter])
    with OneDevice("meta"):
        parameter.sum().backward()
        optimiser.step()
