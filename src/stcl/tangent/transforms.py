"""Orthonormal bases in which the second difference along an axis is diagonal, one for each kind of ends."""

import numpy as np

KINDS = ("sine", "cosine", "fourier")  # zero beyond both ends; no flux through them; periodic


def basis(kind: str, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Modes as rows [m, m], smooth ones first, and the eigenvalues [m] of −(x₋ − 2x + x₊)."""
    node = np.arange(m)
    if kind == "sine":
        k = np.arange(1, m + 1)
        modes, angle = np.sin(np.pi * np.outer(k, node + 1) / (m + 1)), np.pi * k / (m + 1)
    elif kind == "cosine":
        k = np.arange(m)
        modes, angle = np.cos(np.pi * np.outer(k, node + 0.5) / m), np.pi * k / m
    elif kind == "fourier":
        k = (np.arange(m) + 1) // 2  # 0, then cosine and sine of each wave
        phase = 2 * np.pi * np.outer(k, node) / m
        modes, angle = np.where(np.arange(m)[:, None] % 2 == 1, np.cos(phase), np.sin(phase)), 2 * np.pi * k / m
        modes[0] = 1.0
    else:
        raise ValueError(f"transform must be one of {', '.join(KINDS)}, got {kind!r}")
    return modes / np.linalg.norm(modes, axis=1, keepdims=True), 2 - 2 * np.cos(angle)


def laplacian_diagonal(kinds: list[str], weights: list[float], shift: float, nodes: tuple[int, ...]) -> np.ndarray:
    """The diagonal of Σ wᵢ Lᵢ + shift, [*nodes]: two for each axis, one at the ends of an axis without flux."""
    total = np.full(nodes, shift)
    for axis, (kind, weight, m) in enumerate(zip(kinds, weights, nodes, strict=True)):
        own = np.full(m, 2.0)
        if kind == "cosine":
            own[[0, -1]] = 1.0
        total = total + weight * own.reshape(-1, *[1] * (len(nodes) - 1 - axis))
    return total
