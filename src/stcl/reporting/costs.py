"""What data cost, and all that led to a trained network: solves, seconds and storage."""

from dataclasses import dataclass
from math import nan
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What data cost, or what all that led to a trained network cost."""

    solves: float  # one for each response, and one, linearised, for each stored tangent
    seconds: float
    gigabytes: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.solves + other.solves, self.seconds + other.seconds, self.gigabytes + other.gigabytes)


def store_cost(ledger: dict[str, Any], samples: int | None = None) -> Cost:
    """The share of a store's cost that its first samples have. Rejected candidates count, too.

    A record of a busy machine has no seconds.
    """
    spec = ledger["spec"]
    share = 1.0 if samples is None else samples / spec["samples"]
    solves = spec["samples"] * spec["directions"] if "directions" in spec else ledger.get("candidates", spec["samples"])
    seconds = share * ledger.get("seconds", nan)
    return Cost(share * solves, seconds, share * ledger["bytes"] / 1e9)
