"""Whether errors belong to a training. The library asks this of a run, and the workflow of results and of records."""

from typing import Any


def measured_for(train: dict[str, Any], errors: dict[str, Any]) -> bool:
    """Whether errors.json was measured for the training of train.json: for its spec, and for its best epoch.

    A training that is made again leaves the errors of the last one where they are, until its evaluation begins.
    """
    return all(errors.get(key) == train.get(key) for key in ("spec", "best_epoch"))
