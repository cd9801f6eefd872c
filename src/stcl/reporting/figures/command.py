"""All figures share this command line. It takes a spec, an output, and the files a figure is made from."""

import argparse
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from stcl.reporting.figures.style import save


def main(name: str, draw: Callable[[dict[str, Any], list[Path]], Figure]) -> None:
    """Runs `draw(spec, inputs)` and saves the figure. The resolution of the PNG is `spec["dpi"]`."""
    parser = argparse.ArgumentParser(prog=f"python -m stcl.reporting.figures.{name}", description=draw.__doc__)
    parser.add_argument("--spec", type=json.loads, required=True, help="what the figure shows and how, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="PNG; a PDF goes beside it")
    parser.add_argument("inputs", type=Path, nargs="+", help="tables, ledgers, records of training")
    arguments = parser.parse_args()
    save(draw(arguments.spec, arguments.inputs), arguments.out, arguments.spec["dpi"])


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a tidy table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
