"""Copies of the project: one in which the tiny study has been built, and empty ones."""

import pytest
from project_copy import Workflow


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Workflow:
    """The tiny study, built once by the real workflow."""
    workflow = Workflow(tmp_path_factory.mktemp("built"))
    code, output = workflow.run()
    assert code == 0, output
    return workflow


@pytest.fixture
def empty(tmp_path) -> Workflow:
    """A copy in which nothing has been built."""
    return Workflow(tmp_path)
