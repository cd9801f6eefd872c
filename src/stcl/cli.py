"""The command `stcl`.

stcl diagnose my_problem.py        a file that defines `equation`, an stcl.Equation
stcl diagnose helmholtz            a problem of this package
stcl status                        how far the studies below `results` are
stcl status results/quick --watch  one of them, shown again every two seconds
stcl records results/paper-small   keeps what was measured there in records/, without weights
"""

import argparse
import importlib
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
    parser = argparse.ArgumentParser(
        prog="stcl", description="Sketched tangent consistency: your own PDE, and the studies of the workflow."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    diagnose = commands.add_parser(
        "diagnose",
        help="which form of the loss fits an equation, and why",
        description="Probe the tangent operator of an equation and print the form of the loss that fits it.",
    )
    diagnose.add_argument("source", help="a Python file that defines `equation`, or the name of a problem")
    diagnose.add_argument("--options", type=json.loads, default={}, help="of a named problem, e.g. '{\"n\": 33}'")
    status = commands.add_parser(
        "status",
        help="how far a study is: what is done, running, stopped and failed",
        description="Print how far studies are. They need not be running, and may run on another machine.",
    )
    status.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="results/<preset>; default: all of them"
    )
    status.add_argument("--configfile", type=Path, help="the study, where none has been started in the folder")
    status.add_argument(
        "--watch", nargs="?", type=float, const=2.0, metavar="SECONDS", help="show it again and again, until Ctrl-C"
    )
    status.add_argument("--all", action="store_true", help="name every running, stopped and failed job")
    records = commands.add_parser(
        "records",
        help="keep what trainings measured, without weights, in records/",
        description="Write a record of every evaluated training of a study, then check all records of it.",
    )
    records.add_argument("results", type=Path, help="results/<preset>")
    records.add_argument("--configfile", type=Path, help="the study; default: the one that was run in the folder")
    records.add_argument("--version", help="the version that trained, where train.json does not say it")
    records.add_argument(
        "--times", action="store_true", help="keep seconds, too: nothing else ran on the machine when they were taken"
    )
    arguments = parser.parse_args()
    run = {"diagnose": _diagnose, "status": _status, "records": _records}[arguments.command]
    run(arguments)


def _diagnose(arguments: argparse.Namespace) -> None:
    from stcl.diagnosis import diagnose as page
    from stcl.tangents import TangentError

    try:
        print(page(load(arguments.source, arguments.options)))
    except (ValueError, TangentError) as error:
        raise SystemExit(f"error: {error}") from error


def _records(arguments: argparse.Namespace) -> None:
    # They are loaded by name, because the library imports nothing of the workflow.
    records = importlib.import_module("stcl.reporting.records")
    status = importlib.import_module("stcl.reporting.status")
    try:
        written = records.write(arguments.results, version=arguments.version, times=arguments.times)
        ((_, plan),) = status.studies([arguments.results], arguments.configfile)
        checked = records.check(plan)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{len(written)} records written, {len(checked)} in {records.FOLDER / arguments.results.name} checked")


def _status(arguments: argparse.Namespace) -> None:
    # It is loaded by name, because the library imports nothing of the workflow.
    status = importlib.import_module("stcl.reporting.status")
    try:
        status.show(arguments.folders, arguments.configfile, arguments.watch, arguments.all)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
