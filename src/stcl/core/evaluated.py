"""Whether errors belong to a training. The library asks this of a run, and the workflow of results and of records."""

from typing import Any


def measured_for(train: dict[str, Any], errors: dict[str, Any]) -> bool:
    """Whether errors.json was measured for the training of train.json: for its spec, its best epoch and its weights.

    A training that is made again leaves the errors of the last one where they are, until its evaluation begins. Errors
    and trainings of older versions do not name the weights.
    """
    names = ("spec", "best_epoch", *(("weights",) if "weights" in train and "weights" in errors else ()))
    return all(errors.get(name) == train.get(name) for name in names)
