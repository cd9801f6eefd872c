"""Which solver is taken for what was measured, and which is refused."""

import pytest

from stcl.tangent.solver_choice import fitting_solver, solver_refusal


@pytest.mark.parametrize(
    ("defect", "positive", "expected"),
    [(0.0, False, "minres"), (0.0, True, "cg"), (0.01, True, "gmres"), (0.01, False, "gmres")],
)
def test_the_solver_fits_what_was_measured(defect, positive, expected):
    assert fitting_solver(defect, positive) == expected


@pytest.mark.parametrize("solver", ["minres", "cg", "gmres"])
@pytest.mark.parametrize("kind", ["spd", "indefinite"])
@pytest.mark.parametrize("defect", [0.0, 0.01])
def test_what_is_not_refused_includes_what_fits(solver, kind, defect):
    """CG needs symmetry and definiteness, MINRES symmetry, GMRES nothing."""
    needs = {"cg": (True, True), "minres": (True, False)}.get(solver, (False, False))
    works = (not needs[0] or defect == 0.0) and (not needs[1] or kind == "spd")
    assert (solver_refusal(solver, kind, defect) is None) == works


def test_symmetry_that_was_not_measured_refuses_nothing():
    assert solver_refusal("minres", "indefinite") is None
    assert solver_refusal(None, "indefinite", 0.5) is None
    assert "this one is indefinite" in solver_refusal("cg", "indefinite")
