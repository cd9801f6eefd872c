"""The figure `conditioning_ablation` shows the errors of forms of the sTCL loss against their condition numbers."""

from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterMathtext

from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, ERRORS, MARKERS, log_scale, plt
from stcl.study.names import METHOD_NAMES, problem_name

Rows = list[dict[str, str]]


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` is the table conditioning_ablation. It has a column of panels for each of its problems."""
    rows = command.read_table(inputs[0])
    sizes = {row["problem"]: row["n_train"] for row in rows}
    figure, axes = plt.subplots(
        len(ERRORS), len(sizes), figsize=(1.2 + 3.2 * len(sizes), 5.8), sharex="col", squeeze=False
    )
    for line, (quantity, label) in zip(axes, ERRORS.items(), strict=True):
        line[0].set_ylabel(label)
        for ax, problem in zip(line, sizes, strict=True):
            shown = [r for r in rows if r["problem"] == problem and r["quantity"] == quantity and r["mean"]]
            _forms(ax, [row for row in shown if row["condition"]])
            _references(ax, [row for row in shown if row["method"] != "stcl"])
            ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
    for ax, (problem, n) in zip(axes[0], sizes.items(), strict=True):
        ax.set_title(f"{problem_name(problem)}, N = {n}")
    for ax in axes[-1]:
        ax.set_xlabel("Condition number κ of the loss")
    for ax in axes.flat:
        ax.margins(x=0.12)
        log_scale(ax.xaxis)
        ax.xaxis.set_major_formatter(LogFormatterMathtext())  # κ spans so many powers that plain numbers collide
        ax.grid(True, axis="y")
    methods = [m for m in METHOD_NAMES if m != "stcl" and any(row["method"] == m for row in rows)]
    lines = [Line2D([], [], color=COLOURS[m], linestyle="--", label=METHOD_NAMES[m]) for m in methods]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(METHOD_NAMES))
    return figure


def _forms(ax: Axes, rows: Rows) -> None:
    """Marks every form at its condition number, and names it."""
    ordered = sorted(rows, key=lambda row: float(row["condition"]))
    marks = []
    for row, marker in zip(ordered, cycle(MARKERS), strict=False):
        ax.errorbar(
            float(row["condition"]),
            float(row["mean"]),
            float(row["std"] or 0),
            fmt=marker,
            color=COLOURS["stcl"],
            markersize=6,
            mec="white",
            mew=0.6,
            elinewidth=0.8,
            capsize=2,
            label=row["name"],
        )
        marks.append(Line2D([], [], color=COLOURS["stcl"], marker=marker, linestyle="", label=row["name"]))
    if rows:
        ax.legend(handles=marks, fontsize=7)


def _references(ax: Axes, rows: Rows) -> None:
    """Draws what has no condition number as a line across the panel."""
    for row in rows:
        method = row["method"]
        ax.axhline(float(row["mean"]), color=COLOURS[method], linewidth=1.2, linestyle="--")


if __name__ == "__main__":
    command.main("conditioning_ablation", draw)
