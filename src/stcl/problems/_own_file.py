"""A problem in a file of its user, anywhere: `path/to/poisson.py`, or `path/to/poisson.py:Poisson`.

A relative path starts from the working folder, which is the one that `results` is in. All jobs of a study share it.
"""

import hashlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

from stcl.core.interfaces import TangentClass
from stcl.problems.base import Problem

_NAME = re.compile(r"(?P<path>.+\.py)(?::(?P<class>[A-Za-z_]\w*))?")


def path_of(name: str) -> str | None:
    """The file behind the name of a problem; None for a problem of this package."""
    match = _NAME.fullmatch(name)
    return match["path"] if match else None


def load_class(name: str) -> type[Problem]:
    """The class that the file defines: the one that is named, or the only one."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not path/to/file.py or path/to/file.py:Class")
    path, wanted = Path(match["path"]), match["class"]
    if not path.is_file():
        raise ValueError(f"no file {path}; the path of a problem starts from the folder in which snakemake runs")
    module = _executed(path)
    defined = {k: v for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__}
    found = {k: v for k, v in defined.items() if issubclass(v, Problem)}
    if wanted is None and len(found) != 1:
        raise ValueError(
            f"{path} must define one subclass of stcl.Problem, it has {', '.join(found) or 'none'}"
            + (f"; name one of them: {path}:{next(iter(found))}" if found else "")
        )
    chosen = wanted or next(iter(found))
    if chosen not in found:
        raise ValueError(f"{path} has no subclass {chosen} of stcl.Problem; it has: {', '.join(found) or 'none'}")
    kinds, kind = get_args(TangentClass), getattr(found[chosen], "tangent_class", None)
    if kind not in kinds:
        raise ValueError(f"{path}: {chosen}.tangent_class must be one of {', '.join(kinds)}, got {kind!r}")
    return found[chosen]


def _executed(path: Path) -> ModuleType:
    """The file as a module. It is executed once for each content, so an edited file is read anew."""
    identity = hashlib.sha256(str(path.resolve()).encode() + b"\0" + path.read_bytes()).hexdigest()[:16]
    name = f"stcl_own_problem_{identity}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return sys.modules[name]
