"""Sketched tangent consistency: neural operators with the right derivatives, without derivative labels.

The public names below are loaded when they are first used: `import stcl` itself is instant and needs no torch.
Type checkers cannot follow that. They read `__init__.pyi`.
"""

import importlib
from typing import Any

_HOMES = {
    "stcl.equation": ("Equation", "EquationError"),
    "stcl.consistency": ("TangentConsistency",),
    "stcl.diagnosis": ("diagnose",),
    "stcl.tangents": ("value_and_tangents", "jacobian_error", "ReverseTangents", "TangentError"),
    "stcl.losses.settings": (
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


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stcl' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    """The version in the pyproject.toml of the source folder, or in the record of the installed package.

    The folder comes first, because an editable installation remembers the version of the day it was made.
    """
    import tomllib
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    file = Path(__file__).resolve().parents[2] / "pyproject.toml"
    project = tomllib.loads(file.read_text()).get("project", {}) if file.is_file() else {}
    if project.get("name") == "stcl":
        return project["version"]
    try:
        return version("stcl")
    except PackageNotFoundError:
        return "0+unknown"
