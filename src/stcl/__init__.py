"""Sketched tangent consistency: neural operators with the right derivatives, without derivative labels.

    tangents = stcl.TangentConsistency(residual)           # residual(u, a): your discrete PDE, in torch
    loss = loss + tangents(model, a, u, data=loss)         # in your training loop

the loss
    TangentConsistency   the term to add to a data loss, an nn.Module
    Equation             a residual F(u, a) with a few states; says what it needs to know of them
    Scale                between the numbers of a model and those of the equation
    Weighting            how the weight of the term follows the two losses
    diagnose             a page on an equation: its operator, the form that fits it, why, and at what price
    VarianceShare        whether more directions would help

tangents of any model
    value_and_tangents   u and DS(a)[v] in one pass
    jacobian_error       how far they are from a solver's
    ReverseTangents      for models without forward mode
    FNO                  a Fourier neural operator with fast tangents

forms of the loss, solvers of targets, metrics
    Residual, NormalizedResidual, PreconditionedResidual, KrylovTarget, SolvedTarget
    Krylov, SpaceTime, Stokes, March, Direct
    InverseLaplacian, ShiftedLaplacian, FittedLaplacian, LerayOseen

the workflow
    load_run             a Run: a trained network with its problem and its data
    Problem, Layout      what a problem of your own answers

errors
    EquationError        what cannot work with a residual, and what to do
    EquationWarning      a residual that hardly holds at the data
    TangentError         what cannot work with a model, and what to do

help(stcl.TangentConsistency) and the like say more; docs/own-pde.md is a page to read. stcl.inverse is a module of
its own. Names are loaded when they are first used: `import stcl` is instant and needs no torch. Type checkers read
`__init__.pyi`.
"""

import importlib as _importlib
from typing import Any as _Any

_HOMES = {
    "stcl.equation": ("Equation",),
    "stcl.core.errors": ("EquationError", "EquationWarning"),
    "stcl.consistency": ("TangentConsistency",),
    "stcl.diagnosis": ("diagnose",),
    "stcl.tangents": ("value_and_tangents", "jacobian_error", "ReverseTangents", "TangentError"),
    "stcl.losses.scale": ("Scale",),
    "stcl.operators.fno": ("FNO",),
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
        "SolvedTarget",
        "Krylov",
        "SpaceTime",
        "Stokes",
        "March",
        "Direct",
        "InverseLaplacian",
        "ShiftedLaplacian",
        "FittedLaplacian",
        "LerayOseen",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

# Not `__all__`: help(stcl) would go through every method of every class, thousands of lines.
NAMES = tuple(sorted(_HOME_OF))

_HOME_OF["__version__"] = "stcl.core.version"


def __getattr__(name: str) -> _Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stcl' has no attribute {name!r}; its public names are {', '.join(NAMES)}")
    return getattr(_importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
