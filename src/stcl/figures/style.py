"""The common look of the figures."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

METHODS = {  # name, colour: distinguishable without colour vision
    "fno": ("FNO", "#7f7f7f"),
    "offline_di": ("Offline DI", "#0072b2"),
    "stcl": ("sTCL", "#d55e00"),
}

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "stcl",
    }
)


def save(figure: Figure, png: Path, dpi: int) -> None:
    """PNG and, beside it, PDF; without dates, so that equal figures are equal files."""
    figure.savefig(png, dpi=dpi, metadata={"Software": None})
    figure.savefig(png.with_suffix(".pdf"), metadata={"CreationDate": None})
    plt.close(figure)
