# The rules share what is here: the validated configuration, the plan of the study, and the inputs of its jobs.
#
# `localrule: True` marks jobs that only collect or take seconds. On a cluster they run where snakemake runs.
import json
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# The path starts from this file. `workflow.basedir` is the folder of the Snakefile that was started, which can be
# workflow/Snakefile, too.
SOURCE = str(Path(workflow.snakefile).resolve().parents[1] / "src")
sys.path.insert(0, SOURCE)
# Jobs run the interpreter that runs snakemake, whether or not its environment is activated.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
# Modules that a problem of one's own imports may be on the path of the user.
PYTHONPATH = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
os.environ.update(PYTHONPATH=PYTHONPATH, PATH=PATH)

from stcl.study import modules
from stcl.study.cells import SELECTED
from stcl.study.coercion import plain
from stcl.study.config import ConfigError
from stcl.study.config import parse as parse_config  # `parse` is taken by snakemake
from stcl.study.plan import Plan
from stcl.study.canonical import canonical
from stcl.problems import code_of
from stcl.runtime.provenance import code_id
from stcl.reporting import captions, status, terminal
from stcl.reporting.figures.plan import figure_plans
from stcl.reporting.sources import source
from stcl.reporting.tables.plan import table_plans

if workflow.is_main_process:  # not the snakemake inside a job of a cluster
    terminal.install(logger, workflow.output_settings)

try:
    PLAN = Plan(parse_config(config))
except ConfigError as error:
    raise WorkflowError(str(error)) from None

PROBLEMS = list(PLAN.config.problems)
TABLES = table_plans(PLAN)
FIGURES = figure_plans(PLAN)
OUT = PLAN.results
RECORDS = Path("records") / PLAN.config.preset
# The blocks whose cells are evaluated in one job, with these cells. By default, each cell has a job of its own.
TOGETHER = {
    block.name: PLAN.final_cells([block]) for block in PLAN.evaluated_blocks if PLAN.config.evaluation.jobs == "block"
}
ENVIRONMENT = "../workflow/envs/stcl.yaml"


wildcard_constraints:
    preset=PLAN.config.preset,
    problem="|".join(PROBLEMS),
    block="|".join(PLAN.blocks),
    dataset="|".join(PLAN.datasets),
    split="train|val|test",
    decision="|".join(PLAN.decisions) or "none",
    table="|".join(TABLES),
    figure="|".join(FIGURES),
    group="|".join([*PROBLEMS, *(f"{name}-beyond" for name in PLAN.beyond), "minres_iterations", "sketch_runtime"]),
    cell=r"[a-z][a-z0-9_-]*/N\d+/[a-z_]+/lam[A-Za-z0-9.+-]+/seed\d+",


def workers(samples, split):
    """The number of processes that make a dataset or a bank. A second one pays from some hundred samples on."""
    return 2 if getattr(samples, split) >= 256 else 1


def whole_machine():
    """All cores of this machine. A cluster has no such number, and there the profile asks for a node alone."""
    try:
        return workflow.cores
    except WorkflowError:
        return 1


def training_inputs(dataset, methods, validated=False):
    """The data, the train bank for offline DI, and the validation bank where the Jacobian error is measured."""
    inputs = {
        "train": f"{OUT}/data/{dataset}/train.json",
        "val": f"{OUT}/data/{dataset}/val.json",
        "stores": [ancient(f"{OUT}/data/{dataset}/{split}") for split in ("train", "val")],
    }
    if "offline_di" in methods:
        inputs["bank"] = f"{OUT}/banks/{dataset}/train.json"
        inputs["stores"].append(ancient(f"{OUT}/banks/{dataset}/train"))
    if validated:
        inputs["val_bank"] = f"{OUT}/banks/{dataset}/val.json"
        inputs["stores"].append(ancient(f"{OUT}/banks/{dataset}/val"))
    return inputs


def cell_inputs(wildcards):
    cell = PLAN.cells[wildcards.cell]
    block = PLAN.blocks[cell.block]
    validated = block.settings.training.jacobian_every is not None
    inputs = training_inputs(block.dataset, [cell.method], validated)
    if cell.lam == SELECTED:
        inputs["decision"] = f"{OUT}/select/{PLAN.decision(cell)}.json"
    return inputs


def timing_inputs(wildcards):
    cells = PLAN.timing_cells(wildcards.group)
    return training_inputs(PLAN.blocks[cells[0].block].dataset, [cell.method for cell in cells])


def training_options(wildcards, input):
    """The command-line options for the inputs that only some cells have."""
    given = [name for name in ("bank", "decision", "val_bank") if name in input.keys()]
    return " ".join(f"--{name.replace('_', '-')} {input[name]}" for name in given)


def stored_tangents(wildcards):
    """The train bank of an sTCL cell. It is no input: where it is there, its tangents put the equation to the test."""
    cell = PLAN.cells[wildcards.cell]
    return f"--stored {OUT}/banks/{PLAN.blocks[cell.block].dataset}/train.json" if cell.method == "stcl" else ""


def tuning_option(wildcards, output):
    """Whether a divergence is a result. It is no reason to train again: a cell that was tuned may be a final one later.

    Snakemake does not compare a function of `output`.
    """
    return "--tuning" if PLAN.cells[wildcards.cell] in PLAN.tuning else ""


def left_by_tuning(wildcards):
    """Whether a final cell has diverged when it was one that tuned λ. It is then trained again, in order to fail."""
    try:
        ended = json.loads(Path(f"{OUT}/runs/{wildcards.cell}/train.json").read_text()).get("ended")
    except (OSError, ValueError):
        return ""
    return "diverged" if ended == "diverged" and PLAN.cells[wildcards.cell] not in PLAN.tuning else ""


def test_inputs(block):
    """The test split of a block and its bank."""
    dataset = PLAN.blocks[block].dataset
    kinds = {"data": f"{OUT}/data/{dataset}/test", "bank": f"{OUT}/banks/{dataset}/test"}
    manifests = {name: f"{path}.json" for name, path in kinds.items()}
    return manifests | {"stores": [ancient(path) for path in kinds.values()]}


def run_files(cells, *names):
    """The files of these names of the given cells."""
    return [f"{OUT}/runs/{cell.path}/{name}" for cell in cells for name in names]


def published_numbers(name):
    """The paper's numbers, for a table that shows them."""
    return [] if PLAN.config.reduced and not TABLES[name].published else ["config/published.yaml"]


def table_command(name, out, records=()):
    """The command that builds a table in the folder `out`, from results or, where there are none, from records."""
    table = TABLES[name]
    published = " ".join(f"--published {file}" for file in published_numbers(name))
    arguments = " ".join(source(argument, Path(OUT), records).as_posix() for argument in table.arguments)
    spec = shlex.quote(canonical(table.spec))
    return (
        f"python -m stcl.reporting.tables.{table.module} --spec {spec} {published} --out {out}/{name}.csv {arguments}"
    )


def figure_preview(name, out, records):
    """The command that draws a figure in the folder `out` from what is there of it, if anything is."""
    figure = FIGURES[name]
    inputs = [file for file in (source(record, Path(OUT), records) for record in figure.records) if file.exists()]
    spec, files = shlex.quote(canonical(figure.spec)), " ".join(map(str, inputs))
    command = f"python -m stcl.reporting.figures.{figure.module} --spec {spec} --out {out}/{name}.png {files}"
    return [command] if inputs else []


def table_caption(shown):
    """The caption of a written table. One that is not there yet, or was left unfinished, has none."""
    try:
        return json.loads(Path(shown).read_text())["caption"]
    except (OSError, ValueError):
        return ""
