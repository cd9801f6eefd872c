"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from a few Krylov steps: a tangent that is solved for, used once, and never stored."""

import torch
from torch import Tensor

from stcl.losses import metrics, settings
from stcl.problems.base import Problem
from stcl.tangent import krylov
from stcl.tangent.five_point import five_point, on_interior
from stcl.tangent.residual import input_derivative, single_block
from stcl.tangent.states import states
from stcl.tangent.unknowns import Unknowns, embed

SOLVERS = {"minres": krylov.minres, "cg": krylov.cg, "gmres": krylov.gmres, "bicgstab": krylov.bicgstab}
ROUNDING = 1e-8  # relative, of products with A in float64


class KrylovTarget:
    """L = mean over samples, directions and all nodes of (DS_θ(a)[v] − ŵ)².

    ŵ is the result of m preconditioned steps for A(u, a) ŵ = −B(u, a) v from zero, at the training response u or at
    the prediction u_θ, without gradient. The unknowns are the values at the nodes that have an equation; elsewhere, at
    walls for example, ŵ is zero, and the tangent is held to it there. All samples and directions are solved together.

    MINRES fits a symmetric A, CG if it is definite as well, GMRES any other; BiCGStab keeps fewer vectors than GMRES.
    """

    def __init__(self, problem: Problem, settings: settings.KrylovTarget) -> None:
        self.problem, self.settings = problem, settings
        self.metric = metrics.load(problem, settings.metric)
        probe = Probe(problem)
        self.solve = SOLVERS[choose_solver(settings.solver, problem.tangent_class, probe.asymmetry())]
        self.linearise = five_point if probe.is_five_point() else on_interior

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        target = self.target(a, label if self.settings.state == "label" else u, v)
        return (w - embed(target.x, self.problem.layout.grid)).square().mean()

    @torch.no_grad()
    def target(self, a: Tensor, u: Tensor, v: Tensor) -> krylov.Solution:
        """ŵ at the equations' nodes [B, q, *equations], and the relative residual it leaves, [B, q]."""
        g = -single_block(input_derivative(self.problem, u, a, v), "krylov_target")
        operator = self.linearise(self.problem, u, a)
        return self.solve(operator, g, self.metric.at(a), steps=self.settings.steps, axes=g.ndim - 2)


def choose_solver(wanted: str | None, tangent_class: str, asymmetry: float) -> str:
    """The solver that fits A, or `wanted` if it can work."""
    definite, symmetric = tangent_class == "spd", asymmetry < ROUNDING
    if wanted is None:
        return ("cg" if definite else "minres") if symmetric else "gmres"
    if wanted in ("minres", "cg") and not symmetric:
        raise ValueError(
            f"{wanted} may only be used for symmetric operators, here ⟨Ax, y⟩ and ⟨x, Ay⟩ differ by {asymmetry:.1e} of "
            f"‖Ax‖‖y‖; use gmres, or leave the solver out"
        )
    if wanted == "cg" and not definite:
        raise ValueError(
            f"cg may only be used for definite operators, this one is {tangent_class}; use minres or gmres"
        )
    return wanted


class Probe:
    """What A is like, from two products with it at a solved state and random fields, in float64."""

    def __init__(self, problem: Problem) -> None:
        a, u = states(problem, 1)
        equations = single_block(problem.residual(u, a), "krylov_target")
        Unknowns(equations, problem.layout)  # refuses an A that is not square
        generator = torch.Generator().manual_seed(0)
        fields = torch.randn(1, 2, *equations.shape[1:], generator=generator, dtype=torch.float64)
        self.fields = fields.to(equations)
        self.images = on_interior(problem, u, a)(self.fields)
        if equations.shape[1:] == tuple(n - 2 for n in problem.layout.grid) and equations.ndim == 3:
            self.by_stencil = five_point(problem, u, a)(self.fields)
        else:
            self.by_stencil = None

    def asymmetry(self) -> float:
        """|⟨Ax, y⟩ − ⟨x, Ay⟩| / ‖Ax‖‖y‖."""
        (x, y), (ax, ay) = self.fields[0], self.images[0]
        return float(((ax * y).sum() - (x * ay).sum()).abs() / (ax.norm() * y.norm()))

    def is_five_point(self) -> bool:
        if self.by_stencil is None:
            return False
        return bool((self.by_stencil - self.images).norm() < ROUNDING * self.images.norm())
