"""The rules of the workflow and what feeds what, from `snakemake --rulegraph`.

snakemake --rulegraph | python -m stcl.reporting.figures.rulegraph docs/rulegraph.png
"""

import argparse
import re
import sys
from pathlib import Path

from stcl.reporting.figures.graph import Edges, draw


def parse(dot: str) -> tuple[dict[str, str], Edges]:
    """The label of each rule under its name, and the edges from producer to consumer.

    Snakemake numbers and lists the rules anew each time. Names in their order give the same picture for the same rules.
    """
    names = dict(re.findall(r'^\s*(\d+)\[label = "([^"]+)"', dot, re.MULTILINE))
    edges = re.findall(r"^\s*(\d+) -> (\d+)", dot, re.MULTILINE)
    return {name: name for name in sorted(names.values())}, sorted((names[a], names[b]) for a, b in edges)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.reporting.figures.rulegraph", description="Draw a rule graph."
    )
    parser.add_argument("out", type=Path, help="PNG to write")
    arguments = parser.parse_args()
    draw(*parse(sys.stdin.read()), arguments.out)


if __name__ == "__main__":
    main()
