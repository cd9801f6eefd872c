"""The PDE benchmarks, one file each. `load("diffusion", n=33)` builds one by name, `load("my/poisson.py")` by its file.

A module is imported by name when its problem is asked for. So a new file in this folder is a new problem, and the code
of one problem is not part of the provenance of another.
"""

import dataclasses
import importlib
import json
import math
import re
import typing
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from stcl.problems import _own_file
from stcl.problems.base import Problem

LARGEST = 1e6  # of any number in the options of a problem
_NOT_PROBLEMS = {"__init__", "base"}


def names() -> list[str]:
    """The names of all problems that can be loaded. Files that start with an underscore are shared helpers."""
    files = (p.stem for p in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if name not in _NOT_PROBLEMS and not name.startswith("_"))


def load(name: str, **options: Any) -> Problem:
    """The problem `name` with the given constants, e.g. load("diffusion", n=33), or that of a file elsewhere.

    The file `problems/<name>.py` must define a class of the same name in CamelCase.
    """
    problem_class = _own_file.load_class(name) if is_file(name) else _class(name)
    known = [f.name for f in dataclasses.fields(problem_class) if f.init]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{name} has no option {', '.join(unknown)}; its options are: {', '.join(known)}")
    kinds = typing.get_type_hints(problem_class)
    return problem_class(**{key: _checked_option(f"{name}: option {key}", kinds[key], v) for key, v in options.items()})


def is_file(name: str) -> bool:
    """Whether a problem stands in a file of its user, whose path is its name."""
    return _own_file.path_of(name) is not None


def code_of(name: str) -> str:
    """Where the code of a problem is: its module, or its file, for `stcl.runtime.provenance.code_id`."""
    return _own_file.path_of(name) or f"stcl.problems.{name}"


def _class(name: str) -> type[Problem]:
    """The class of a problem of this package."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name not in names():
        raise ValueError(f"unknown problem {name!r}; known problems: {', '.join(names())}, or the path of a .py file")
    module = importlib.import_module(f"stcl.problems.{name}")
    class_name = "".join(word.capitalize() for word in name.split("_"))
    problem_class = getattr(module, class_name, None)
    if problem_class is None:
        raise ValueError(f"problems/{name}.py must define a class {class_name}")
    return problem_class


def _checked_option(what: str, kind: Any, value: Any) -> Any:
    """The value as the field takes it. Refused is what is not of its type, or so large that no such grid can be held.

    Options come from YAML or JSON, so a list is taken for a tuple. A type that pydantic does not know is not checked.
    """
    try:
        value = TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise ValueError(f"{what}: {error.errors()[0]['msg']}, got {value!r}") from None
    except PydanticUserError:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value!r}")
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise ValueError(f"{what} must be at most {LARGEST:g}, got {value!r}")
    return value
