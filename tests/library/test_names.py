"""The public names, their examples, and what importing them costs."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import stcl


def test_import_is_cheap():
    """No torch, and nothing else that is large: the workflow imports the package at every start."""
    code = "import sys, stcl; print([m for m in ('torch', 'numpy', 'scipy', 'pydantic', 'zarr') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", stcl.__all__)
def test_every_public_name_is_there_and_explained(name):
    assert getattr(stcl, name).__doc__
    assert name in dir(stcl)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'Loss'; .*TangentConsistency"):
        _ = stcl.Loss


@pytest.mark.parametrize("module", ["equation", "tangents", "consistency", "diagnosis"])
def test_examples_of_the_docstrings(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"stcl.{module}"))
    assert attempted > 2
    assert failed == 0


PAGE = (Path(__file__).parents[2] / "docs" / "own-pde.md").read_text()


def test_the_page_lists_every_name():
    table = PAGE[PAGE.index("## Names") :]
    assert sorted(set(re.findall(r"`(\w+)`", table))) == stcl.__all__


def test_the_page_gives_a_residual_that_works():
    """Its class is the one that the page's table is about, and the two lines below it run."""
    namespace: dict = {}
    exec(re.search(r"```python\n(def residual.*?)```", PAGE, re.DOTALL)[1], namespace)
    a, u = torch.randn(4, 33), torch.nn.functional.pad(torch.randn(4, 31), (1, 1))
    equation = stcl.Equation(namespace["residual"], a, u)
    tangents = stcl.TangentConsistency(equation, lam=1.0)
    assert (tangents.form.name, tangents.form.solver) == ("krylov_target", "cg")
    loss = torch.tensor(2.0)
    assert tangents(torch.nn.Linear(33, 33), a, u, data=loss).item() == pytest.approx(2.0, rel=1e-5)
