"""Where the numbers of a study are: below its results, or in the records of this repository."""

from collections.abc import Sequence
from pathlib import Path

from stcl.reporting.runs import is_evaluated


def source(argument: str, results: Path, records: Sequence[Path]) -> Path:
    """The path of what a table or a figure is made from, given relative to the results.

    It is the one below `results` (results/<preset>) if that is there, and else the first one that is there below the
    folders of `records` (records/<preset>). What is nowhere has the path that it would have below the results.
    """
    if not records:  # the Snakefile asks at every start, and need not read every run for it
        return results / argument
    kept = (folder / argument.removeprefix("runs/") for folder in records)
    places = [results / argument, *kept]
    return next((place for place in places if _there(place, argument)), places[0])


def _there(place: Path, argument: str) -> bool:
    """Whether a file, or the folder of an evaluated run, is there. A file of a run counts if the run is done."""
    if not argument.startswith("runs/"):
        return place.exists()
    return is_evaluated(place if Path(argument).name.startswith("seed") else place.parent)
