"""From how many unknowns on a kept inverse of A no longer pays: python benchmarks/kept_solvers.py

Poisson's equation on squares is the hardest case for it: five CG steps with products of five coefficients a node are
the cheapest target there is. Time is that of the process, one thread, for a batch of 16 samples with q = 4: making the
inverses, solving with them, and the CG steps. A training is ahead once it has seen each sample `visits` times.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import stcl
from stcl.losses import settings, solvers
from stcl.tangent.residual import input_derivative

BATCH, Q, ROUNDS = 16, 4, 7


def poisson(n: int) -> stcl.Equation:
    """−Δu = a on n × n nodes, u = 0 on the boundary."""

    def residual(u: Tensor, a: Tensor) -> Tensor:
        inside = u[:, 1:-1, 1:-1]
        around = u[:, 2:, 1:-1] + u[:, :-2, 1:-1] + u[:, 1:-1, 2:] + u[:, 1:-1, :-2]
        return (4 * inside - around) * (n - 1) ** 2 - a[:, 1:-1, 1:-1]

    a, u = torch.randn(4, n, n), torch.nn.functional.pad(torch.randn(4, n - 2, n - 2), (1,) * 4)
    return stcl.Equation(residual, a, u, check=False)  # u does not solve it, which no time depends on


def milliseconds(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times[1:])


def measure(n: int) -> dict[str, float]:
    equation = poisson(n)
    a, u = torch.randn(BATCH, n, n), torch.zeros(BATCH, n, n)
    g = -input_derivative(equation, u, a, torch.randn(BATCH, Q, n, n))
    direct = solvers.load(equation, settings.Direct())
    start = time.process_time()
    direct.at(u, a)
    first = 1e3 * (time.process_time() - start)
    kept = milliseconds(lambda: direct.at(u, a)(g))
    steps = solvers.load(equation, settings.Krylov(steps=5, method="cg"), "spd")
    krylov = milliseconds(lambda: steps.at(u, a)(g))
    visits = first / (krylov - kept) if krylov > kept else float("inf")
    return {"unknowns": (n - 2) ** 2, "inverses_ms": first, "kept_ms": kept, "krylov_ms": krylov, "visits": visits}


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(json.dumps([measure(n) for n in (9, 13, 17, 21, 25, 29)], indent=1))
