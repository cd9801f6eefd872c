"""The rule between the rooms of src/stcl, read off all imports: those in functions and under TYPE_CHECKING, too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LIBRARY = {"core", "problems", "operators", "tangent", "losses"}
MAY_IMPORT = {
    "core": set(),
    "problems": {"core"},
    "operators": {"core"},
    "tangent": {"core"},
    "losses": {"core", "problems", "operators", "tangent"},
    "": LIBRARY,  # the top level: what a user of the library calls
    "study": {"core", "problems", "operators.settings", "losses.settings", "losses.rule"},
    "runtime": {"core"},
    "stages": LIBRARY | {"study", "runtime", "inverse"},  # inverse problems are solved by what a user calls
    "reporting": {"core", "problems", "operators", "study", "runtime"},
}
# Two modules of the library see the workflow. One reads what it wrote: specs and stores, none of the code that made
# them. The other is the command, which shows studies, too.
SEE_THE_WORKFLOW = {
    "stcl.runs": {"study.specs.train", "runtime.checkpoint", "runtime.stores"},
    "stcl.cli": {"runtime.field_files", "reporting.records", "reporting.status"},
}
MODULES = {".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in (SOURCE / "stcl").rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}


def imports(module: str) -> set[str]:
    """The modules of this package that a module names; `from x import y` is the module x.y if there is one, else x."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively; write the whole name"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return {name for name in found if name in MODULES} - {module}


def room(module: str) -> str:
    return module.split(".")[1] if module.count(".") > 1 or module.split(".")[-1] in MAY_IMPORT else ""


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_what_its_room_may(module):
    for imported in imports(module):
        inside = imported.removeprefix("stcl.")
        allowed = {room(module)} | MAY_IMPORT[room(module)] | SEE_THE_WORKFLOW.get(module, set())
        assert room(imported) in allowed or inside in allowed, f"{module} may not import {imported}"


def test_nothing_imports_in_a_circle():
    TopologicalSorter({module: imports(module) for module in MODULES}).prepare()


def test_the_top_level_is_what_a_user_calls():
    assert len([path for path in MODULES.values() if path.parent == SOURCE / "stcl"]) <= 9
