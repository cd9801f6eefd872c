"""What may be wrong with an equation that its data do not fulfil: simple changes of the data that would mend it."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.tangent.data_check import PROBED, Residual, Smooth, distance_of

MENDS = 0.1  # share of the distance that is left if a change mends the equation
FITS = 0.05  # largest distance of an equation that was mended
CHANGED = 0.1  # smallest change of a factor, or offset over the size of the data: a coarse grid looks like less
SPREAD = 0.01  # smallest |s x| over |m| for s x + m: a constant fulfils many equations
NOTHING = 1e-6  # largest factor and offset of data that are none
NEWTON_STEPS = 12  # for a factor and an offset
FEW = 3  # fields or numbers of an input whose order is tried


class Change(NamedTuple):
    """Changed data, and what it means if they fulfil the equation."""

    meaning: str
    a: Tensor
    u: Tensor


def explanation(residual: Residual, layout: Layout, a: Tensor, u: Tensor, distance: float) -> str | None:
    """What the change of the data that mends the equation means; None if none does. The simplest comes first."""
    best, found = min(MENDS * distance, FITS), None
    for change in _changes(residual, layout, a, u):
        try:
            left = distance_of(residual, layout, change.a, change.u)
        except (RuntimeError, ValueError):  # a residual that cannot take such data
            continue
        if left < best:
            best, found = MENDS * left, f"{change.meaning} (then it holds to {left:.1g} of |u|)"
    return found


def _changes(residual: Residual, layout: Layout, a: Tensor, u: Tensor) -> Iterator[Change]:
    yield Change("it holds for −a: check the sign of the terms with a", -a, u)
    yield Change("it holds for −u: check the sign of the terms with u", a, -u)
    if a.shape == u.shape:
        yield Change("it holds with u and a swapped: the arguments are residual(u, a), the data (a, u)", u, a)
    grid = len(layout.grid)
    for axis, name in enumerate(layout.axes):
        backwards = "time runs backwards" if name == layout.time_axis else f"the axis {name} runs backwards"
        yield Change(f"it holds if u is reversed along {name}: {backwards}", a, u.flip(axis - grid))
        if a.shape[1:][-grid:] == u.shape[1:][-grid:]:
            yield Change(f"it holds if a is reversed along {name}: {backwards}", a.flip(axis - grid), u)
    if grid == 2 and layout.grid[0] == layout.grid[1]:
        yield Change("it holds if the axes of u are exchanged: u is transposed", a, u.transpose(-1, -2))
    if len(layout.responses) > 1:
        yield from (
            Change(f"it holds for the fields of u in the order {_one_based(order)}", a, u[:, order])
            for order in _orders(u.shape[1])
        )
    if a.ndim > 1 and 1 < a.shape[1] <= FEW:
        yield from (
            Change(f"it holds for the parts of a in the order {_one_based(order)}", a[:, order], u)
            for order in _orders(a.shape[1])
        )
    for shift in (1, -1):
        meaning = "it holds for the responses of other samples: the rows of a and u are out of order"
        yield Change(meaning, a, u.roll(shift, 0))
    for sign in (1.0, -1.0):
        yield from _scaled(residual, layout, a, u, sign)


def _scaled(residual: Residual, layout: Layout, a: Tensor, u: Tensor, sign: float) -> Iterator[Change]:
    """Data s·x + m in the place of u or a, with the numbers s and m that fit the equation best."""
    a, u = a[:PROBED], u[:PROBED]
    smooth = Smooth(residual, layout, u, a)
    for name, data in (("u", u), ("a", a)):
        size = float(data.square().mean().sqrt())
        if size == 0:
            continue

        def scaled(p: Tensor, data: Tensor = data, size: float = size) -> Tensor:
            return p[0] * data + p[1] * size

        def equations(p: Tensor, name: str = name, scaled: Callable[[Tensor], Tensor] = scaled) -> Tensor:
            return smooth.equations(*((scaled(p), a) if name == "u" else (u, scaled(p)))) @ smooth.modes.T

        p = _fitted(equations, torch.tensor([sign, 0.0]).to(u))
        s, m = float(p[0]), float(p[1])
        if abs(s) * float(data.std()) > SPREAD * abs(m) * size and max(abs(s - 1), abs(m)) > CHANGED:
            meaning = f"it holds for {_affine(s, m * size, name)}: {_advice(s, m * size, size, layout, name)}"
            if max(abs(s), abs(m)) < NOTHING:
                meaning = f"it holds for {name} = 0: a source or a boundary value is missing in it"
            yield Change(meaning, *((a, scaled(p)) if name == "u" else (scaled(p), u)))


def _fitted(equations: Callable[[Tensor], Tensor], p: Tensor) -> Tensor:
    """Two numbers that make equations(p) small, by damped Gauss-Newton steps."""
    value = equations(p)
    for _ in range(NEWTON_STEPS):
        slopes = torch.stack([torch.func.jvp(equations, (p,), (e,))[1].flatten() for e in torch.eye(2).to(p)], 1)
        step = torch.linalg.pinv(slopes, rtol=1e-10) @ value.flatten()
        for halving in range(6):
            trial = p - step / 2**halving
            there = equations(trial)
            if there.isfinite().all() and there.norm() < value.norm():
                break
        else:
            return p
        p, value = trial, there
    return p


def _affine(s: float, m: float, name: str) -> str:
    offset = "" if abs(m) < 1e-6 * abs(s) else f" {'+' if m > 0 else '−'} {abs(m):.3g}"
    return f"{s:.4g} {name}{offset}"


def _advice(s: float, m: float, size: float, layout: Layout, name: str) -> str:
    """What a factor s and an offset m look like, for data of this size."""
    if abs(m) < 1e-3 * abs(s) * size:
        for nodes, power in itertools.product({n - k for n in layout.grid for k in (0, 1)}, (1, 2)):
            if any(abs(abs(s) / float(nodes) ** signed - 1) < 0.02 for signed in (power, -power)):
                return f"{nodes}{'²' if power == 2 else ''} looks like a power of the spacing h, missing or too many"
        return f"a factor is wrong, or {name} is normalised or in other units than the residual"
    return f"is {name} normalised? Then make the Equation of data in its own units and give the loss a stcl.Scale"


def _orders(count: int) -> list[list[int]]:
    orders = [list(order) for order in itertools.permutations(range(count))] if count <= FEW else []
    return orders[1:]  # the first is the given one


def _one_based(order: list[int]) -> str:
    return ", ".join(str(i + 1) for i in order)
