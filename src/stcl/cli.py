"""The command `stcl`.

stcl diagnose my_problem.py        a file that defines `equation`, an stcl.Equation
stcl diagnose poisson.py           a file that defines a problem, a subclass of stcl.Problem
stcl diagnose helmholtz            a problem of this package
stcl predict RUN a.npy u.npy       responses of a trained network; RUN is results/<preset>/runs/<cell>
stcl status                        how far the studies below `results` are
stcl status results/quick --watch  one of them, shown again every two seconds
stcl records results/paper-small   keeps what was measured there in records/, without weights

A command imports what it needs when it is called. Those of a study need the packages of the workflow, and
`stcl diagnose` does without them.
"""

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

from stcl.core.version import __version__

PREDICTED = 64  # inputs that go through a network at once


def load(source: str, options: dict[str, Any]) -> Any:
    """The equation that a file defines, or its problem, or the problem with this name."""
    from stcl import problems

    path = Path(source)
    if path.suffix != ".py":
        return problems.load(source, **options)
    if not path.is_file():
        raise ValueError(f"no file {source}")
    defined = runpy.run_path(source)
    if "equation" in defined:
        if options:
            raise ValueError("options are for problems; set what you need in the file itself")
        return defined["equation"]
    if any(isinstance(found, type) and issubclass(found, problems.Problem) for found in defined.values()):
        return problems.load(source, **options)
    raise ValueError(
        f"{source} must define `equation`, for example: equation = stcl.Equation(residual, a, u); "
        f"or a problem, a subclass of stcl.Problem"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="stcl", description="Sketched tangent consistency: your own PDE, and the studies of the workflow."
    )
    parser.add_argument("--version", action="version", version=f"stcl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    diagnose = commands.add_parser(
        "diagnose",
        help="which form of the loss fits an equation, and why",
        description="Probe the tangent operator of an equation and print the form of the loss that fits it.",
    )
    diagnose.add_argument("source", help="a Python file that defines `equation` or a problem, or the name of a problem")
    diagnose.add_argument("--options", type=json.loads, default={}, help="of a problem, e.g. '{\"n\": 33}'")
    predict = commands.add_parser(
        "predict",
        help="responses and tangents of a trained network",
        description="Put inputs through the network of a trained cell. Files are .npy, or .zarr with coordinates.",
    )
    predict.add_argument("run", type=Path, metavar="RUN", help="results/<preset>/runs/<cell>, with train.json")
    predict.add_argument("input", type=Path, metavar="INPUT", help="inputs a [samples, …]; of a Zarr group the array a")
    predict.add_argument("out", type=Path, metavar="OUT", help="responses u [samples, …]")
    predict.add_argument(
        "--directions",
        type=Path,
        metavar="V",
        help="directions v [q, …] in the shape of one input; their tangents [samples, q, …] are written as w of "
        "OUT.zarr, or beside OUT.npy as OUT.tangents.npy",
    )
    predict.add_argument("--device", help="device to compute on; by default a GPU, or the CPU if there is none")
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
    records.add_argument(
        "--version", help="the version that trained, with its commit, if train.json does not say enough"
    )
    records.add_argument(
        "--times",
        action="store_true",
        help="keep seconds of timing, data and banks: nothing else ran when they were taken",
    )
    arguments = parser.parse_args()
    run = {"diagnose": _diagnose, "predict": _predict, "status": _status, "records": _records}[arguments.command]
    run(arguments)


def _diagnose(arguments: argparse.Namespace) -> None:
    from stcl.diagnosis import diagnose as page
    from stcl.tangents import TangentError

    try:
        print(page(load(arguments.source, arguments.options)))
    except (ValueError, TangentError) as error:
        raise SystemExit(f"error: {error}") from error


def _device(name: str | None) -> str:
    """The name of a device that is there; if none is given, a GPU, or the CPU if there is no GPU."""
    import torch

    there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    name = name or ("cuda" if len(there) > 1 else "cpu")
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:  # a torch without CUDA asserts that it has it
        raise ValueError(f"no device {name!r} here; there are: {', '.join(there)}") from error
    return name


def _predict(arguments: argparse.Namespace) -> None:
    import torch

    from stcl.runs import load_run
    from stcl.runtime import field_files as files

    try:
        files.check_new(arguments.out, tangents=arguments.directions is not None)
        run = load_run(arguments.run)
        layout, network = run.problem.layout, run.network.to(_device(arguments.device))
        a = torch.from_numpy(files.read(arguments.input, "a", "samples", layout)).to(network.mesh.device)
        arrays = {}
        with torch.no_grad():
            if arguments.directions is None:
                arrays["u"] = torch.cat([network(part) for part in a.split(PREDICTED)])
            else:
                v = torch.from_numpy(files.read(arguments.directions, "v", "q", layout)).to(a)
                parts = [network.value_and_tangents(part, v) for part in a.split(PREDICTED)]
                arrays |= {name: torch.cat(found) for name, found in zip("uw", zip(*parts, strict=True), strict=True)}
        written = files.write(arguments.out, {name: x.cpu().numpy() for name, x in arrays.items()}, layout)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    print("\n".join(map(str, written)))


def _records(arguments: argparse.Namespace) -> None:
    from stcl.reporting import records, status

    try:
        ((_, plan),) = status.studies([arguments.results], arguments.configfile)
        for reason in records.left_out(plan, arguments.results):
            print(f"left out: {reason}")
        written = records.write(plan, arguments.results, version=arguments.version, times=arguments.times)
        checked = records.check(plan)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{len(written)} records written, {len(checked)} in {records.FOLDER / arguments.results.name} checked")


def _status(arguments: argparse.Namespace) -> None:
    from stcl.reporting import status

    try:
        status.show(arguments.folders, arguments.configfile, arguments.watch, arguments.all)
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
