"""An estimate is the mean and spread of a quantity over training seeds. It can stand beside a published one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign, hypot, inf, isfinite
from statistics import fmean, stdev

from stcl.reporting.runs import Run

ERRORS = {"field_error": "Field error", "jacobian_error": "Jacobian error"}  # the test errors as tables name them


def mean_and_deviation(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean and the sample standard deviation. A single value has no deviation.

    There is neither without a value or where one is infinite or not a number: the others alone would look better than
    what was measured.
    """
    if not values or not all(map(isfinite, values)):
        return None, None
    return fmean(values), stdev(values) if len(values) > 1 else None


def not_finite(values: Sequence[float]) -> str:
    """What stands in the place of a mean, where some of the values are infinite or not a number."""
    count = sum(not isfinite(value) for value in values)
    return f"{count} of {len(values)} not finite" if len(values) > 1 else "not finite"


@dataclass(frozen=True)
class Estimate:
    """The mean and spread over the seeds that finished. The others are counted."""

    values: tuple[float, ...]
    unfinished: tuple[str, ...] = ()  # the statuses of the seeds without a value

    @property
    def mean(self) -> float | None:
        """The mean, if there are values and all of them are finite."""
        return mean_and_deviation(self.values)[0]

    @property
    def std(self) -> float | None:
        """The sample standard deviation. A single seed has none."""
        return mean_and_deviation(self.values)[1]

    def columns(self) -> dict[str, object]:
        """The columns of the tidy table. What is not known is empty."""
        return {
            "mean": "" if self.mean is None else self.mean,
            "std": "" if self.std is None else self.std,
            "n_seeds": len(self.values),
            "n_unfinished": len(self.unfinished),
        }

    def text(self, published: list[float] | None = None) -> str:
        """The text `2.31 ± 0.04`, or what is missing, and beside it the published value and the ratio."""
        counts = [f"{self.unfinished.count(status)} {status}" for status in dict.fromkeys(self.unfinished)]
        if not self.values:
            missing = ", ".join(counts) if len(self.unfinished) > 1 else "".join(self.unfinished)
            return missing + (f" [{beside(published)}]" if published is not None else "")
        if self.mean is None:
            text = not_finite(self.values) + (f" [{beside(published)}]" if published is not None else "")
            return text + (f" ({', '.join(counts)})" if counts else "")
        text = _number(self.mean, self.mean) + (f" ± {_number(self.std, self.mean)}" if self.std is not None else "")
        if published is not None:
            text += f" [{beside(published)}, ×{self.mean / published[0]:.2f}]{'*' if self.differs(published) else ''}"
        return text + (f" ({', '.join(counts)})" if counts else "")

    def differs(self, published: list[float]) -> bool:
        """Whether the published mean is further away than three combined standard deviations."""
        distance = self.distance(published)
        return distance is not None and abs(distance) > 3

    def distance(self, published: list[float]) -> float | None:
        """The difference to the published mean in combined standard deviations.

        One seed alone has no deviation of its own and is given the published one.
        """
        if self.mean is None:
            return None
        difference, std = self.mean - published[0], published[1]
        combined = hypot(self.std if self.std is not None else std, std)
        return difference / combined if combined else copysign(inf, difference) if difference else 0.0


MARKS = (
    "In brackets the published mean ± standard deviation and the ratio of ours to it; * marks a difference of more "
    "than three combined standard deviations (a single seed is given the published deviation)."
)


def beside(published: list[float]) -> str:
    mean, std = published
    return f"{_number(mean, mean)} ± {_number(std, mean)}"


def estimate(runs: list[Run], value: Callable[[Run], float]) -> Estimate:
    """The estimate of `value(run)` from the runs that are done."""
    done = [run for run in runs if run.status == "done"]
    return Estimate(tuple(value(run) for run in done), tuple(run.status for run in runs if run.status != "done"))


def percent(runs: list[Run], quantity: str) -> Estimate:
    """The estimate of a test error in percent."""
    return estimate(runs, lambda run: 100 * run.errors[quantity])


def shown_lambda(runs: list[Run]) -> str:
    """The λ of the runs that are done, as text. Data alone has none."""
    known = {run.record["spec"]["lam"] for run in runs if run.status == "done"}
    return " ".join(f"{lam:g}" for lam in sorted(known - {None}))


def _number(value: float, size: float) -> str:
    """The number with two decimals, with three below one, and with a power of ten where that would show nothing."""
    if 0 < abs(size) < 1e-2:
        return f"{value:.2e}"
    return f"{value:.{3 if abs(size) < 1 else 2}f}"
