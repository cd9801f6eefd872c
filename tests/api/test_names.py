"""The public names, their examples, and what importing them costs."""

import doctest
import importlib
import subprocess
import sys

import pytest

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
