"""This module says how a claim is shown, and when it holds."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isnan

from stcl.reporting.tables.evidence import Evidence

Values = dict[str, float]  # what a claim is about, for example a ratio of errors, under the cell that it is of

FACTOR = 2  # an amount holds if ours is within this factor of the published one, on the side that the claim is about


@dataclass(frozen=True)
class Criterion:
    """When a claim holds, in words and as a function of our values and the published ones."""

    words: str
    holds: Callable[[Values, Values], bool]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. `measure` computes its values from evidence; what is missing is not a number."""

    name: str
    about: str
    words: str
    measure: Callable[[Evidence], Values]
    show: Callable[[Values], str]
    criterion: Criterion

    def text(self, values: Values) -> str:
        """The known values as people read them. It is empty if there are none."""
        known = {label: value for label, value in values.items() if not isnan(value)}
        return self.show(known) if known else ""


# -- criteria -------------------------------------------------------------------------------------------------


def smaller(limit: float) -> Callable[[float], bool]:
    return lambda value: value < limit


def larger(limit: float) -> Callable[[float], bool]:
    return lambda value: value > limit


def mostly(counts: Callable[[float], bool]) -> Criterion:
    """Holds if the values that count are at least the published share of all."""

    def share(values: Values) -> float:
        return sum(map(counts, values.values())) / len(values)

    return Criterion("in at least the published share", lambda ours, theirs: share(ours) >= share(theirs))


SAME_ORDER = Criterion(
    "the same method is lower as in the paper, at each N",
    lambda ours, theirs: all((value > 1) == (theirs[label] > 1) for label, value in ours.items()),
)
HALF = Criterion(
    "each at least half of the smallest published one",
    lambda ours, theirs: min(ours.values()) >= min(theirs.values()) / FACTOR,
)
TWICE = Criterion(
    "the largest is at most twice the largest published one",
    lambda ours, theirs: max(ours.values()) <= FACTOR * max(theirs.values()),
)
OFFLINE_DI_ABOVE = Criterion("offline DI is above sTCL", lambda ours, theirs: ours["Offline DI"] > ours["sTCL"])
RISES = Criterion("higher on each finer grid, for each q", lambda ours, theirs: _rises(ours))
LINEAR = Criterion("R² of at least 0.99", lambda ours, theirs: ours["R²"] >= 0.99)


def _rises(values: Values) -> bool:
    """Whether the values "<grid>, q = <q>" rise from grid to grid, in their order, for each q."""
    counts = {label.partition(", ")[2] for label in values}
    by_count = [[value for label, value in values.items() if label.partition(", ")[2] == q] for q in counts]
    return all(coarse < fine for errors in by_count for coarse, fine in pairwise(errors))


def above(limit: float, words: str) -> Criterion:
    return Criterion(words, lambda ours, theirs: all(value > limit for value in ours.values()))


def below(limit: float, words: str) -> Criterion:
    return Criterion(words, lambda ours, theirs: all(value < limit for value in ours.values()))


def within(factor: float) -> Criterion:
    return Criterion(
        f"each within a factor of {factor:g}",
        lambda ours, theirs: all(1 / factor < value < factor for value in ours.values()),
    )


# -- texts ----------------------------------------------------------------------------------------------------


def count(counts: Callable[[float], bool]) -> Callable[[Values], str]:
    return lambda values: f"{sum(map(counts, values.values()))} of {len(values)}"


def listed(form: str, unit: str = "") -> Callable[[Values], str]:
    """Every value with its label."""
    return lambda values: ", ".join(f"{format(value, form)}{unit} ({label})" for label, value in values.items())


def span(form: str, unit: str = "") -> Callable[[Values], str]:
    """The smallest and the largest value."""

    def text(values: Values) -> str:
        low, high = (format(end(values.values()), form) for end in (min, max))
        return (low if low == high else f"{low} to {high}") + unit

    return text


def by_grid(values: Values) -> str:
    """The range over q on each grid."""
    grids = dict.fromkeys(label.partition(", ")[0] for label in values)
    ranges = {grid: {k: v for k, v in values.items() if k.partition(", ")[0] == grid} for grid in grids}
    return ", ".join(f"{span('.2f', ' %')(of)} ({grid})" for grid, of in ranges.items())


def line(values: Values) -> str:
    return f"R² = {values['R²']:.4f}, largest deviation {values['deviation, %']:.1f} % of the longest time"
