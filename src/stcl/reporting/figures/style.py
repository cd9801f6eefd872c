"""This module gives all figures their common look."""

from pathlib import Path
from typing import Literal

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axis import Axis, XAxis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

COLOURS = {"fno": "#7f7f7f", "stcl": "#d55e00", "offline_di": "#0072b2"}  # they differ without colour vision, too
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ERRORS = {"field_error": "Field error, %", "jacobian_error": "Jacobian error, %"}  # the test errors as axes name them
SERIES = ("#1b6ca8", "#2a9d8f", "#e09f3e", "#9e2a2b", "#6a4c93")  # colours of what is not a method

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "stcl",
    }
)


def log_scale(axis: Axis) -> None:
    """Makes an axis logarithmic with plain numbers. All must be drawn before, because the range decides on ticks."""
    name: Literal["x", "y"] = "x" if isinstance(axis, XAxis) else "y"
    axis.axes.set(**{f"{name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.axes.grid(True, axis=name)


def save(figure: Figure, png: Path, dpi: int) -> None:
    """Writes a PNG and, beside it, a PDF. They hold no dates, so that equal figures are equal files."""
    figure.savefig(png, dpi=dpi, metadata={"Software": None})
    figure.set_layout_engine("none")  # the axes stay where they are; finding their places is half of the work
    figure.savefig(png.with_suffix(".pdf"), metadata={"CreationDate": None})
    plt.close(figure)
