"""A problem of one's own in the workflow: one file anywhere, one config block, `snakemake poisson`."""

import ast
import csv
import dataclasses
import re
import shutil
import textwrap
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
import yaml
from library.conftest import SETTINGS, build
from workflow.conftest import Workflow

import stcl
from stcl import problems
from stcl.core.interfaces import TangentClass
from stcl.problems import code_of
from stcl.study.config import ConfigError, parse

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "workflow"


@pytest.mark.workflow
def test_a_file_and_a_config_block_are_a_study(tmp_path, monkeypatch):
    """Built from where the file stands; the derivative term lowers both errors, and an edit reruns what it should.

    The file imports a module from the user's own path, which jobs must have, too.
    """
    workflow = Workflow(tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "examples/workflow")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    with (tmp_path / "examples/workflow/poisson.py").open("a") as file:
        file.write("import mine\n")
    workflow.config = yaml.safe_load((EXAMPLE / "poisson.yaml").read_text())
    code, output = workflow.run("poisson")
    assert code == 0, output
    with (tmp_path / "results/poisson/tables/by_problem/poisson.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"fno", "stcl"}
    for error in ("field_error", "jacobian_error"):
        assert float(rows["stcl"][error]) < 0.8 * float(rows["fno"][error])

    assert workflow.planned("poisson") == {}
    file = tmp_path / "examples/workflow/poisson.py"
    source = file.read_text()
    file.write_text(source.replace('"""Poisson', '"""Once more: Poisson') + "# a remark\n")
    assert workflow.planned("poisson") == {}
    file.write_text(source.replace("1.0 + k[:, None] ** 2 + k**2", "2.0 + k[:, None] ** 2 + k**2"))
    everything = {"dataset": 3, "bank": 1, "train": 2, "evaluate": 2, "figure": 1, "by_problem": 1}
    everything |= {"poisson": 1}  # the target itself
    assert workflow.planned("poisson") == everything
    file.write_text("an error")
    code, output = workflow.run("-n", "poisson")
    assert code != 0
    assert "problems.poisson: examples/workflow/poisson.py cannot be imported: SyntaxError" in output


def test_the_examples_solver_solves_its_equation():
    problem = problems.load(str(EXAMPLE / "poisson.py"), n=17)
    a = problem.inputs(3, "train")
    u = problem.solve(a)
    np.testing.assert_allclose(problem.residual(torch.tensor(u), torch.tensor(a)), 0, atol=1e-11)
    v = problem.directions(2, "test")
    difference = (problem.solve(a + 0.5 * v[0]) - problem.solve(a - 0.5 * v[0])) / 1.0
    np.testing.assert_allclose(problem.tangents(a, u, v)[:, 0], difference, atol=1e-12)
    noise = np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    np.testing.assert_allclose(problem.direction(torch.tensor(noise)), problem.direction(noise), atol=1e-14)


@pytest.mark.parametrize("name", ["workflow/poisson.py", "reload_network.py"])
def test_an_example_needs_public_names_alone(name):
    for node in ast.walk(ast.parse((PROJECT / "examples" / name).read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.module.startswith("stcl.")
            assert node.module != "stcl" or {alias.name for alias in node.names} <= set(stcl.NAMES)
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("stcl.") for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "stcl":
            assert node.attr in stcl.NAMES


def test_a_run_of_an_own_problem_is_loaded_from_any_folder(tmp_path, monkeypatch):
    """Its path starts from the folder of the results, wherever one stands."""
    study, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    (study / "mine").mkdir(parents=True)
    elsewhere.mkdir()
    shutil.copy(EXAMPLE / "poisson.py", study / "mine/flow.py")
    monkeypatch.chdir(study)
    settings = SETTINGS | {"options": {"n": 9}, "methods": {"fno": {}}, "problem": "mine/flow.py:Poisson"}
    (folder,) = build(Path("results/test"), tmp_path / "work", {"poisson": settings})
    expected = stcl.load_run(folder).pairs("test")
    monkeypatch.chdir(elsewhere)
    run = stcl.load_run(study / folder)
    assert run.problem.n == 9
    assert all(torch.equal(x, y) for x, y in zip(run.pairs("test"), expected, strict=True))
    np.testing.assert_allclose(run.problem.solve(expected[0].double().numpy()), expected[1], atol=1e-6)


GOOD = (EXAMPLE / "poisson.py").read_text()


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (None, "p.py", "no file .*p.py; the path of a problem starts from the folder in which snakemake runs"),
        ("x = 1", "p.py", "must define one subclass of stcl.Problem, it has none"),
        (GOOD + "class Two(Poisson): pass", "p.py", "it has Poisson, Two; name one of them: .*p.py:Poisson"),
        (GOOD, "p.py:Burgers", "has no subclass Burgers of stcl.Problem; it has: Poisson"),
        ("import nothing_of_the_kind", "p.py", "cannot be imported: ModuleNotFoundError"),
        (GOOD.replace('"spd"', '"elliptic"'), "p.py", "must be one of spd, indefinite, parabolic, saddle, got 'ellip"),
        (GOOD.replace("    def solve", "    def solved"), "p.py", "abstract method '?solve"),
        (GOOD, "p.py", "no option m; its options are: n, modes"),
    ],
    ids=["file", "none", "two", "class", "import", "tangent_class", "method", "option"],
)
def test_what_is_wrong_with_a_file_is_said_before_anything_starts(tmp_path, monkeypatch, source, name, message):
    monkeypatch.chdir(tmp_path)
    if source is not None:
        Path("p.py").write_text(source)
    options = {"m": 1} if "option m" in message else {}
    settings = SETTINGS | {"problem": name, "options": options}
    with pytest.raises(ConfigError, match=message):
        parse({"preset": "test", "reduced": True, "seeds": [0], "problems": {"mine": settings}})


def test_two_versions_of_a_file_are_two_classes(tmp_path):
    file = tmp_path / "p.py"
    file.write_text(GOOD)
    first = problems.load(str(file))
    file.write_text(GOOD.replace("n: int = 33", "n: int = 35"))
    assert (first.n, problems.load(str(file)).n) == (33, 35)


def test_the_code_of_a_problem():
    assert code_of("burgers") == "stcl.problems.burgers"
    assert code_of("my/poisson.py") == code_of("my/poisson.py:Poisson") == "my/poisson.py"


def test_the_page_explains_every_field():
    """All that a problem may answer, every field of a layout, every class of operators; and its YAML is a study's."""
    page = (PROJECT / "docs" / "own-problem.md").read_text()
    named = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", page))
    answers = {name for name in vars(stcl.Problem) if not name.startswith("_")} | set(stcl.Problem.__annotations__)
    assert answers - named == set()
    assert {field.name for field in dataclasses.fields(stcl.Layout)} <= named
    assert set(get_args(TangentClass)) <= named
    table = page[page.index("## The class") : page.index("## tangent_class")]
    required = set(re.findall(r"^\| `(\w+)[^|]*\| yes", table, re.MULTILINE))
    assert required == stcl.Problem.__abstractmethods__ | {"tangent_class"}
    block = yaml.safe_load(textwrap.dedent(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]))
    example = yaml.safe_load((EXAMPLE / "poisson.yaml").read_text())["problems"]["poisson"]
    assert {key: example[key] for key in ("problem", "options")} == block["problems"]["poisson"]
