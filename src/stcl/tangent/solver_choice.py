"""Which solver fits a tangent operator A, and which cannot work. This module imports no torch."""

from stcl.core.interfaces import Solver
from stcl.core.layout import Layout

SYMMETRIC = 1e-8  # largest ‖A − Aᵀ‖/‖A‖ of an operator that is symmetric to rounding


def fitting_solver(symmetry_defect: float, positive: bool) -> Solver:
    """CG for a symmetric positive definite A, MINRES for any other symmetric A, GMRES for the rest."""
    if symmetry_defect >= SYMMETRIC:
        return "gmres"
    return "cg" if positive else "minres"


def solver_refusal(
    solver: Solver | None, tangent_class: str | None, symmetry_defect: float | None = None
) -> str | None:
    """Why this solver cannot work, or None. Symmetry counts only where it was measured."""
    if solver in ("minres", "cg") and symmetry_defect is not None and symmetry_defect >= SYMMETRIC:
        return (
            f"{solver} may only be used for symmetric operators, here ‖A − Aᵀ‖/‖A‖ is {symmetry_defect:.1e}; use "
            f"gmres, or leave the solver out"
        )
    if solver == "cg" and tangent_class != "spd":
        return f"cg may only be used for definite operators, this one is {tangent_class}; use minres or gmres"
    return None


def space_time_refusal(layout: Layout) -> str | None:
    """Why the solver space_time cannot work for this layout, or None."""
    if layout.time_axis is not None and len(layout.responses) == 1 and len(layout.grid) > 1 and min(layout.grid) > 6:
        return None
    return (
        f"solver space_time needs one response on a grid of time and space with more than 6 nodes along each axis, got "
        f"{', '.join(layout.responses)} on the axes {', '.join(layout.axes)} with nodes {layout.grid} and time_axis "
        f"{layout.time_axis}"
    )
