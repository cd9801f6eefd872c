"""Metrics M that weigh a tangent residual, one a file, loaded by name; the class is the file's name in CamelCase.

A metric is built from (problem, settings) and has at(a), the map r ↦ M r at an input, energy(r, a) = rᵀ M r for each
sample and direction, and, for tests, the dense matrix(a).
"""

import importlib
from typing import Any

from stcl.losses.settings import Settings
from stcl.problems.base import Problem


def load(problem: Problem, settings: Settings) -> Any:
    """The metric that its settings name."""
    module = importlib.import_module(f"{__name__}.{settings.name}")
    return getattr(module, "".join(word.capitalize() for word in settings.name.split("_")))(problem, settings)
