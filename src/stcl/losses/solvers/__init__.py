"""Solvers of A x = g for targets and corrections.

Each solver has a file of its own, which is loaded by name; the class is the file's name in CamelCase. A solver is built
from an equation, its own settings and the class of the tangent operator, which is None where nobody has declared or
measured it. It answers as stcl.core.interfaces.TangentSolver says.
"""

import importlib

from stcl.core.interfaces import DiscreteEquation, OperatorClass, TangentSolver
from stcl.losses.settings import SolverSettings


def load(
    equation: DiscreteEquation, settings: SolverSettings, tangent_class: OperatorClass | None = None
) -> TangentSolver:
    """The solver that its settings name. The class of the tangent operator is the declared one, unless it is given."""
    module = importlib.import_module(f"{__name__}.{settings.name}")
    solver = getattr(module, "".join(word.capitalize() for word in settings.name.split("_")))
    return solver(equation, settings, tangent_class or equation.tangent_class)
