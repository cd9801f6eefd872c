"""Sketched tangent consistency: neural operators with the right derivatives, without derivative labels.

The public names below are loaded when they are first used: `import stcl` itself is instant and needs no torch.
Type checkers cannot follow that. They read `__init__.pyi`.
"""

import importlib
from typing import Any

_HOMES = {
    "stcl.equation": ("Equation",),
    "stcl.core.errors": ("EquationError", "EquationWarning"),
    "stcl.consistency": ("TangentConsistency",),
    "stcl.diagnosis": ("diagnose",),
    "stcl.tangents": ("value_and_tangents", "jacobian_error", "ReverseTangents", "TangentError"),
    "stcl.losses.scale": ("Scale",),
    "stcl.runs": ("load_run", "Run"),
    "stcl.problems.base": ("Problem",),
    "stcl.core.layout": ("Layout",),
    "stcl.losses.variance_share": ("VarianceShare",),
    "stcl.losses.settings": (
        "Weighting",
        "Residual",
        "NormalizedResidual",
        "PreconditionedResidual",
        "KrylovTarget",
        "InverseLaplacian",
        "ShiftedLaplacian",
        "FittedLaplacian",
        "LerayOseen",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

_HOME_OF["__version__"] = "stcl.core.version"


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stcl' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
