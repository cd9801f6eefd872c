"""The public names, their examples, and what importing them costs."""

import ast
import doctest
import importlib
import pydoc
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml

import stcl

PROJECT = Path(__file__).parents[2]
PACKAGE = Path(stcl.__file__).parent


def test_import_is_cheap():
    """No torch, and nothing else that is large: the workflow imports the package at every start."""
    code = "import sys, stcl; print([m for m in ('torch', 'numpy', 'scipy', 'pydantic', 'zarr') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", stcl.NAMES)
def test_every_public_name_is_there_and_explained(name):
    assert getattr(stcl, name).__doc__
    assert name in dir(stcl)


def test_help_fits_two_screens_and_names_everything():
    text = pydoc.plain(pydoc.render_doc(stcl))
    assert len(text.splitlines()) <= 100
    assert [name for name in stcl.NAMES if not re.search(rf"\b{name}\b", text)] == []


def test_examples_use_public_names_alone():
    """Of the modules only `stcl.inverse` is for users; of the package, the public names."""
    for path in sorted((PROJECT / "examples").glob("*.py")):
        text = path.read_text()
        assert re.findall(r"from stcl(?!\.inverse )|import stcl\.", text) == [], path
        assert set(re.findall(r"\bstcl\.(\w+)", text)) <= {*stcl.NAMES, "inverse"}, path


def test_unknown_names_list_the_known_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'Loss'; .*TangentConsistency"):
        _ = stcl.Loss


def test_type_checkers_see_the_same_names():
    """The stub re-exports every name of the lazy table from the same module, which `as` with the same name marks."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [(node.module, alias) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.asname == alias.name for _, alias in imports)
    assert {alias.name: module for module, alias in imports} == stcl._HOME_OF
    assert (PACKAGE / "py.typed").is_file()


def test_the_version_is_that_of_the_source_folder():
    assert stcl.__version__ == tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert "__version__" in dir(stcl)


def test_every_page_names_the_same_version():
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert citation["version"] == stcl.__version__
    released = re.search(r"^## \[(\d[^]]*)\] - (.+)$", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released.groups() == (stcl.__version__, str(citation["date-released"]))


@pytest.mark.parametrize(("options", "expected"), [([], "1.2.3"), (["-S"], "0+unknown")], ids=["installed", "copied"])
def test_the_version_without_a_source_folder(tmp_path, options, expected):
    """The pyproject.toml at the same distance is that of another project. `-S` hides what is installed."""
    site = tmp_path / "vendored"
    for name in ("__init__.py", "core/__init__.py", "core/version.py"):
        (site / "stcl" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, site / "stcl" / name)
    (site / "stcl").mkdir(parents=True, exist_ok=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "4.5"\n')
    if not options:
        (site / "stcl-1.2.3.dist-info").mkdir()
        (site / "stcl-1.2.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: stcl\nVersion: 1.2.3\n")
    command = [sys.executable, *options, "-c", "import stcl; print(stcl.__version__)"]
    result = subprocess.run(command, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == expected


@pytest.mark.parametrize(
    "module", ["equation", "tangents", "consistency", "diagnosis", "inverse", "losses.variance_share"]
)
def test_examples_of_the_docstrings(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"stcl.{module}"))
    assert attempted > 2
    assert failed == 0


PAGE = (PROJECT / "docs" / "own-pde.md").read_text()


def test_the_page_lists_every_name():
    table = PAGE[PAGE.index("## Names") :]
    assert sorted(set(re.findall(r"`(\w+)`", table))) == list(stcl.NAMES)


def test_the_page_gives_a_residual_that_works():
    """Its class is the one that the page's table is about, and the two lines below it run."""
    namespace: dict = {}
    exec(re.search(r"```python\n(def residual.*?)```", PAGE, re.DOTALL)[1], namespace)
    a, u = torch.randn(4, 33), torch.nn.functional.pad(torch.randn(4, 31), (1, 1))
    equation = stcl.Equation(namespace["residual"], a, u, check=False)  # the data are noise
    tangents = stcl.TangentConsistency(equation, lam=1.0)
    assert (tangents.form.name, tangents.form.solver.otherwise.method) == ("solved_target", "cg")
    loss = torch.tensor(2.0)
    assert tangents(torch.nn.Linear(33, 33), a, u, data=loss).item() == pytest.approx(2.0, rel=1e-5)
