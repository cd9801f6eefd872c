"""Which Krylov method fits a tangent operator A, and which cannot work. This module imports no torch."""

from stcl.core.interfaces import Solver

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
