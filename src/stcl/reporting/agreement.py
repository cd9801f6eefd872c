"""The page docs/agreement.md sets what is in records/ beside the published numbers.

    python -m stcl.reporting.agreement

What stands above the mark in the page is written by hand: what agrees, what does not, and what was tried. All below it
is written here, from records and config/published.yaml alone, so that the page is the same on every machine.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from stcl.reporting import records
from stcl.reporting.captions import title
from stcl.reporting.figures import convergence
from stcl.reporting.figures.style import plt
from stcl.reporting.runs import Run, read_runs
from stcl.reporting.sources import source
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import ERRORS, Estimate, beside, percent
from stcl.reporting.tables.plan import TablePlan, problems_of_variants, table_plans
from stcl.reporting.tables.render import Table
from stcl.study.blocks import Block
from stcl.study.cells import Cell
from stcl.study.config import parse
from stcl.study.names import METHOD_NAMES, problem_name
from stcl.study.plan import Plan

PAGE = Path("docs/agreement.md")
CURVES = Path("docs/agreement.png")
MARK = "<!-- all below is written by `make docs` from records/ and config/published.yaml -->"
PUBLISHED = Path("config/published.yaml")
WHOLE = Path("config/paper.yaml")  # the study with all cells of the paper
STUDIES = (WHOLE, Path("config/paper-small.yaml"))  # those with cells of the paper; the first that has one counts
# Those that ask why numbers differ, with fewer epochs than the paper's or with other settings.
QUESTIONS = (Path("config/bad-labels.yaml"), Path("config/offline-di.yaml"))
TABLES = ("field_error", "jacobian_error", "sketch_resolution", "gradient_variance", "wallclock", "claims")
DPI = 110

MEANS = (
    "Test errors in percent, mean ± sample standard deviation over the seeds that are named. Standard error: what the "
    "draw of the test inputs leaves in the mean over them, with any number of seeds; a dash stands where a record "
    "was made by a version that did not keep it."
)
RUNS = (
    f"{MEANS} Ratio: ours over the published mean. Deviations: the difference in combined standard deviations of ours "
    "and of the published three seeds; a single seed is given the published deviation. Epochs: how many were run. A "
    "training of `config/paper-small.yaml` ends early when 200 epochs at the lowest learning rate have brought no "
    "better checkpoint. The command trains the cell again, from nothing; `stcl records` then writes its record anew."
)
ASKED_RUNS = f"{MEANS} Epochs or settings are not the paper's, so there is nothing published to stand beside."
WHOLE_TABLES = (
    f"All cells of `{WHOLE}`. What has no record is not run; in brackets are the published numbers. The seeds behind a "
    "number of ours are in the list above. Times are those that the stage `timing` measures with nothing else running. "
    "Trainings that ran beside other work have none, and their seconds are not in the records."
)
CURVES_TEXT = (
    "*Mean squared error of the response over epochs: dashed on the training set, solid on the validation set. First "
    "recorded seed of each cell. Histories in records are means over a few epochs. The dotted line marks epoch 500 of "
    "trainings that are longer.*"
)


@dataclass(frozen=True)
class Recorded:
    """The runs of one cell with all their seeds, and the study that they belong to."""

    config: Path
    plan: Plan
    runs: list[Run]

    @property
    def cell(self) -> Cell:
        """The cell with its first seed."""
        return self.runs[0].cell

    @property
    def block(self) -> Block:
        return self.plan.blocks[self.cell.block]


def page(text: str, root: Path) -> str:
    """The page with all that is generated written anew. `root` is the folder of the project."""
    return f"{text.partition(MARK)[0]}{MARK}\n\n{generated(root)}"


def generated(root: Path) -> str:
    """All of the page that is not written by hand."""
    published = yaml.safe_load((root / PUBLISHED).read_text())
    found, asked = recorded(root, STUDIES), recorded(root, QUESTIONS)
    parts = ["## Every cell that was run\n"]
    parts.append(list_of_runs(found, published).markdown() if found else "There are no records yet.\n")
    if asked:
        configs = dict.fromkeys(f"`{cell.config}`" for cell in asked)
        parts += ["## Questions that runs with other settings answer\n", list_of_runs(asked, None).markdown()]
        parts.append(f"What is asked stands at the top of {' and '.join(configs)}.\n")
    if found + asked:
        parts += ["## Convergence\n", f"![Errors over epochs of the cells that were run]({CURVES.name})\n"]
        parts.append(f"{CURVES_TEXT}\n")
    parts += ["## The paper's tables\n", f"{WHOLE_TABLES}\n", *_tables(root, found, published)]
    return "\n".join(parts)


def recorded(root: Path, studies: tuple[Path, ...] = STUDIES + QUESTIONS) -> list[Recorded]:
    """All cells that are in the records of these studies, in the order of the studies."""
    found = []
    for config in studies:
        plan = Plan(parse(yaml.safe_load((root / config).read_text())))
        order = {records.seedless(cell): place for place, cell in enumerate(plan.cells.values())}
        beyond = {block.name for block in plan.beyond_blocks}  # another page shows them
        runs = read_runs(records.folders(root / records.FOLDER / plan.config.preset))
        runs = [run for run in runs if run.cell.block not in beyond]
        runs.sort(key=lambda run: (order[records.seedless(run.cell)], run.cell.seed))
        found += [
            Recorded(config, plan, list(runs)) for _, runs in groupby(runs, lambda run: records.seedless(run.cell))
        ]
    return found


# -- the list of runs -------------------------------------------------------------------------------------------------


def list_of_runs(found: list[Recorded], published: dict[str, Any] | None) -> Table:
    """Every cell with the command that repeats it, beside its published numbers if these are given."""
    numbers = ["Standard error", *(["Published", "Ratio", "Deviations"] if published else [])]
    header = ["Cell", "Seeds", "Epochs", *(part for name in ERRORS.values() for part in (name, *numbers))]
    body = []
    for cell in found:
        texts = [words(cell.block, cell.cell), ", ".join(str(run.cell.seed) for run in cell.runs), _epochs(cell.runs)]
        for quantity in ERRORS:
            ours = percent(cell.runs, quantity)
            texts += [ours.text(), _standard_error(cell.runs, quantity)]
            texts += _comparison(ours, _published(cell, quantity, published)) if published else []
        versions = dict.fromkeys(run.record["version"] for run in cell.runs)
        body.append([*texts, ", ".join(versions), f"`{repetition(cell)}`"])
    return Table(RUNS if published else ASKED_RUNS, [], [*header, "Version", "Repeat it"], body)


def words(block: Block, cell: Cell) -> str:
    """A cell in words, without its seed."""
    lam = "" if cell.lam is None else f", λ = {cell.lam}" if isinstance(cell.lam, str) else f", λ = {cell.lam:g}"
    return f"{_block_words(block)}, N = {cell.n_train}, {METHOD_NAMES[cell.method]}{lam}"


def _block_words(block: Block) -> str:
    """A block in words: its problem, and what an ablation makes of it."""
    varied = [f"{value} x {value}" if key == "grid" else f"{key} = {value}" for key, value in block.variant]
    if not varied and block.name != block.key:
        varied = [block.name.removeprefix(f"{block.key}-").replace("-", " ").replace("_", " ")]
    return ", ".join([problem_name(block.key), *varied])


def _epochs(runs: list[Run]) -> str:
    budgets = {run.record["spec"]["training"]["epochs"] for run in runs}
    return ", ".join(f"{run.epochs}" for run in runs) + f" of {', '.join(map(str, budgets))}"


def _standard_error(runs: list[Run], quantity: str) -> str:
    """In percent. All seeds are tested on the same inputs, so that it is the mean of theirs, however many say it."""
    said = [run.errors.get("standard_errors", {}).get(quantity) for run in runs]
    known = [error for error in said if error is not None]
    return f"{100 * fmean(known):.2f}" if known else "—"


def _comparison(ours: Estimate, theirs: list[float] | None) -> list[str]:
    if theirs is None or ours.mean is None:
        return ["—", "—", "—"]
    return [beside(theirs), f"{ours.mean / theirs[0]:.2f}", f"{ours.distance(theirs):+.1f}"]


def _published(recorded: Recorded, quantity: str, published: dict[str, Any]) -> list[float] | None:
    """The mean and deviation that the paper has for a cell."""
    cell, block = recorded.cell, recorded.block
    variant = dict(block.variant)
    made = {"problem": block.problem, "n_train": cell.n_train}
    if "grid" in variant:
        numbers = command.numbers_made_for(published, "sketch_resolution", made)
        return numbers.get(variant["grid"], {}).get(variant["q"], {}).get(quantity)
    if "steps" in variant:
        numbers = command.numbers_made_for(published, "minres_iterations", made)
        return numbers.get(variant["steps"], {}).get(quantity)
    if block.name != block.key:
        return None
    numbers = published[quantity]
    problem = block.key if block.key in numbers else problems_of_variants(recorded.plan).get(block.key, block.key)
    return numbers.get(problem, {}).get(cell.n_train, {}).get(cell.method)


def repetition(cell: Recorded) -> str:
    """The command that trains and evaluates a cell again, with all its seeds."""
    seeds = [run.cell.seed for run in cell.runs]
    more = f" --config 'seeds={seeds}'" if set(seeds) - set(cell.plan.config.seeds) else ""
    runs = " ".join(f"{cell.plan.results}/runs/{run.cell.path}/errors.json" for run in cell.runs)
    return f"snakemake {runs} --configfile {cell.config}{more}"


# -- the paper's tables -----------------------------------------------------------------------------------------------


def _tables(root: Path, found: list[Recorded], published: dict[str, Any]) -> Iterator[str]:
    plan = Plan(parse(yaml.safe_load((root / WHOLE).read_text())))
    planned = table_plans(plan)
    for name in TABLES:
        table = command.built(planned[name].module, planned[name].spec, _inputs(root, planned[name], found), published)
        body = [[re.sub(r"\bmissing\b", "not run", text) for text in line] for line in table.body]
        yield f"### {title(name)}\n"
        yield f"`snakemake {plan.results}/tables/{name}.md --configfile {WHOLE}` runs all that is behind it.\n"
        yield replace(table, body=body).markdown()


def _inputs(root: Path, table: TablePlan, found: list[Recorded]) -> list[Path]:
    """What a table reads. Of each cell it has the recorded seeds, or the first one if none is recorded."""
    seeds = {records.seedless(run.cell): [one.cell.seed for one in cell.runs] for cell in found for run in cell.runs}
    cells = [
        replace(cell, seed=seed)
        for cell in dict.fromkeys(records.seedless(cell) for cell in table.cells)
        for seed in seeds.get(cell, [0])
    ]
    kept = [root / records.FOLDER / preset for preset in dict.fromkeys(cell.plan.config.preset for cell in found)]
    arguments = [*(f"runs/{cell.path}" for cell in cells), *table.records]
    return [source(argument, root / "nowhere", kept) for argument in arguments]


# -- the curves -------------------------------------------------------------------------------------------------------


def curves(found: list[Recorded]) -> dict[str, Any]:
    """The spec and the inputs of the figure `convergence`, and an id of what is in these inputs."""
    inputs = [cell.runs[0].folder / "train.json" for cell in found]
    titles = {cell.block.name: _block_words(cell.block) for cell in found}
    content = hashlib.sha256()
    for path in inputs:
        content.update(path.read_bytes() + path.with_name("history.csv").read_bytes())
    spec = {"relative": [], "smooth": True, "titles": titles}
    return {"spec": spec, "inputs": inputs, "content": content.hexdigest()}


def draw(found: list[Recorded], out: Path) -> None:
    """Draws the curves. The picture carries the id of what it was drawn from."""
    shown = curves(found)
    figure = convergence.draw(shown["spec"], shown["inputs"])
    figure.savefig(out, dpi=DPI, metadata={"Software": None, "Description": shown["content"]})
    plt.close(figure)


def write(root: Path) -> None:
    """Writes the page and its picture."""
    (root / PAGE).write_text(page((root / PAGE).read_text(), root))
    found = recorded(root)
    if found:
        draw(found, root / CURVES)


if __name__ == "__main__":
    write(Path())
