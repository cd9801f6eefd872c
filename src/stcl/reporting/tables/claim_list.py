"""The claims that the paper's text makes about its numbers, in the order of the text.

No published number is here, because each follows from the paper's tables in config/published.yaml. Limits such as the
1.5 of a ratio are part of the claims.
"""

from collections.abc import Callable
from functools import partial

from stcl.reporting.tables import claim_measures as measures
from stcl.reporting.tables.claim_rules import (
    HALF,
    LINEAR,
    OFFLINE_DI_ABOVE,
    RISES,
    SAME_ORDER,
    TWICE,
    Claim,
    Values,
    above,
    below,
    by_grid,
    count,
    larger,
    line,
    listed,
    mostly,
    smaller,
    span,
    within,
)
from stcl.reporting.tables.estimate import ERRORS
from stcl.reporting.tables.evidence import VARIANCES, Evidence
from stcl.study.names import problem_name

TIME, STEPS, SKETCH, VARIANCE = "Training time", "Krylov steps", "Sketch count", "Gradient variance"
DI_LOWER = ("diffusion", "navier_stokes")
BELOW_FNO = ("helmholtz", "diffusion", "allen_cahn", "navier_stokes")
DI_BELOW_FNO = ("helmholtz", "allen_cahn")
PERCENT = listed(".1f", " %")


def _cells(
    name: str,
    quantity: str,
    words: str,
    bases: tuple[str, tuple[str, ...] | None],
    counts: Callable[[float], bool],
) -> Claim:
    """A claim about the ratio of sTCL to another method, in all cells or in those of some problems."""
    base, problems = bases
    measure = partial(measures.ratios, quantity, "stcl", base, problems)
    return Claim(name, ERRORS[quantity], words, measure, count(counts), mostly(counts))


def _order(quantity: str, problem: str, words: str) -> Claim:
    """A claim about which of sTCL and offline DI is lower at which N."""
    name = f"{quantity.partition('_')[0]}_order_{problem}"
    measure = partial(measures.order, quantity, problem)
    return Claim(name, ERRORS[quantity], f"{problem_name(problem)}: {words}", measure, listed(".2f"), SAME_ORDER)


def _resolution(part: str, words: str, counts: Callable[[float], bool]) -> Claim:
    measure: Callable[[Evidence], Values] = partial(measures.by_resolution, part)
    return Claim(f"variance_resolution_{part}", VARIANCE, words, measure, count(counts), mostly(counts))


