"""What the tiny study consists of, as counts of planned jobs."""

import copy

# The tiny study: five problems with three methods, one N, one seed; λ of diffusion's sTCL and of Burgers by validation;
# two Krylov steps for Helmholtz, two sketch counts on two grids and another form for diffusion, a raw residual and a
# long run of Helmholtz, inverse problems of Navier-Stokes. One job evaluates all cells of a problem, or of one setting
# of an ablation.
EVERYTHING = {
    "dataset": 3 * (5 + 2),
    "bank": 5 + 5 + 2,
    "train": 15 + 2 + 4 + 2 + 4 + 1 + 1 + 3,
    "evaluate": 5 + 2 + 4 + 1 + 1,
    "select": 2,
    "timing": 5 + 2,
    "conditioning": 2 + 1,
    "inverse_reference": 1,
    "inverse": 1,
    "by_problem": 5,
    "table": 13,
    "figure": 5 + 5 + 1,
    "report": 1,
}
# What depends on diffusion: its own cells, the two sketch studies' data, tables that hold none of it left out.
DIFFUSION = {
    "dataset": 9,
    "bank": 4,
    "train": 3 + 2 + 4 + 1,
    "evaluate": 1 + 4 + 1,
    "select": 1,
    "timing": 2,
    "conditioning": 1,
    "by_problem": 1,
    "table": 10,
    "figure": 1 + 4,
    "report": 1,
}
RETRAINED = {"train": 5 + 4 + 1, "evaluate": 1 + 4 + 1, "select": 1, "timing": 2, "by_problem": 1, "table": 9}
DRAWN = {"figure": 4}  # those with one problem's cells: convergence, samples of the problem, spread, ledger
DRAWN_WITH_SKETCH = {"figure": 4 + 1}  # sketch_tradeoff too


def changed(config: dict, path: str, value) -> dict:
    """A copy of the configuration with the value at a dotted path replaced."""
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    return config
