"""Specs as text that can be compared."""

import json
from typing import Any


def canonical(spec: Any) -> str:
    """JSON that is equal exactly when the specs are equal: it has sorted keys, no spaces and no NaN."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
