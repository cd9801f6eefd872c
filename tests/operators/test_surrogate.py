"""A surrogate between a problem's arrays: channels, standardisation, hard initial condition, tangents."""

import numpy as np
import pytest
import torch
from textbook import textbook_of
from torch import Tensor

from stcl.core.layout import Layout
from stcl.operators.fno import FNO
from stcl.operators.surrogate import Surrogate


def layout(kind: str) -> Layout:
    x1, x2, t = np.linspace(0, 1, 9), np.linspace(0, 1, 8), np.linspace(0, 5, 8)
    if kind == "elliptic":
        return Layout(("x1", "x2"), (x1, x1), (1.0, 1.0), ("a",), ("u",), ("x1", "x2", "a"), ("x1", "x2"), ("u",))
    if kind == "forced in time":
        return Layout(("x", "t"), (x2, t), (1.0, 5.0), ("f",), ("u",), ("x", "t", "f"), ("t",), ("u",), "t")
    if kind == "initial value":
        return Layout(("t", "x"), (t, x1), (5.0, 1.0), ("a",), ("u",), ("a", "t", "x"), ("x",), ("u",), "t", "t")
    axes, inputs = ("x2", "x1"), ("u1", "u2")
    responses = ("y1", "y2", "p")
    return Layout(axes, (x2, x1), (1.0, 1.0), inputs, responses, ("x1", "x2", "u1", "u2"), axes, responses[:2])


KINDS = ["elliptic", "forced in time", "initial value", "saddle"]


def surrogate_and_data(kind: str, lead: tuple[int, ...]) -> tuple[Surrogate, Tensor, Tensor]:
    where = layout(kind)
    surrogate = Surrogate(FNO(len(where.channels), len(where.responses), 5, 3, 3, 8), where)
    a = 2 + 3 * torch.randn(3, *where.input_shape)
    surrogate.standardise(a)
    return surrogate, a, torch.randn(*lead, *where.input_shape)


@pytest.mark.parametrize("lead", [(2,), (3, 2)], ids=["shared", "per sample"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["fast", "generic"])
def test_tangents_are_those_of_the_map(kind: str, lead: tuple[int, ...], path: str) -> None:
    surrogate, a, v = surrogate_and_data(kind, lead)
    if path == "generic":
        surrogate.network = textbook_of(surrogate.network)
    u, w = surrogate.value_and_tangents(a, v)
    assert u.shape == (3, *surrogate.layout.response_shape)
    assert w.shape == (3, 2, *surrogate.layout.response_shape)
    torch.testing.assert_close(u, surrogate(a), rtol=1e-12, atol=1e-12)
    for j in range(2):
        direction = v[j].expand_as(a) if len(lead) == 1 else v[:, j]
        _, expected = torch.func.jvp(surrogate, (a,), (direction,))
        torch.testing.assert_close(w[:, j], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_network_sees_the_channels_of_the_layout(kind: str) -> None:
    where = layout(kind)
    surrogate, a, _ = surrogate_and_data(kind, (2,))
    seen = []
    surrogate.network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    surrogate(a)
    mesh = dict(zip(where.axes, np.meshgrid(*where.coordinates, indexing="ij"), strict=True))
    fields = a.numpy().reshape(3, len(where.inputs), -1)
    for channel, name in enumerate(where.channels):
        if name in where.axes:
            expected = mesh[name] / where.lengths[where.axes.index(name)]
        else:
            field = fields[:, where.inputs.index(name)]
            scaled = (field - field.mean()) / field.std(ddof=1)
            nodes = [n if axis in where.input_axes else 1 for n, axis in zip(where.grid, where.axes, strict=True)]
            expected = scaled.reshape(3, *nodes)
        np.testing.assert_allclose(
            seen[0][..., channel].numpy(), np.broadcast_to(expected, (3, *where.grid)), atol=1e-12
        )


def test_initial_condition_is_exact() -> None:
    surrogate, a, v = surrogate_and_data("initial value", (3, 2))
    u, w = surrogate.value_and_tangents(a, v)
    assert torch.equal(u[:, 0], a)
    assert torch.equal(w[:, :, 0], v)


def test_statistics_are_saved_and_coordinates_are_not() -> None:
    surrogate, _, _ = surrogate_and_data("saddle", (2,))
    names = {name for name in surrogate.state_dict() if not name.startswith("network.")}
    assert names == {"input_mean", "input_std"}
