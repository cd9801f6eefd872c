"""A metric as a dense matrix."""

from typing import Any

import torch
from torch import Tensor

from stcl.core.interfaces import Metric
from stcl.tangent.unknowns import Unknowns


def dense_metric(equation: Any, metric: Metric, a: Tensor) -> Tensor:
    """M for one input a, between the unknowns of the equation."""
    inputs, responses = equation.states(1)
    unknowns = Unknowns(equation.residual(responses, inputs), equation.layout)
    return unknowns.on_vectors(metric.at(a[None]))(torch.eye(len(unknowns), dtype=a.dtype))
