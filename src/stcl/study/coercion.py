"""This module turns what a YAML file or a command line hands over into ordinary dicts, lists and numbers."""

import json
from typing import Any


def plain(value: Any) -> Any:
    """The value as ordinary dicts, lists and numbers.

    Snakemake has mappings of its own, and hands over what is inside a list or mapping of `--config` as text. YAML takes
    1e-10, which has no point, for text.
    """
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, str):
        try:
            number = json.loads(value)
        except json.JSONDecodeError:
            return value
        return number if isinstance(number, bool | int | float) else value
    return value
