"""This module computes what the paper's claims are about, from the paper's numbers or from one's own.

Each function takes evidence last and gives values under labels. What is missing is not a number, and noted there.
"""

from itertools import pairwise
from math import hypot, isnan, nan
from statistics import correlation, linear_regression

from stcl.reporting.tables.claim_rules import Values
from stcl.reporting.tables.estimate import ERRORS
from stcl.reporting.tables.evidence import Evidence
from stcl.reporting.tables.variance_share import variance_share
from stcl.study.names import METHOD_NAMES, problem_name

WORDS = {"field_error": "field", "jacobian_error": "Jacobian"}


# -- the main tables ------------------------------------------------------------------------------------------


def ratios(quantity: str, method: str, base: str, problems: tuple[str, ...] | None, evidence: Evidence) -> Values:
    """The ratio of the errors of two methods in every cell, or in those of some problems."""
    return {
        f"{problem_name(problem)}, N = {n}": _ratio(evidence, quantity, problem, n, method, base)
        for problem in evidence.keys(quantity)
        if problems is None or problem in problems
        for n in evidence.keys(quantity, problem)
    }


def order(quantity: str, problem: str, evidence: Evidence) -> Values:
    """The ratio of sTCL to offline DI by the place of N. A study with other sizes has ends, and maybe a middle."""
    sizes = evidence.keys(quantity, problem, at_least=2)
    if len(sizes) < 2:
        return {}
    middle = {"middle N": sizes[1]} if len(sizes) == 3 else {}
    places = {"smallest N": sizes[0], **middle, "largest N": sizes[-1]}
    return {place: _ratio(evidence, quantity, problem, n, "stcl", "offline_di") for place, n in places.items()}


def at_size(quantity: str, problem: str, methods: tuple[str, ...], place: int, evidence: Evidence) -> Values:
    """The errors of methods at the smallest N, which is place 0, or at the largest, which is place −1."""
    sizes = evidence.keys(quantity, problem)
    return {METHOD_NAMES[m]: evidence.mean(quantity, problem, sizes[place], m) for m in methods if sizes}


def improvement(problem: str, place: int, evidence: Evidence) -> Values:
    """By how much sTCL lowers both errors of FNO, in percent."""
    both = {quantity: at_size(quantity, problem, ("stcl", "fno"), place, evidence) for quantity in ERRORS}
    return {WORDS[q]: _lowered(errors["FNO"], errors["sTCL"]) for q, errors in both.items() if errors}


def times(base: str, evidence: Evidence) -> Values:
    """The training time of sTCL over that of another method, for each problem."""
    problems = evidence.keys("wallclock")
    return {
        problem_name(p): _divided(evidence.mean("wallclock", p, "stcl"), evidence.mean("wallclock", p, base))
        for p in problems
    }


def _ratio(evidence: Evidence, quantity: str, problem: str, n: int, method: str, base: str) -> float:
    return _divided(*(evidence.mean(quantity, problem, n, name) for name in (method, base)))


# -- Krylov steps ---------------------------------------------------------------------------------------------


def first_steps(evidence: Evidence) -> Values:
    """The share of the whole improvement, from m = 1 to the largest m, that m = 3 has."""
    last = _largest_steps(evidence, above=3)
    found = {}
    for quantity in ERRORS:
        one, three, most = (evidence.mean("minres_iterations", m, quantity) for m in (1, 3, last))
        found[WORDS[quantity]] = 0.0 if one <= most else 100 * _divided(one - three, one - most)
    return found


def settled(evidence: Evidence) -> Values:
    """The difference of the errors of m = 5 and of every larger m, in combined standard deviations over seeds."""
    _largest_steps(evidence, above=5)
    found = {}
    for larger in [m for m in evidence.keys("minres_iterations") if m > 5]:
        names = [("minres_iterations", m) for m in (5, larger)]
        for quantity in ERRORS:
            few, many = (evidence.mean(*name, quantity) for name in names)
            deviation = hypot(*(evidence.deviation(*name, quantity) for name in names))
            found[f"{WORDS[quantity]}, m = {larger}"] = _divided(abs(few - many), deviation)
    return found


def steps_time(evidence: Evidence) -> Values:
    """The time of m = 5 in percent of that of the largest m."""
    few, many = (evidence.mean("minres_iterations", m, "seconds") for m in (5, _largest_steps(evidence, above=5)))
    return {"time": 100 * _divided(few, many)}


def _largest_steps(evidence: Evidence, above: int) -> int:
    """The largest m of the study. One that is not above the m it is compared with is noted as absent."""
    last = max(evidence.keys("minres_iterations"), default=0)
    if last <= above:
        evidence.lack(f"minres_iterations: more than {above} steps")
    return last


