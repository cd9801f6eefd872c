"""The operator T ⊗ I + W ⊗ L nearest to a tangent operator in time: differences in time, a symbol in space."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stcl.core.interfaces import Transform
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import single_block
from stcl.tangent.transforms import allowed_kinds, basis, few_modes

ALIGNED = 6  # modes per axis from which the transform is chosen
FITTED = 4  # modes whose matrices in time are measured
COLUMNS = 256  # fields whose images are computed together
ENDS = 2  # frames at both ends where differences in time may see that a field begins or ends


@dataclass(frozen=True)
class SpaceTimeFit:
    """A ≈ Σ_k (T + W s_k) ⊗ φ_k φ_kᵀ over the modes φ_k in space, with the symbol s_k = ⟨φ_k, A φ_k⟩ of steady fields.

    T and W are [frames, frames] for the frames that have an equation: T holds the differences in time, W the frames at
    which the space part of the equation stands.
    """

    transforms: tuple[Transform, ...]  # of each axis of space
    symbol: np.ndarray  # s, [*space]
    time: np.ndarray  # T
    weight: np.ndarray  # W


def fit_space_time(operators: list[TangentOperator]) -> SpaceTimeFit:
    """The fit to the mean of A at these states."""
    equation = operators[0].equation
    layout, single = equation.layout, single_block(equation.residual(operators[0].u, operators[0].a), "space_time")
    nodes, axis = single.shape[1:], layout.axes.index(str(layout.time_axis))
    frames, space = nodes[axis], tuple(n for i, n in enumerate(nodes) if i != axis)
    grid = [n for i, n in enumerate(layout.grid) if i != axis]

    def images(fields: np.ndarray) -> np.ndarray:
        """The mean of A x over the states for fields x [k, frames, modes' nodes], in the same shape."""
        x = torch.as_tensor(fields.reshape(-1, frames, *space)).movedim(1, 1 + axis).flatten(1).to(operators[0].u)
        found = sum(torch.cat([op.product(few) for few in x.split(COLUMNS)]) for op in operators)
        assert isinstance(found, Tensor)
        back = found.unflatten(1, nodes).movedim(1 + axis, 1).flatten(2) / len(operators)
        return back.double().cpu().numpy()

    def steady(modes: np.ndarray) -> np.ndarray:
        """A at the middle frames, of modes that do not change in time."""
        return images(np.repeat(modes[:, None], frames, 1))[:, ENDS:-ENDS]

    def alignment(kinds: tuple[Transform, ...]) -> float:
        chosen = [few_modes(m, ALIGNED) for m in space]
        modes = _modes(kinds, space).reshape(*space, -1)[np.ix_(*chosen)].reshape(-1, int(np.prod(space)))
        image = steady(modes)
        share = np.abs((image * modes[:, None]).sum(2)) / np.maximum(np.linalg.norm(image, axis=2), 1e-300)
        return float(share.mean())

    transforms = max(itertools.product(*allowed_kinds(grid, space)), key=alignment)
    modes = _modes(transforms, space)
    symbol = np.concatenate(
        [(steady(few) * few[:, None]).sum(2).mean(1) for few in np.array_split(modes, -(-len(modes) // COLUMNS))]
    )
    order = np.argsort(symbol)
    fitted = order[few_modes(len(order), FITTED)]
    matrices = []
    for k in fitted:
        impulses = np.eye(frames)[:, :, None] * modes[k]
        matrices.append((images(impulses) * modes[k]).sum(2).T)  # ⟨φ, A (e_s ⊗ φ)⟩ at frame t: row t, column s
    design = np.column_stack([np.ones(len(fitted)), symbol[fitted]])
    (time, weight), *_ = np.linalg.lstsq(design, np.stack(matrices).reshape(len(fitted), -1), rcond=None)
    return SpaceTimeFit(transforms, symbol.reshape(space), time.reshape(frames, -1), weight.reshape(frames, -1))


def _modes(kinds: tuple[Transform, ...], space: tuple[int, ...]) -> np.ndarray:
    """Products of the modes of all axes as rows, [modes, nodes]."""
    modes = np.ones((1, 1))
    for kind, m in zip(kinds, space, strict=True):
        modes = np.kron(modes, basis(kind, m)[0])
    return modes
