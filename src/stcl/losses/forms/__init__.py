"""How a tangent residual becomes a loss, one form a file, loaded by name; the class is the file's name in CamelCase.

A form is built from (problem, settings) and called as stcl.losses.sketched_tangents.TangentForm says.
"""

import importlib

from stcl.losses.settings import Settings
from stcl.losses.sketched_tangents import TangentForm
from stcl.problems.base import Problem


def load(problem: Problem, settings: Settings) -> TangentForm:
    """The form that its settings name."""
    module = importlib.import_module(f"{__name__}.{settings.name}")
    return getattr(module, "".join(word.capitalize() for word in settings.name.split("_")))(problem, settings)
