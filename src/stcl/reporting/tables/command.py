"""All tables share this command line. It takes a spec, an output, and the files a table is made from."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from stcl.reporting.tables.render import Table


def main(name: str, build: Callable[[dict[str, Any], list[Path], dict[str, Any] | None], Table]) -> None:
    """Runs `build(spec, inputs, published)` and writes its table. `published` is None unless sizes are the paper's."""
    parser = argparse.ArgumentParser(prog=f"python -m stcl.reporting.tables.{name}", description=build.__doc__)
    parser.add_argument("--spec", type=json.loads, required=True, help="what the table holds, as JSON")
    parser.add_argument("--published", type=Path, help="the paper's numbers, to stand beside ours")
    parser.add_argument("--out", type=Path, required=True, help="CSV; Markdown, LaTeX and JSON go beside it")
    parser.add_argument("inputs", type=Path, nargs="+", help="folders of runs, records of measurements")
    arguments = parser.parse_args()
    published = yaml.safe_load(arguments.published.read_text()) if arguments.published else None
    build(arguments.spec, arguments.inputs, published).write(arguments.out, reduced=published is None)
