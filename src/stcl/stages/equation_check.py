"""Whether the residual of a problem fits what is in store, before sTCL trains with it.

F(u, a) is measured at training pairs. Where the train bank is there, its tangents are put into A w + B v, too. The bank
is made for offline DI, and sTCL does not wait for it.
"""

from pathlib import Path

import torch
import zarr

from stcl import problems
from stcl.core.errors import EquationError
from stcl.problems.base import Problem
from stcl.runtime import stores
from stcl.study.specs.train import TrainSpec
from stcl.tangent.data_check import PROBED, SAMPLES, tangent_agreement
from stcl.tangent.data_verdict import check_data

# Largest distance of stored tangents from solving A w + B v = 0, relative to them. On all grids of the studies it is
# at most 0.035 where F(u, a) = 0 holds (Navier-Stokes, whose solver is stabilised), and at least 0.47 with a flipped
# sign of a. Where F(u, a) = 0 is doubtful it says nothing: it is 1.3 to 9.4 for Burgers.
FAR = 0.2


def check(spec: TrainSpec, train: Path, bank: Path | None) -> None:
    """Raise an EquationError if the residual contradicts the data or the stored tangents; warn if it hardly holds."""
    problem = problems.load(spec.problem, **spec.options)
    samples = min(SAMPLES, stores.read_manifest(train)["samples"])
    arrays = stores.read(train, samples)
    a, u = (torch.from_numpy(arrays[name]).double() for name in ("a", "u"))
    source = f"The residual is that of the problem {spec.problem}"
    holds = check_data(problem.residual, problem.layout, a, u, source)
    if holds and bank is not None:
        _check_tangents(problem, a, u, bank, stores.read_manifest(train)["content"], source)


def _check_tangents(problem: Problem, a: torch.Tensor, u: torch.Tensor, bank: Path, content: str, source: str) -> None:
    """Refuse a residual with F(u, a) = 0 that contradicts the bank of these data, if there is one."""
    try:
        arrays = stores.read(bank, min(PROBED, stores.read_manifest(bank)["samples"]))
        made_from = zarr.open_group(bank.with_suffix("") / stores.FIELDS, mode="r").attrs.get("data")
    except (stores.StoreError, OSError):  # not made yet, or being made
        return
    if made_from != content:
        return
    v, w = (torch.from_numpy(arrays[name]).double() for name in ("v", "w"))
    found = tangent_agreement(problem.residual, problem.layout, a[: len(w)], u[: len(w)], v, w)
    if found.distance > FAR:
        raise EquationError(
            f"the stored tangents contradict A w + B v = 0: they are {found.distance:.2g} of |w| away from solving it, "
            f"and w fits its own direction better than another's in {found.wins or 0:.0%} of {found.pairs} cases, "
            f"while F(u, a) = 0 holds. A derivative of the residual is wrong, or the bank {bank} is. {source}"
        )
