"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from a few Krylov steps: a tangent that is solved for, used once, and never stored."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import metrics, settings
from stcl.losses.squares import squares
from stcl.tangent import krylov
from stcl.tangent.five_point import five_point, is_five_point, on_interior
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import input_derivative, single_block
from stcl.tangent.solver_choice import fitting_solver, solver_refusal
from stcl.tangent.structure import symmetry_defect
from stcl.tangent.unknowns import embed

WATCHED = 4096  # updates whose targets are remembered, where nobody asks for the columns of an epoch


class KrylovTarget:
    """L = mean over samples, directions and all nodes of (DS_θ(a)[v] − ŵ)², without pairs that were not solved.

    ŵ is the result of m preconditioned steps for A(u, a) ŵ = −B(u, a) v from zero, at the training response u or at
    the prediction u_θ, without gradient. The unknowns are the values at the nodes that have an equation; elsewhere, at
    walls for example, ŵ is zero, and the tangent is held to it there. All samples and directions are solved together.

    MINRES fits a symmetric A, CG fits one that is definite as well, and GMRES fits any other. BiCGStab keeps fewer
    vectors than GMRES.
    """

    def __init__(
        self, equation: DiscreteEquation, settings: settings.KrylovTarget, tangent_class: OperatorClass | None
    ) -> None:
        self.equation, self.settings = equation, settings
        self.metric = metrics.load(equation, settings.metric)
        a, u = equation.states(1)
        single_block(equation.residual(u, a), "krylov_target")
        defect = symmetry_defect(TangentOperator(equation, u[0], a[0]))
        refusal = solver_refusal(settings.solver, tangent_class, defect)
        if refusal:
            raise ValueError(refusal)
        self.solve = krylov.SOLVERS[settings.solver or fitting_solver(defect, positive=tangent_class == "spd")]
        self.linearise = five_point if is_five_point(equation, u, a) else on_interior
        self._watch = _Watch()

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        target = self.target(a, label if self.settings.state == "label" else u, v)
        solved = target.solved.sum()
        self._watch.add(target.residual, solved)
        distance = squares(w - embed(target.x, self.equation.layout.grid))
        share = target.solved / (w[0, 0].numel() * solved.clamp_min(1)).to(w.dtype)
        return torch.dot(distance.flatten(), share.flatten())

    def epoch_columns(self) -> dict[str, float]:
        """The median relative residual of the targets since the last call, and how many of them were not solved."""
        return self._watch.finish()

    @torch.no_grad()
    def target(self, a: Tensor, u: Tensor, v: Tensor) -> krylov.Solution:
        """ŵ at the equations' nodes [B, q, *equations], and the relative residual it leaves, [B, q]."""
        g = -single_block(input_derivative(self.equation, u, a, v), "krylov_target")
        operator = self.linearise(self.equation, u, a)
        return self.solve(operator, g, self.metric.at(a), steps=self.settings.steps, axes=g.ndim - 2)


class _Watch:
    """What became of the last targets, in memory that is taken once: a captured update goes on writing to it."""

    def __init__(self) -> None:
        self.residuals = torch.empty(0, 0)  # [WATCHED, pairs of an update], NaN where an update had fewer pairs
        self.solved = torch.empty(0, dtype=torch.long)  # pairs that were solved, [WATCHED]
        self.updates = torch.zeros((), dtype=torch.long)

    def add(self, residual: Tensor, solved: Tensor) -> None:
        """Count an update by the relative residuals of its pairs and the number of pairs that were solved."""
        if residual.numel() > self.residuals.shape[1] or residual.device != self.residuals.device:
            self._take_memory(residual)
        values, missing = residual.flatten(), self.residuals.shape[1] - residual.numel()
        if missing > 0:  # the last batch of an epoch
            values = pad(values, (0, missing), value=math.nan)
        row = (self.updates % WATCHED).view(1)
        self.residuals.index_copy_(0, row, values.view(1, -1))
        self.solved.index_copy_(0, row, solved.view(1))
        self.updates.add_(1)

    def _take_memory(self, residual: Tensor) -> None:
        """Make room for updates with as many pairs as this one. It is the first, or a larger batch than all before."""
        with torch.inference_mode(False):
            old, pairs = self.residuals, residual.numel()
            self.residuals = torch.full((WATCHED, pairs), math.nan, dtype=residual.dtype, device=residual.device)
            self.residuals[: len(old), : old.shape[1]] = old
            self.solved = pad(self.solved, (0, WATCHED - len(self.solved))).to(residual.device)
            self.updates = self.updates.to(residual.device)

    def finish(self) -> dict[str, float]:
        """The columns of an epoch. What they were made from is forgotten."""
        rows = min(int(self.updates), WATCHED)
        if rows == 0:
            return {}
        self.updates.zero_()
        residuals = self.residuals[:rows]
        residuals = residuals[~residuals.isnan()]
        unsolved = residuals.numel() - int(self.solved[:rows].sum())
        return {"target_residual": residuals.median().item(), "targets_unsolved": unsolved}
