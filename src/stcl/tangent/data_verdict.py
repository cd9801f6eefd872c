"""Whether an equation may be trained with: refused where the data contradict it, doubted where it hardly holds.

The limits were measured on the problems of this package, the examples and six problems of users, with right and with
wrong residuals. docs/own-pde.md has the table.
"""

import warnings
from typing import Literal

import torch
from torch import Tensor

from stcl.core.errors import EquationError, EquationWarning
from stcl.core.layout import Layout
from stcl.tangent.data_check import SAMPLES, Agreement, Residual, agreement, unsolved
from stcl.tangent.data_hypotheses import explanation

Verdict = Literal["holds", "doubtful", "contradicted", "without slope"]

NEAR = 0.01  # distance up to which nothing is said: discretisations differ by as much
FAR = 0.05  # distance from which on an equation is doubtful, whatever else
DIFFERENCES = 0.1  # error of differences between samples from which on tangents are doubtful
WRONG_DIFFERENCES = 0.25  # from which on they may contradict
PAIRS = 28  # mismatched pairs that it takes to call the equation contradicted: those of eight samples
WINS = 0.65  # share of mismatched pairs that must fit worse than the pair itself
MISMATCHED = 0.85  # own distance over that of mismatched pairs, from which on a pair is no better than those
BEND = 1.0  # even over odd part of F: a residual with a slope has a hundredth


def verdict(found: Agreement) -> Verdict:
    """What the measurements say of the equation.

    A coarse grid makes d large, too. But the own response then still fits an input better than those of others.
    """
    if found.bend > BEND:
        return "without slope"
    differences = found.differences or 0.0
    if found.distance > FAR and differences > WRONG_DIFFERENCES and found.pairs >= PAIRS:
        assert found.wins is not None
        assert found.mismatched is not None
        if found.wins < WINS or found.mismatched > MISMATCHED:
            return "contradicted"
    doubtful = found.distance > FAR or (found.distance > NEAR and differences > DIFFERENCES)
    return "doubtful" if doubtful else "holds"


def check_data(residual: Residual, layout: Layout, a: Tensor, u: Tensor, advice: str) -> bool:
    """Refuse F(u, a) by an EquationError, or doubt it by an EquationWarning, unless it holds at the data.

    `advice` says how to go on anyway. What is returned is whether it holds.
    """
    with torch.no_grad():
        found = agreement(residual, layout, a, u)
        judged = verdict(found)
        if judged == "holds":
            return _solved_everywhere(residual, layout, a, u)
        a, u = a[:SAMPLES], u[:SAMPLES]
        if judged == "without slope":
            raise EquationError(
                "residual(u, a) has no slope in u at the data: F(u + δ, a) and F(u − δ, a) are the same. Is it "
                "squared? Return the residual itself, with its sign. " + advice
            )
        meant = explanation(residual, layout, a, u, found.distance)
    said = f"{', '.join(parts(found))}. " + (f"Found: {meant}. " if meant else "") + advice
    if judged == "contradicted" or meant is not None:
        raise EquationError(f"the data contradict residual(u, a) = 0: {said}")
    warnings.warn(f"residual(u, a) = 0 hardly holds at the data: {said}", EquationWarning, stacklevel=3)
    return False


def _solved_everywhere(residual: Residual, layout: Layout, a: Tensor, u: Tensor) -> bool:
    """Doubt the samples that are far from solving an equation that holds for the others."""
    samples, distance = unsolved(residual, layout, a, u)
    if not samples or distance <= FAR:
        return True
    named = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
    warnings.warn(
        f"residual(u, a) = 0 holds at most samples, but not at {len(samples)} of {len(u)} ({named}, counted from 0): "
        f"the worst is {distance:.2g} of |u| away from solving it. Did the solver converge there? Leave these samples "
        f"out, or solve them again",
        EquationWarning,
        stacklevel=4,
    )
    return False


def parts(found: Agreement) -> list[str]:
    """The measurements in words."""
    said = [f"the responses are {found.distance:.2g} of |u| away from solving it"]
    if found.differences is not None:
        said.append(f"differences between samples are wrong by {found.differences:.2g} of their size")
    if found.wins is not None:
        said.append(f"F(uᵢ, aᵢ) is smaller than F(uⱼ, aᵢ) in {found.wins:.0%} of {found.pairs} mismatched pairs")
    return said
