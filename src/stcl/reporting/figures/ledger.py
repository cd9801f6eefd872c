"""The figure `ledger` shows accuracy against everything it cost, training data and stored tangents included."""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stcl.reporting.costs import Cost, store_cost
from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, ERRORS, MARKERS, log_scale, plt
from stcl.study.names import METHOD_NAMES, problem_name

COSTS = {"solves": "PDE solves", "seconds": "Seconds", "gigabytes": "Stored data, GB"}


def total_costs(ledgers: dict[Path, dict[str, Any]], wallclock: list[dict[str, str]]) -> dict[tuple[str, str], Cost]:
    """The cost of each problem and method.

    N training pairs, all validation pairs and the training count. The labels of offline DI count, too. A ledger is that
    of the problem after which its folder is named, because variants have the same problem in their specs.
    """
    stores = {
        (path.parent.name, ledger["spec"]["split"], "directions" in ledger["spec"]): ledger
        for path, ledger in ledgers.items()
    }
    costs = {}
    for row in wallclock:
        problem, n = row["problem"], int(row["n_train"])
        data = store_cost(stores[problem, "train", False], n) + store_cost(stores[problem, "val", False])
        for method in METHOD_NAMES:
            if row[f"{method}_seconds"]:
                total = data + Cost(0, float(row[f"{method}_seconds"]), 0)
                if method == "offline_di":
                    total += store_cost(stores[problem, "train", True], n)
                costs[problem, method] = total
    return costs


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` are the tables field_error, jacobian_error and wallclock, and ledgers of data and train banks."""
    tables = {path.stem: command.read_table(path) for path in inputs if path.suffix == ".csv"}
    ledgers = {path: json.loads(path.read_text()) for path in inputs if path.suffix == ".json"}
    costs = total_costs(ledgers, tables["wallclock"])
    sizes = {row["problem"]: row["n_train"] for row in tables["wallclock"]}
    marks = dict(zip(sizes, cycle(MARKERS), strict=False))
    figure, axes = plt.subplots(len(ERRORS), len(COSTS), figsize=(9.6, 5.8), sharex="col", sharey="row")
    for line, (quantity, label) in zip(axes, ERRORS.items(), strict=True):
        errors = {
            (row["problem"], row["method"]): (float(row["mean"]), float(row["std"] or 0))
            for row in tables[quantity]
            if row["n_train"] == sizes[row["problem"]] and row["mean"]
        }
        line[0].set_ylabel(label)
        for ax, (cost, name) in zip(line, COSTS.items(), strict=True):
            for problem in sizes:
                methods = [m for m in METHOD_NAMES if (problem, m) in errors and (problem, m) in costs]
                points = {m: (getattr(costs[problem, m], cost), *errors[problem, m]) for m in methods}
                _join(ax, points, marks[problem])
            ax.set_xlabel(name)
            ax.label_outer()
    for ax in axes.flat:
        log_scale(ax.xaxis)
        log_scale(ax.yaxis)
    methods = [m for m in METHOD_NAMES if any(key[1] == m for key in costs)]
    handles = [Line2D([], [], color=COLOURS[m], marker="o", linestyle="", label=METHOD_NAMES[m]) for m in methods]
    handles += [
        Line2D([], [], color="#444444", marker=k, linestyle="", label=f"{problem_name(p)}, N = {sizes[p]}")
        for p, k in marks.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _join(ax: Axes, points: dict[str, tuple[float, float, float]], marker: str) -> None:
    """Marks cost, error and its deviation for each method of a problem, and draws a line through them."""
    ax.plot(*zip(*((x, y) for x, y, _ in points.values()), strict=True), color="#c8c8c8", linewidth=0.8, zorder=1)
    for method, (x, y, std) in points.items():
        style: dict[str, Any] = {
            "color": COLOURS[method],
            "markersize": 6,
            "elinewidth": 0.8,
            "mec": "white",
            "mew": 0.6,
        }
        ax.errorbar(x, y, std, fmt=marker, **style)


if __name__ == "__main__":
    command.main("ledger", draw)
