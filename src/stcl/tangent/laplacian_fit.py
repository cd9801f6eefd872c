"""The Laplacian D^1/2 (Σ wᵢ Lᵢ + shift) D^1/2 nearest to a tangent operator, from products with smooth modes."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from stcl.core.interfaces import Transform
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import single_block
from stcl.tangent.spectrum import Linear
from stcl.tangent.stencil import diagonal
from stcl.tangent.transforms import allowed_kinds, basis, few_modes, laplacian_diagonal

MODES = 6  # modes per axis, from the smoothest to the roughest
SPREAD = 1.5  # ratio of the diagonal's largest to its smallest entry from which on the fit divides by it


@dataclass(frozen=True)
class LaplacianFit:
    """A ≈ ± D^1/2 (Σ wᵢ Lᵢ + shift) D^1/2; D is the diagonal of A over that of the bracket, or 1."""

    transforms: tuple[Transform, ...]
    weights: tuple[float, ...]
    shift: float  # negative for an operator like −Δ − κ²
    scaled: bool
    negated: bool  # the sign is minus: the equation was written as Δu = …
    alignment: float  # mean |⟨φ, Aφ⟩| / ‖Aφ‖ of the modes φ: 1 if they are eigenvectors, 0 for a first-order operator

    smooth: float  # the smallest eigenvalue of Σ wᵢ Lᵢ that is not zero

    @property
    def positive_shift(self) -> float:
        """The shift of a positive operator near this one.

        It is half the opposite shift where A itself is indefinite. Between ends without values a constant is in the
        Laplacian's kernel. It then weighs at least as much as the smoothest wave.
        """
        shift = self.shift if self.shift >= 0 else -self.shift / 2
        return shift if "sine" in self.transforms else max(shift, self.smooth)


def fit_laplacian(operators: list[TangentOperator]) -> LaplacianFit:
    """The Laplacian nearest to A at these states.

    Its ends are those whose modes are nearest to eigenvectors. Weights and shift then come from least squares over all
    states.
    """
    equation = operators[0].equation
    equations = single_block(equation.residual(operators[0].u, operators[0].a), "fitted_laplacian").shape[1:]
    grid = equation.layout.grid
    nodes = equations[-len(grid) :]
    candidates = itertools.product(*allowed_kinds(grid, nodes))
    products: list[Linear] = [op.product for op in operators]
    probed = {kinds: _probe(products, operators[0], kinds, nodes) for kinds in candidates}
    kinds = max(probed, key=lambda kinds: probed[kinds][1])
    images, alignment, symbols = probed[kinds]
    roughness = symbols.sum(1)
    negated = bool(np.sum(images.mean(0) * (roughness - roughness.mean())) < 0)  # ⟨φ, Aφ⟩ falls with roughness
    weights, shift = _least_squares(-images if negated else images, symbols)

    own = laplacian_diagonal(kinds, weights, shift, nodes)
    ratios = [diagonal(equation, op.u, op.a, equations)[0] / torch.as_tensor(own).to(op.u) for op in operators]
    scaled = _worth_scaling(operators, [r.flatten() for r in ratios], own)
    if scaled:
        products = [_scaled_product(op, r.flatten()) for op, r in zip(operators, ratios, strict=True)]
        images, alignment, symbols = _probe(products, operators[0], kinds, nodes)
        weights, shift = _least_squares(-images if negated else images, symbols)
    eigenvalues = [basis(kind, m)[1] for kind, m in zip(kinds, nodes, strict=True)]
    waves = [w * values[values > 1e-12].min() for w, values in zip(weights, eigenvalues, strict=True) if w > 0]
    return LaplacianFit(kinds, weights, shift, scaled, negated, alignment, smooth=float(min(waves, default=0.0)))


def _worth_scaling(operators: list[TangentOperator], ratios: list[Tensor], own: np.ndarray) -> bool:
    """Whether A's diagonal varies unlike the fit's, keeps its sign, and was found.

    It was found if A couples next neighbours only.
    """
    d = torch.stack(ratios)
    if not (d.amin() > 0 or d.amax() < 0) or d.abs().amax() < SPREAD * d.abs().amin():
        return False
    for operator, ratio in zip(operators, ratios, strict=True):
        rows = torch.linspace(0, len(ratio) - 1, 8, device=ratio.device).long()
        columns = torch.eye(len(ratio), dtype=ratio.dtype, device=ratio.device)[rows]
        exact = operator.product(columns).gather(1, rows[:, None])[:, 0]
        found = ratio[rows] * torch.as_tensor(own.ravel()).to(ratio)[rows % own.size]
        if (exact - found).abs().max() > 0.01 * exact.abs().max():
            return False
    return True


def _scaled_product(operator: TangentOperator, d: Tensor) -> Linear:
    """D^-1/2 A D^-1/2 with D = d / mean d."""
    scale = (d / d.mean()).rsqrt()  # d / mean d is positive also where all of d is negative
    return lambda x: scale * operator.product(scale * x)


def _probe(
    products: list[Linear], operator: TangentOperator, kinds: tuple[Transform, ...], nodes: torch.Size
) -> tuple[np.ndarray, float, np.ndarray]:
    """⟨φ, Aφ⟩ for each state and mode, the mean alignment, and the eigenvalues of L₁ … L_d for each mode [modes, d]."""
    bases = [basis(kind, m) for kind, m in zip(kinds, nodes, strict=True)]
    fields = len(operator.unknowns) // nodes.numel()
    chosen = [few_modes(m, MODES) for m in nodes]
    modes, symbols = [], []
    for wave in itertools.product(*chosen):
        mode = np.ones(())
        for (table, _), k in zip(bases, wave, strict=True):
            mode = np.multiply.outer(mode, table[k])
        modes.append(np.tile(mode.ravel(), fields) / np.sqrt(fields))
        symbols.append([values[k] for (_, values), k in zip(bases, wave, strict=True)])
    waves = torch.as_tensor(np.array(modes)).to(operator.u)
    images, alignment = [], []
    for product in products:
        image = product(waves)
        images.append((waves * image).sum(1))
        alignment.append((images[-1].abs() / image.norm(dim=1).clamp_min(1e-300)).mean())
    return torch.stack(images).double().cpu().numpy(), float(torch.stack(alignment).mean()), np.array(symbols)


def _least_squares(images: np.ndarray, symbols: np.ndarray) -> tuple[tuple[float, ...], float]:
    """Weights ≥ 0 and a shift of either sign that fit the images best in relative terms."""
    target = images.mean(0)
    importance = 1 / (np.abs(target) + 0.02 * np.median(np.abs(target)))
    columns = np.column_stack([symbols, np.ones(len(symbols)), -np.ones(len(symbols))])
    found, _ = nnls(importance[:, None] * columns, importance * target)
    *weights, up, down = map(float, found)
    shift = up - down
    return tuple(weights), 0.0 if abs(shift) < 1e-8 * sum(weights) else shift
