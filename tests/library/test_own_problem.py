"""A problem of one's own in the workflow: one file, one config block, `snakemake poisson`."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from workflow.conftest import Workflow

EXAMPLE = Path(__file__).parents[2] / "examples" / "workflow"


@pytest.mark.workflow
def test_a_file_and_a_config_block_are_a_study(tmp_path):
    """Built from nothing; the derivative term lowers both errors."""
    workflow = Workflow(tmp_path)
    shutil.copy(EXAMPLE / "poisson.py", tmp_path / "src/stcl/problems")
    code, output = workflow.run("poisson", config=yaml.safe_load((EXAMPLE / "poisson.yaml").read_text()))
    assert code == 0, output
    with (tmp_path / "results/poisson/tables/by_problem/poisson.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"fno", "stcl"}
    for error in ("field_error", "jacobian_error"):
        assert float(rows["stcl"][error]) < 0.8 * float(rows["fno"][error])


def test_the_examples_solver_solves_its_equation():
    namespace: dict = {}
    exec((EXAMPLE / "poisson.py").read_text(), namespace)
    problem = namespace["Poisson"](n=17)
    a = problem.inputs(3, "train")
    u = problem.solve(a)
    np.testing.assert_allclose(problem.residual(torch.tensor(u), torch.tensor(a)), 0, atol=1e-11)
    v = problem.directions(2, "test")
    difference = (problem.solve(a + 0.5 * v[0]) - problem.solve(a - 0.5 * v[0])) / 1.0
    np.testing.assert_allclose(problem.tangents(a, u, v)[:, 0], difference, atol=1e-12)
