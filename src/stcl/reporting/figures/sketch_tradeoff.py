"""The figure `sketch_tradeoff` shows what more directions per update buy, and what they cost."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stcl.reporting.figures import command
from stcl.reporting.figures.style import SERIES, plt

Rows = list[dict[str, str]]


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` are the tables sketch_resolution, gradient_variance and sketch_runtime. The last has `spec["grid"]`."""
    tables = {path.stem: command.read_table(path) for path in inputs}
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 6.2))
    errors = tables["sketch_resolution"]
    _errors(axes[0, 0], [row for row in errors if row["quantity"] == "field_error"], "Field error, %")
    _errors(axes[0, 1], [row for row in errors if row["quantity"] == "jacobian_error"], "Jacobian error, %")
    _variance_share(axes[1, 0], tables["gradient_variance"])
    _run_time(axes[1, 1], tables["sketch_runtime"], spec["grid"])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles))
    return figure


def _by_grid(rows: Rows) -> dict[str, Rows]:
    grids: dict[str, Rows] = {}
    for row in rows:
        grids.setdefault(row["grid"], []).append(row)
    return grids


def _q_axis(ax: Axes, rows: Rows) -> dict[str, int]:
    """The place of each sketch count on the axis. The distances are equal, because the counts double."""
    counts = sorted({row["q"] for row in rows}, key=int)
    ax.set_xticks(range(len(counts)), counts)
    ax.set_xlabel("Sketch count q")
    ax.grid(True, axis="y")
    return {q: place for place, q in enumerate(counts)}


def _errors(ax: Axes, rows: Rows, label: str) -> None:
    """Plots means over seeds with their standard deviations, one curve per grid. Data alone, q = 0, stands apart."""
    place = _q_axis(ax, rows)
    grids = _by_grid(rows)
    for i, (grid, members) in enumerate(grids.items()):
        done = [row for row in members if row["mean"]]
        shift = 0.09 * (i - (len(grids) - 1) / 2)
        for informed, style in ((True, "o-"), (False, "o")):
            shown = [row for row in done if (row["q"] != "0") is informed]
            ax.errorbar(
                [place[row["q"]] + shift for row in shown],
                [float(row["mean"]) for row in shown],
                [float(row["std"] or 0) for row in shown],
                fmt=style,
                color=SERIES[i % len(SERIES)],
                label=f"{grid} × {grid}" if informed else None,
                markersize=3.5,
                linewidth=1.2,
                elinewidth=0.8,
                capsize=2,
            )
    ax.set_ylabel(label)
    ax.set_ylim(0, 1.05 * ax.get_ylim()[1])


def _variance_share(ax: Axes, rows: Rows) -> None:
    """Plots the table's share of the variance that comes from the derivative term. Only this part falls with q."""
    rows = [row for row in rows if row["q"] != "0" and row["quantity"] == "share"]
    place = _q_axis(ax, rows)
    for i, members in enumerate(_by_grid(rows).values()):
        share = {place[row["q"]]: float(row["mean"]) for row in members if row["mean"]}
        counts = sorted(share)
        ax.plot(counts, [share[q] for q in counts], "o-", color=SERIES[i % len(SERIES)], markersize=3.5, linewidth=1.2)
    ax.set_ylabel("sTCL share of gradient variance, %")
    ax.set_ylim(0, 1.05 * ax.get_ylim()[1])


def _run_time(ax: Axes, rows: Rows, grid: int) -> None:
    """Plots run times on linear axes, so that a cost proportional to q is a straight line."""
    rows = sorted(rows, key=lambda row: int(row["q"]))
    counts = [int(row["q"]) for row in rows]
    relative = all(row["ratio"] for row in rows)
    values = [float(row["ratio" if relative else "minutes"]) for row in rows]
    ax.plot(counts, values, "ks-", markersize=3.5, linewidth=1.2)
    ax.set(xlabel="Sketch count q", ylabel="Training time / that of q = 0" if relative else "Training time, minutes")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(f"{grid} × {grid}")
    ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
    ax.grid(True, axis="y")


if __name__ == "__main__":
    command.main("sketch_tradeoff", draw)
