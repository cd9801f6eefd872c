"""The command `stcl`.

stcl diagnose my_problem.py        a file that defines `equation`, an stcl.Equation
stcl diagnose helmholtz            a problem of this package
"""

import argparse
import json
import runpy
from pathlib import Path
from typing import Any


def load(source: str, options: dict[str, Any]) -> Any:
    """The equation that a file defines, or the problem with this name."""
    path = Path(source)
    if path.suffix != ".py":
        from stcl import problems

        return problems.load(source, **options)
    if not path.is_file():
        raise ValueError(f"no file {source}")
    if options:
        raise ValueError("options are for the problems of this package; set what you need in the file itself")
    defined = runpy.run_path(source)
    if "equation" not in defined:
        raise ValueError(f"{source} must define `equation`, for example: equation = stcl.Equation(residual, a, u)")
    return defined["equation"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="stcl", description="Sketched tangent consistency for your own PDE.")
    commands = parser.add_subparsers(dest="command", required=True)
    diagnose = commands.add_parser(
        "diagnose",
        help="which form of the loss fits an equation, and why",
        description="Probe the tangent operator of an equation and print the form of the loss that fits it.",
    )
    diagnose.add_argument("source", help="a Python file that defines `equation`, or the name of a problem")
    diagnose.add_argument("--options", type=json.loads, default={}, help="of a named problem, e.g. '{\"n\": 33}'")
    arguments = parser.parse_args()

    from stcl.diagnosis import diagnose as page
    from stcl.tangents import TangentError

    try:
        print(page(load(arguments.source, arguments.options)))
    except (ValueError, TangentError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
