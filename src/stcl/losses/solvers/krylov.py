"""A few preconditioned Krylov steps for elliptic operators."""

from collections.abc import Callable

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solved
from stcl.losses import metrics, settings
from stcl.tangent import krylov
from stcl.tangent.five_point import five_point, is_five_point, on_interior
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import single_block
from stcl.tangent.solver_choice import fitting_solver, solver_refusal
from stcl.tangent.structure import symmetry_defect
from stcl.tangent.unknowns import embed


class Krylov:
    """m preconditioned steps for A x = g from zero, for all samples and right-hand sides together.

    The unknowns are the values at the nodes that have an equation. MINRES fits a symmetric A, CG fits one that is
    definite as well, and GMRES fits any other.
    """

    def __init__(
        self, equation: DiscreteEquation, settings: settings.Krylov, tangent_class: OperatorClass | None
    ) -> None:
        self.equation, self.settings = equation, settings
        self.metric = metrics.load(equation, settings.metric)
        a, u = equation.states(1)
        single_block(equation.residual(u, a), "solver krylov")
        defect = symmetry_defect(TangentOperator(equation, u[0], a[0]))
        refusal = solver_refusal(settings.method, tangent_class, defect)
        if refusal:
            raise ValueError(refusal)
        self.method = settings.method or fitting_solver(defect, positive=tangent_class == "spd")
        self.solve = krylov.SOLVERS[self.method]
        self.linearise = five_point if is_five_point(equation, u, a) else on_interior

    @property
    def steps(self) -> int:
        return self.settings.steps

    @property
    def products(self) -> int:
        return self.steps + (self.method == "minres")  # which looks at the residual of its result

    @torch.no_grad()
    def at(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Solved]:
        operator, preconditioner = self.linearise(self.equation, u, a), self.metric.at(a)

        def solve(g: Tensor) -> Solved:
            found = self.solve(operator, g, preconditioner, steps=self.steps, axes=g.ndim - 2)
            return Solved(embed(found.x, self.equation.layout.grid), found.residual, found.solved)

        return torch.no_grad()(solve)
