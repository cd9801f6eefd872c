"""The identity of the code that made a result. This module imports nothing heavy."""

import ast
import functools
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "stcl"


@functools.cache
def code_id(*modules: str) -> str:
    """A hash of the code of these modules and of everything they import from this package.

    A module of a user is given by the path of its file.

    Comments, docstrings and formatting do not count. Neither does the package's own `__init__`, which only says where
    public names are: a new name must not make every result stale. Modules that are imported by name at run time
    (problems, forms, metrics) are not seen here, so a job lists those that it uses.
    """
    reached: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in reached:
            continue
        code, imports = _parse(module)
        reached[module] = code
        waiting += imports
    digest = hashlib.sha256()
    for module in sorted(reached):
        digest.update(f"{module}\0{reached[module]}\0".encode())
    return digest.hexdigest()[:16]


@functools.cache
def _parse(module: str) -> tuple[str, tuple[str, ...]]:
    path = _source(module)
    if path is None:
        raise ValueError(f"no module {module} below {ROOT}; check the name in the rule that asked for its code id")
    tree = ast.parse(path.read_text())
    named = set(_imports(module, path, tree))
    parents = set() if _is_file(module) else {module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)}
    code = _dumped(_without_docstrings(tree)) + _compiled(path.with_suffix(".c"))
    return code, tuple(sorted((named | parents) - {PACKAGE}))


def _dumped(tree: ast.Module) -> str:
    """The tree as Python 3.11 prints it. Later versions print the same code otherwise, and must make nothing stale.

    From 3.12 on functions and classes have a list of type parameters. The first releases of 3.12 put an empty text
    behind a value in a format. From 3.13 on empty lists are left out.
    """
    if sys.version_info < (3, 12):
        return ast.dump(tree)
    for node in ast.walk(tree):
        if getattr(node, "type_params", None) == []:
            del node.type_params
        if isinstance(node, ast.JoinedStr):
            node.values = [part for part in node.values if not isinstance(part, ast.Constant) or part.value != ""]
    return ast.dump(tree, show_empty=True) if sys.version_info >= (3, 13) else ast.dump(tree)


def _compiled(source: Path) -> str:
    """The C source beside a module with the headers it includes; nothing where there is none."""
    if not source.is_file():
        return ""
    text = source.read_text()
    headers = re.findall(r'^#include "(.+)"$', text, re.MULTILINE)
    return "".join([text, *(_compiled(source.with_name(header)) for header in headers)])


def _is_file(module: str) -> bool:
    return module.endswith(".py")


def _source(module: str) -> Path | None:
    if _is_file(module):
        return Path(module) if Path(module).is_file() else None
    stem = ROOT.joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def modules() -> list[str]:
    """The names of all modules of this package."""
    files = ((file.relative_to(ROOT).with_suffix("").parts) for file in (ROOT / PACKAGE).rglob("*.py"))
    return sorted(".".join(parts).removesuffix(".__init__") for parts in files)


def imports(module: str) -> set[str]:
    """The modules of this package that a module imports, inside functions too."""
    path = _source(module)
    return set() if path is None else set(_imports(module, path, ast.parse(path.read_text())))


def _imports(module: str, path: Path, tree: ast.Module) -> Iterator[str]:
    for name in _named(module, path, tree):
        if name.split(".")[0] == PACKAGE and _source(name):
            yield name


def _named(module: str, path: Path, tree: ast.Module) -> Iterator[str]:
    inside = [] if _is_file(module) else module.split(".")
    package = inside if path.name == "__init__.py" else inside[:-1]
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and the statements in it at any depth. Expressions are not visited. They hold no statements."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return tree
