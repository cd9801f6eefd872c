# What the rules share: the validated configuration, the plan of the study, and the inputs of its nodes.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

SOURCE = str(Path(workflow.basedir) / "src")
sys.path.insert(0, SOURCE)
# Jobs run the interpreter that runs snakemake, whether or not its environment is activated.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
os.environ.update(PYTHONPATH=SOURCE, PATH=PATH)

from stcl.config import ConfigError
from stcl.config import parse as parse_config  # `parse` is taken by snakemake
from stcl.plan import SELECTED, Plan
from stcl.provenance import canonical, code_id

try:
    PLAN = Plan(parse_config(config))
except ConfigError as error:
    raise WorkflowError(str(error)) from None

PROBLEMS = list(PLAN.config.problems)
OUT = PLAN.results
ENVIRONMENT = "../workflow/envs/stcl.yaml"


wildcard_constraints:
    preset=PLAN.config.preset,
    problem="|".join(PROBLEMS),
    split="train|val|test",
    method="fno|offline_di|stcl",
    n=r"\d+",
    cell=r"[a-z][a-z0-9_]*/N\d+/[a-z_]+/lam[A-Za-z0-9.+-]+/seed\d+",


def cell_inputs(wildcards):
    """Data, and what the cell's method needs beside it. Neither fno nor stcl depends on labels."""
    cell = PLAN.cells[wildcards.cell]
    inputs = {
        "train": f"{OUT}/data/{cell.problem}/train.json",
        "val": f"{OUT}/data/{cell.problem}/val.json",
        "stores": [ancient(f"{OUT}/data/{cell.problem}/{split}") for split in ("train", "val")],
    }
    if cell.method == "offline_di":
        inputs["bank"] = f"{OUT}/labels/{cell.problem}/train.json"
        inputs["stores"].append(ancient(f"{OUT}/labels/{cell.problem}/train"))
    if cell.lam == SELECTED:
        inputs["decision"] = f"{OUT}/select/{cell.problem}/N{cell.n_train}/{cell.method}.json"
    return inputs


def cell_options(wildcards, input):
    """Command-line options for the inputs that only some cells have."""
    return " ".join(f"--{name} {input[name]}" for name in ("bank", "decision") if name in input.keys())


def test_inputs(wildcards):
    problem = wildcards.cell.split("/")[0]
    kinds = {"data": f"{OUT}/data/{problem}/test", "bank": f"{OUT}/labels/{problem}/test"}
    manifests = {name: f"{path}.json" for name, path in kinds.items()}
    return manifests | {"stores": [ancient(path) for path in kinds.values()]}


def tuning_runs(wildcards):
    cells = PLAN.tuning_cells(wildcards.problem, int(wildcards.n), wildcards.method)
    return [f"{OUT}/runs/{cell.path}/train.json" for cell in cells]


def final_files(problem, *names):
    """The named files of every reported cell of a problem."""
    return [f"{OUT}/runs/{cell.path}/{name}" for cell in PLAN.final_cells(problem) for name in names]


def shown_files(name, *problems):
    """The named file of the cells that figures show: each method at the largest N with the first seed."""
    return [
        f"{OUT}/runs/{cell.path}/{name}"
        for problem in problems or PROBLEMS
        for cell in PLAN.final_cells(problem)
        if cell.n_train == max(PLAN.config.problems[problem].train_sizes) and cell.seed == PLAN.config.seeds[0]
    ]