CLAIMS = (
    _cells(
        "field_ratio_1.5",
        "field_error",
        "sTCL is below 1.5 times offline DI in nearly all cells",
        ("offline_di", None),
        smaller(1.5),
    ),
    _cells(
        "field_ratio_1.2",
        "field_error",
        "sTCL is below 1.2 times offline DI in most cells",
        ("offline_di", None),
        smaller(1.2),
    ),
    _cells("field_below_fno", "field_error", "sTCL is below FNO in every cell", ("fno", None), smaller(1)),
    _cells(
        "field_di_lower",
        "field_error",
        "offline DI is below sTCL in every cell of nonlinear diffusion and Navier-Stokes",
        ("offline_di", DI_LOWER),
        larger(1),
    ),
    _order("field_error", "helmholtz", "offline DI is lower at the smallest N, sTCL at the larger ones"),
    _order("field_error", "burgers", "offline DI is lower at the middle N, sTCL at the smallest and the largest"),
    _order("field_error", "allen_cahn", "offline DI is lower at the middle N, sTCL at the smallest and the largest"),
    _cells(
        "jacobian_below_fno",
        "jacobian_error",
        "sTCL is below FNO in every cell of Helmholtz, nonlinear diffusion, Allen-Cahn and Navier-Stokes",
        ("fno", BELOW_FNO),
        smaller(1),
    ),
    Claim(
        "jacobian_di_below_fno",
        ERRORS["jacobian_error"],
        "offline DI is below FNO in every cell of Helmholtz and Allen-Cahn",
        partial(measures.ratios, "jacobian_error", "offline_di", "fno", DI_BELOW_FNO),
        count(smaller(1)),
        mostly(smaller(1)),
    ),
    _cells(
        "jacobian_di_lower",
        "jacobian_error",
        "offline DI is below sTCL in every cell of nonlinear diffusion and Navier-Stokes",
        ("offline_di", DI_LOWER),
        larger(1),
    ),
    _order("jacobian_error", "helmholtz", "offline DI is lower at the smallest N, sTCL at the larger ones"),
    _order("jacobian_error", "burgers", "sTCL is lower at the largest N, offline DI at the smaller ones"),
    Claim(
        "jacobian_burgers_largest",
        ERRORS["jacobian_error"],
        "Burgers: offline DI is above sTCL at the largest N",
        partial(measures.at_size, "jacobian_error", "burgers", ("stcl", "offline_di"), -1),
        listed(".2f", " %"),
        OFFLINE_DI_ABOVE,
    ),
    Claim(
        "improvement_diffusion",
        "Both errors",
        "Nonlinear diffusion: sTCL lowers both errors of FNO at the largest N",
        partial(measures.improvement, "diffusion", -1),
        PERCENT,
        HALF,
    ),
    Claim(
        "improvement_allen_cahn",
        "Both errors",
        "Allen-Cahn: sTCL lowers both errors of FNO at the smallest N",
        partial(measures.improvement, "allen_cahn", 0),
        PERCENT,
        HALF,
    ),
    Claim(
        "improvement_navier_stokes",
        "Both errors",
        "Navier-Stokes: sTCL lowers both errors of FNO at the smallest N",
        partial(measures.improvement, "navier_stokes", 0),
        PERCENT,
        HALF,
    ),
    Claim(
        "time_offline_di",
        TIME,
        "the times of sTCL and offline DI, without labels, are of the same order: sTCL / offline DI",
        partial(measures.times, "offline_di"),
        span(".2f"),
        within(10),
    ),
    Claim(
        "time_fno",
        TIME,
        "an update of sTCL costs the same order as one on data alone: sTCL / FNO",
        partial(measures.times, "fno"),
        span(".1f"),
        within(10),
    ),
    Claim(
        "steps_first",
        STEPS,
        "from m = 1 to 3 comes most of the improvement of the largest m",
        measures.first_steps,
        PERCENT,
        above(50, "more than half of it, in both errors"),
    ),
    Claim(
        "steps_settled",
        STEPS,
        "m = 5 is within seed variability of every larger m: difference over combined standard deviation",
        measures.settled,
        listed(".2f"),
        below(1, "less than one, in both errors and for each m"),
    ),
    Claim(
        "steps_time",
        STEPS,
        "m = 5 takes less time than the largest m",
        measures.steps_time,
        span(".1f", " %"),
        below(100, "less than 100 %"),
    ),
    *(
        Claim(
            f"one_direction_{quantity.partition('_')[0]}",
            SKETCH,
            f"a single direction reduces the {word} error of q = 0 substantially on every grid",
            partial(measures.one_direction, quantity),
            PERCENT,
            HALF,
        )
        for quantity, word in measures.WORDS.items()
    ),
    *(
        Claim(
            f"lowest_{quantity.partition('_')[0]}",
            SKETCH,
            f"the lowest {word} error is not that of the largest q, on any grid: the largest q over the lowest",
            partial(measures.lowest, quantity),
            listed(".3f"),
            above(1, "more than one, on each grid"),
        )
        for quantity, word in measures.WORDS.items()
    ),
    *(
        Claim(
            f"resolution_{quantity.partition('_')[0]}",
            SKETCH,
            f"the {word} error rises from grid to finer grid, for every q of at least 1",
            partial(measures.by_grid, quantity),
            by_grid,
            RISES,
        )
        for quantity, word in measures.WORDS.items()
    ),
    Claim("time_linear", SKETCH, "training time is about linear in q", measures.linear_time, line, LINEAR),
    *(
        Claim(
            f"variance_fall_{part}",
            VARIANCE,
            f"the {part} variance falls from q = 1 to the largest q",
            partial(measures.fall, part),
            PERCENT,
            HALF,
        )
        for part in VARIANCES
    ),
    Claim(
        "variance_share",
        VARIANCE,
        "the weighted variance is a small share of the total, for every grid and q of at least 1",
        partial(measures.shares, None),
        span(".1f", " %"),
        TWICE,
    ),
    Claim(
        "variance_share_q4",
        VARIANCE,
        "the weighted variance is a small share of the total with q = 4",
        partial(measures.shares, 4),
        span(".1f", " %"),
        TWICE,
    ),
    _resolution("raw", "the raw variance rises from grid to finer grid, for every q of at least 1", larger(1)),
    _resolution(
        "weighted", "the weighted variance falls from grid to finer grid, for every q of at least 1", smaller(1)
    ),
    _resolution(
        "total", "the total variance is lower on the finest grid than on the coarsest, for every such q", smaller(1)
    ),
)
