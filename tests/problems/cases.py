"""Every problem at a size small enough for tests; each claim of test_problems.py runs over this list."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # constants for a fast test
    shared_grid: bool = True  # network and solver use the same discrete equation
    stabilised: tuple[str, ...] = ()  # blocks of the residual that the solver's equation changes; tested on their own
    finer: dict[str, Any] = field(default_factory=dict)  # options, over `options`, of a finer grid with common nodes
    refused: tuple[dict[str, Any], ...] = ()  # options that have no meaning
    step: float = 0.02  # of finite differences, relative to the input

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("diffusion", {"n": 17}, finer={"n": 33}, refused=({"n": 3}, {"kept_modes": 0}, {"kept_modes": 1601})),
    Case("helmholtz", {"n": 17}, finer={"n": 33}, refused=({"n": 3}, {"kappa": -5.0}, {"modes": 0})),
    Case(
        "navier_stokes",
        {"n": 16},
        stabilised=("divergence",),
        finer={"n": 31},
        refused=({"n": 4}, {"mu": -0.1}, {"alpha": 0.0}, {"modes": 0}),
    ),
    Case(
        "burgers",
        {"nx": 16, "nt": 25, "solver_nx": 32, "solver_nt": 50},
        shared_grid=False,
        finer={"nx": 31, "nt": 49, "solver_nx": 64, "solver_nt": 100},
        refused=({"viscosity": -0.01}, {"nx": 3}, {"solver_nt": 2}, {"bumps": 1}, {"scheme": "explicit"}),
    ),
    Case(
        "allen_cahn",
        {"nx": 32, "nt": 10, "time_step": 2e-2},
        shared_grid=False,
        finer={"nx": 64, "nt": 19},
        refused=({"eps": -0.03}, {"nx": 3}, {"nt": 3}, {"time_step": 0.0}),
        step=0.005,
    ),
]
