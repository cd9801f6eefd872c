"""The conda environments ask for what pyproject.toml asks for, and are enough."""

import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from project_copy import PROJECT, Workflow

CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
MODULES = {conda: name for name, conda in CONDA_NAMES.items()}
DRIVER = {"snakemake", "pygments", "rich", "snakemake-executor-plugin-slurm"}  # nothing that a job imports


def required() -> dict[str, SpecifierSet]:
    """What pyproject.toml asks of the library, the workflow and the executor, by conda's names."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["workflow"], *extras["slurm"]]
    found = {Requirement(line).name: Requirement(line).specifier for line in lines}
    return {CONDA_NAMES.get(n, n): s for n, s in found.items()} | {"python": SpecifierSet(project["requires-python"])}


def environment(name: str) -> dict[str, SpecifierSet]:
    lines = yaml.safe_load((PROJECT / f"workflow/envs/{name}.yaml").read_text())["dependencies"]
    return {line.split()[0]: SpecifierSet(line.split(maxsplit=1)[1]) for line in lines}


def test_the_environment_of_the_jobs_is_that_of_the_library():
    assert environment("stcl") == {name: bound for name, bound in required().items() if name not in DRIVER}


def test_the_environment_of_snakemake_has_the_same_bounds():
    found = environment("snakemake")
    assert found == {name: required()[name] for name in found}
    assert set(found) >= DRIVER


@pytest.mark.workflow
def test_snakemake_reads_the_workflow_without_the_packages_of_the_jobs(tmp_path):
    """As in its own conda environment; yaml is a dependency of snakemake."""
    absent = set(environment("stcl")) - set(environment("snakemake")) - {"pyyaml"}
    blocked = {MODULES.get(name, name): None for name in absent}
    assert "torch" in blocked
    code = f"import sys; sys.modules.update({blocked}); from snakemake.cli import main; main(['--list-rules'])"
    folder = Workflow(tmp_path).folder
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"train", "evaluate", "tables"} <= set(done.stdout.split())
