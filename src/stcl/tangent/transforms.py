"""Orthonormal bases in which the second difference along an axis is diagonal, one for each kind of ends."""

from collections.abc import Sequence

import numpy as np

from stcl.core.interfaces import Transform

KINDS: tuple[Transform, ...] = ("sine", "cosine", "fourier")  # zero beyond both ends; no flux through them; periodic


def allowed_kinds(grid: Sequence[int], equations: Sequence[int]) -> list[tuple[Transform, ...]]:
    """The kinds that each axis may have: between two nodes without an equation, its walls, sines alone."""
    return [("sine",) if n - m == 2 else KINDS for n, m in zip(grid, equations, strict=True)]


def few_modes(m: int, count: int) -> np.ndarray:
    """At most `count` of the modes 0 … m − 1, from the smoothest to the roughest, in equal ratios."""
    return np.unique(np.geomspace(1, m, count).round().astype(int)) - 1


def basis(kind: Transform, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal modes as rows [m, m], smooth ones first, and the eigenvalues [m] of −(x₋ − 2x + x₊).

    The sine modes are the DST-I matrix, which is symmetric.
    """
    return _modes(kind, m), frequencies(kind, m) ** 2


def frequencies(kind: Transform, m: int) -> np.ndarray:
    """2 sin(θ/2) of each mode: its square is the eigenvalue; over the spacing h, it is a wave number of the grid."""
    return 2 * np.sin(_angles(kind, m) / 2)


def _angles(kind: Transform, m: int) -> np.ndarray:
    """θ, by which the phase of a mode changes from one node to the next."""
    match kind:
        case "sine":
            return np.pi * np.arange(1, m + 1) / (m + 1)
        case "cosine":
            return np.pi * np.arange(m) / m
        case "fourier":
            return 2 * np.pi * ((np.arange(m) + 1) // 2) / m  # 0, then cosine and sine of each wave
    raise ValueError(f"transform must be one of {', '.join(KINDS)}, got {kind!r}")


def _modes(kind: Transform, m: int) -> np.ndarray:
    node = np.arange(m)
    if kind == "sine":
        return np.sqrt(2 / (m + 1)) * np.sin(np.pi * np.outer(node + 1, node + 1) / (m + 1))
    phase = np.outer(_angles(kind, m), node + (0.5 if kind == "cosine" else 0.0))
    modes = np.cos(phase)
    if kind == "fourier":
        modes[2::2] = np.sin(phase[2::2])
    return modes / np.linalg.norm(modes, axis=1, keepdims=True)


def laplacian_diagonal(
    kinds: Sequence[Transform], weights: Sequence[float], shift: float, nodes: tuple[int, ...]
) -> np.ndarray:
    """The diagonal of Σ wᵢ Lᵢ + shift, [*nodes]. That of Lᵢ is 2, and 1 at the ends of an axis without flux."""
    total = np.full(nodes, shift)
    for axis, (kind, weight, m) in enumerate(zip(kinds, weights, nodes, strict=True)):
        own = np.full(m, 2.0)
        if kind == "cosine":
            own[[0, -1]] = 1.0
        total = total + weight * own.reshape(-1, *[1] * (len(nodes) - 1 - axis))
    return total