# -- sketch count ---------------------------------------------------------------------------------------------


def one_direction(quantity: str, evidence: Evidence) -> Values:
    """By how much q = 1 lowers the error of q = 0, in percent, on each grid."""
    return {
        f"{grid}²": _lowered(*(evidence.mean("sketch_resolution", grid, q, quantity) for q in (0, 1)))
        for grid in evidence.keys("sketch_resolution")
    }


def by_grid(quantity: str, evidence: Evidence) -> Values:
    """The error on each grid, from the coarsest to the finest, for each q of at least 1."""
    grids = evidence.keys("sketch_resolution", at_least=2)
    return {
        f"{grid}², q = {q}": evidence.mean("sketch_resolution", grid, q, quantity)
        for grid in grids
        for q in _counts(evidence, "sketch_resolution", grids)
        if q > 0
    }


def lowest(quantity: str, evidence: Evidence) -> Values:
    """The error with the largest q over the lowest one, on each grid. The label has the q of the lowest error."""
    grids = evidence.keys("sketch_resolution")
    counts = [q for q in _counts(evidence, "sketch_resolution", grids) if q > 0]
    if len(counts) < 2:
        evidence.lack("sketch_resolution: q above 1")
        return {}
    found = {}
    for grid in grids:
        errors = {q: evidence.mean("sketch_resolution", grid, q, quantity) for q in counts}
        best = min(errors, key=lambda q: errors[q])
        known = not any(map(isnan, errors.values()))
        found[f"{grid}², q = {best}"] = _divided(errors[max(counts)], errors[best]) if known else nan
    return found


def linear_time(evidence: Evidence) -> Values:
    """R² of a straight line through the times of all q, and the largest deviation from it over the longest time."""
    counts = evidence.keys("sketch_runtime", at_least=3)  # a line goes through any two
    minutes = [evidence.mean("sketch_runtime", q) for q in counts]
    known = [(q, m) for q, m in zip(counts, minutes, strict=True) if not isnan(m)]
    if len(known) < 3:
        return {}
    x, y = ([float(value) for value in values] for values in zip(*known, strict=True))
    line = linear_regression(x, y)
    deviation = max(abs(b - line.slope * a - line.intercept) for a, b in zip(x, y, strict=True))
    return {"R²": correlation(x, y) ** 2, "deviation, %": 100 * deviation / max(y)}


def fall(part: str, evidence: Evidence) -> Values:
    """By how much a variance falls from q = 1 to the largest q, in percent, on each grid."""
    grids = evidence.keys("gradient_variance")
    counts = _counts(evidence, "gradient_variance", grids)
    if max(counts, default=0) < 2:
        evidence.lack("gradient_variance: q above 1")
        return {}
    ends = (1, max(counts))
    return {f"{grid}²": _lowered(*(evidence.mean("gradient_variance", grid, q, part) for q in ends)) for grid in grids}


def shares(only: int | None, evidence: Evidence) -> Values:
    """The weighted variance in percent of the total, for each grid and q of at least 1, or for one q."""
    found = {}
    for grid in evidence.keys("gradient_variance"):
        for q in [only] if only else [q for q in evidence.keys("gradient_variance", grid) if q > 0]:
            weighted, total = (evidence.mean("gradient_variance", grid, q, part) for part in ("weighted", "total"))
            share = variance_share(weighted, total)
            found[f"{grid}², q = {q}"] = nan if share is None else share
    return found


def by_resolution(part: str, evidence: Evidence) -> Values:
    """The smallest ratio of a variance on a grid to that on the next coarser one, for each q of at least 1.

    For parts that fall it is the largest ratio, and for the total, which need not fall at each grid, that of the ends.
    """
    grids = evidence.keys("gradient_variance", at_least=2)
    found = {}
    for q in _counts(evidence, "gradient_variance", grids):
        if q > 0 and len(grids) > 1:
            values = [evidence.mean("gradient_variance", grid, q, part) for grid in grids]
            if part == "total":
                values = [values[0], values[-1]]
            steps = [_divided(fine, coarse) for coarse, fine in pairwise(values)]
            unknown = any(map(isnan, steps))
            found[f"q = {q}"] = nan if unknown else min(steps) if part == "raw" else max(steps)
    return found


def _counts(evidence: Evidence, table: str, grids: list[int]) -> list[int]:
    return evidence.keys(table, grids[0]) if grids else []


# -- numbers --------------------------------------------------------------------------------------------------


def _divided(value: float, base: float) -> float:
    return value / base if base else nan


def _lowered(base: float, value: float) -> float:
    return 100 * (1 - _divided(value, base))
