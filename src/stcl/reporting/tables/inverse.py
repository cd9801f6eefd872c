"""The table `inverse` shows what inverse problems lose when a trained network takes the solver's place."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import mean_and_deviation, not_finite
from stcl.reporting.tables.render import Table
from stcl.study.cells import Cell
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "Bayesian inverse problems: the input is found from a few noisy observations of its response, with a trained "
    "network in the place of the solver and the same optimiser. Gradient: error of the misfit's gradient at inputs of"
    " the prior, in percent, and its cosine with the true one. Path: the same error over the solver's path to its "
    "most probable input (MAP). MAP: distance of the network's MAP from the solver's, in percent, for truths of the "
    "prior and, outside, of a prior that is wider. Truth: distance of the MAP from the truth, in percent. Misfit: "
    "mean square of the solver's misfit at the network's MAP, in units of the noise; it is not finite if the solver "
    "has no response there in half of the problems or more. Solves: reference solves, with tangents, that the solver's "
    "optimiser needs from there; in the solver's row, from the prior's mean. Eigenvalues, angle: relative error of the "
    "five leading eigenvalues of the prior-preconditioned Gauss-Newton Hessian at the solver's MAP, in percent, and "
    "the largest angle between the spaces of their eigenvectors, in degrees. "
    "Information: expected gain in nats. Time of one MAP, in milliseconds, while other jobs may run. Acceptance, "
    "samples: delayed-acceptance chains, the share of proposals that the solver accepts after the network has, in "
    "percent, and effective samples per hundred solves. Medians over inverse problems, then mean ± standard deviation"
    " over training seeds."
)
SHOWN = {  # quantity: (header, factor)
    "gradient_error": ("Gradient", 100),
    "gradient_cosine": ("Cosine", 1),
    "path_gradient_error": ("Path", 100),
    "map_distance": ("MAP", 100),
    "map_distance_outside": ("MAP, outside", 100),
    "truth_error": ("Truth", 100),
    "misfit": ("Misfit", 1),
    "evaluations": ("Solves", 1),
    "eigenvalue_error": ("Eigenvalues", 100),
    "subspace_angle": ("Angle", 1),
    "information_gain": ("Information", 1),
    "map_seconds": ("Time", 1000),
    "second_acceptance": ("Acceptance", 100),
    "samples_per_solve": ("Samples", 100),
}
SOLVER = "Solver"


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are records of the stage `inverse`, named after their problems; one may be missing in a preview.

    `spec["cells"]` has the paths of all cells that the table shows. A cell without numbers appears as missing.
    """
    found = {path.stem: json.loads(path.read_text())["cells"] for path in inputs if path.exists()}
    quantities = list(dict.fromkeys(name for cells in found.values() for cell in cells.values() for name in cell))
    rows, body = [], []
    for problem, of_problem in groupby(map(Cell.parse, spec["cells"]), lambda cell: cell.block):
        measured = found.get(problem, {})
        if "solver" in measured:
            first = {"problem": problem, "n_train": "", "method": "solver", "seed": "", "status": "done"}
            rows.append(first | {name: measured["solver"].get(name, "") for name in quantities})
            body.append([problem_name(problem), "", SOLVER, *_texts([measured["solver"]], 0)])
        for (n, method), of_method in groupby(of_problem, lambda cell: (cell.n_train, cell.method)):
            cells = list(of_method)
            done = [measured[cell.path] for cell in cells if cell.path in measured]
            for cell in cells:
                status = "done" if cell.path in measured else "missing"
                row = {"problem": problem, "n_train": n, "method": method, "seed": cell.seed, "status": status}
                rows.append(row | {name: measured.get(cell.path, {}).get(name, "") for name in quantities})
            body.append([problem_name(problem), str(n), METHOD_NAMES[method], *_texts(done, len(cells) - len(done))])
    return Table(CAPTION, rows, ["Problem", "N", "Model", *(header for header, _ in SHOWN.values())], body)


def _texts(done: list[dict[str, float]], missing: int) -> list[str]:
    """The columns of a row. What no cell has is a dash, unless a cell is missing."""
    texts = []
    for name, (_, factor) in SHOWN.items():
        values = tuple(factor * cell[name] for cell in done if name in cell)
        texts.append(_text(values, missing))
    return texts


def _text(values: tuple[float, ...], missing: int) -> str:
    """Mean ± standard deviation in three digits: the quantities differ by orders of magnitude."""
    unfinished = f"{missing} missing" if missing > 1 else "missing"
    if not values:
        return unfinished if missing else "—"
    mean, deviation = mean_and_deviation(values)
    text = not_finite(values) if mean is None else f"{mean:.3g}"
    text += "" if deviation is None else f" ± {deviation:.2g}"
    return f"{text} ({missing} missing)" if missing else text


if __name__ == "__main__":
    command.main("inverse", build)
