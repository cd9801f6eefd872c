"""A change reruns exactly the jobs it touches: real dry runs on a built copy, planned jobs counted."""

import copy

import pytest
import yaml

pytestmark = pytest.mark.workflow

# The tiny study: diffusion with all methods (sTCL with two λ), Helmholtz with fno and offline_di; one N, one seed.
EVERYTHING = {
    "dataset": 6,
    "bank": 4,
    "train": 7,
    "evaluate": 5,
    "select": 1,
    "problem_cells": 2,
    "error_table": 2,
    "convergence": 1,
    "samples": 2,
}
DIFFUSION = EVERYTHING | {"dataset": 3, "bank": 2, "train": 5, "evaluate": 3, "problem_cells": 1, "samples": 1}


def changed(config: dict, path: str, value) -> dict:
    """A copy of the configuration with the value at a dotted path replaced."""
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    return config


def test_a_fresh_copy_plans_everything(empty):
    assert empty.planned() == EVERYTHING


def test_a_built_copy_plans_nothing(built):
    assert built.planned() == {}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("problems.diffusion.options.n", 15, DIFFUSION),
        (
            "problems.diffusion.basis",
            "white",
            {k: v for k, v in DIFFUSION.items() if k != "dataset"} | {"bank": 1, "train": 4, "evaluate": 2},
        ),
        (
            "problems.diffusion.methods.stcl.lambda",
            [0.5, 1.0, 2.0],
            {
                "train": 2,
                "select": 1,
                "evaluate": 1,
                "problem_cells": 1,
                "error_table": 2,
                "convergence": 1,
                "samples": 1,
            },
        ),
        (
            "problems.diffusion.training.epochs",
            4,
            {k: v for k, v in DIFFUSION.items() if k not in ("dataset", "bank")},
        ),
        ("seeds", [0, 1], {"train": 5, "evaluate": 5, "problem_cells": 2, "error_table": 2}),
        ("figures", {"dpi": 99}, {"convergence": 1, "samples": 2}),
        ("figures", {"colormap": "magma"}, {"samples": 2}),
    ],
    ids=["grid", "basis", "lambda", "epochs", "seed", "dpi", "colormap"],
)
def test_a_change_of_the_configuration(built, path, value, expected):
    assert built.planned(config=changed(built.config, path, value)) == expected


def test_reordered_yaml_reruns_nothing(built):
    def reordered(node):
        return {k: reordered(node[k]) for k in reversed(node)} if isinstance(node, dict) else node

    config = reordered(built.config)
    assert yaml.safe_dump(config, sort_keys=False) != yaml.safe_dump(built.config, sort_keys=False)
    assert built.planned(config=config) == {}


def test_comments_and_docstrings_rerun_nothing(built):
    for path in ("src/stcl/train.py", "src/stcl/problems/diffusion.py", "src/stcl/figures/samples.py"):
        assert built.planned_after_edit(path, lambda s: s.replace('"""', '"""Once more: ', 1) + "\n# a remark\n") == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/stcl/problems/diffusion.py", DIFFUSION),
        (
            "src/stcl/operators/fno.py",
            {k: v for k, v in EVERYTHING.items() if k not in ("dataset", "bank")},
        ),
        (
            "src/stcl/losses/metrics/inverse_laplacian.py",
            {
                "train": 3,
                "select": 1,
                "evaluate": 1,
                "problem_cells": 1,
                "error_table": 2,
                "convergence": 1,
                "samples": 1,
            },
        ),
        ("src/stcl/figures/samples.py", {"samples": 2}),
        ("src/stcl/figures/style.py", {"convergence": 1, "samples": 2}),
        ("src/stcl/tables.py", {"problem_cells": 2, "error_table": 2}),
        ("src/stcl/plan.py", {}),
    ],
)
def test_an_edit_of_the_code(built, path, expected):
    assert built.planned_after_edit(path, lambda source: source + "\nCHANGED = True\n") == expected


def test_one_table_is_a_target(built):
    config = changed(built.config, "figures", {"dpi": 99})
    assert built.planned("results/tiny/tables/field_error.md", config=config) == {}


def test_rebuilding_a_producer_alone_makes_its_consumers_stale(empty):
    """The consumers' own specs do not change here: only the manifest tells them."""
    settings = {"fno": {}}
    problem = empty.config["problems"]["diffusion"] | {"methods": settings}
    config = empty.config | {"problems": {"diffusion": problem}}
    code, output = empty.run(config=config)
    assert code == 0, output
    larger = changed(config, "problems.diffusion.samples.train", 17)
    code, output = empty.run("results/tiny/data/diffusion/train.json", config=larger)
    assert code == 0, output
    planned = empty.planned(config=larger)
    assert planned["train"] == 1
    assert "dataset" not in planned
