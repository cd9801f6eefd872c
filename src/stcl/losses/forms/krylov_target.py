"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from a few Krylov steps: a tangent that is solved for, used once, and never stored."""

from collections import deque

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import metrics, settings
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
        self._watched: deque[tuple[Tensor, Tensor]] = deque(maxlen=WATCHED)

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        target = self.target(a, label if self.settings.state == "label" else u, v)
        self._watched.append((target.residual, target.solved))
        distance = (w - embed(target.x, self.equation.layout.grid)).square().flatten(2).mean(-1)
        return (distance * target.solved).sum() / target.solved.sum().clamp_min(1)

    def epoch_columns(self) -> dict[str, float]:
        """The median relative residual of the targets since the last call, and how many of them were not solved."""
        residuals, solved = (torch.cat([x.flatten() for x in found]) for found in zip(*self._watched, strict=True))
        self._watched.clear()
        return {"target_residual": residuals.median().item(), "targets_unsolved": (~solved).sum().item()}

    @torch.no_grad()
    def target(self, a: Tensor, u: Tensor, v: Tensor) -> krylov.Solution:
        """ŵ at the equations' nodes [B, q, *equations], and the relative residual it leaves, [B, q]."""
        g = -single_block(input_derivative(self.equation, u, a, v), "krylov_target")
        operator = self.linearise(self.equation, u, a)
        return self.solve(operator, g, self.metric.at(a), steps=self.settings.steps, axes=g.ndim - 2)
