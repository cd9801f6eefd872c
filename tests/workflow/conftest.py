"""Copies of the project: some in which the tiny study has been built, and empty ones."""

import pytest
from filelock import FileLock
from project_copy import Workflow


@pytest.fixture(scope="session")
def built(tmp_path_factory, worker_id) -> Workflow:
    """The tiny study, built once by the real workflow; each process that takes part in the tests has its own copy."""
    base = tmp_path_factory.getbasetemp()
    study = (base if worker_id == "master" else base.parent) / "study"
    with FileLock(study.with_suffix(".lock")):
        if not study.exists():
            study.mkdir()
            code, output = Workflow(study).run()
            (study / "exit_code").write_text(str(code))
            (study / "output").write_text(output)
            assert code == 0, output
    assert (study / "exit_code").read_text() == "0", "the study could not be built; another test says why"
    return Workflow(tmp_path_factory.mktemp("built"), built=study)


@pytest.fixture
def changeable(built, tmp_path) -> Workflow:
    """A built copy that one test may change as it likes."""
    return Workflow(tmp_path, built=built.folder)


@pytest.fixture
def empty(tmp_path) -> Workflow:
    """A copy in which nothing has been built."""
    return Workflow(tmp_path)
