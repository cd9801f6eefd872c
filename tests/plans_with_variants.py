"""The tiny study with a variant of Burgers that has everything Burgers has, and its own scheme."""

import copy
from typing import Any


def with_variant(config: dict[str, Any]) -> dict[str, Any]:
    """A copy of the configuration with `burgers_published` beside `burgers`, in the problems and in the studies."""
    config = copy.deepcopy(config)
    own = config["problems"]["burgers"]
    changed = {"options": own["options"] | {"scheme": "three_sweep"}, "bank": own["bank"] | {"check": False}}
    config["problems"]["burgers_published"] = copy.deepcopy(own) | {"problem": "burgers"} | changed
    studies = config["studies"]
    for name, scheme in (("burgers", "implicit"), ("burgers_published", "three_sweep")):
        studies["forms"][name] = {"n_train": 8, "lambda": 1.0, "forms": {"penalty": {"name": "jacobian_penalty"}}}
        studies["long_runs"][name] = {"n_train": 8, "epochs": 4}
        studies["conditioning"]["options"][name] = {"nx": 8, "nt": 8, "scheme": scheme}
    return config
