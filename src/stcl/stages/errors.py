"""The two errors of the paper for each sample."""

from collections.abc import Iterator

import torch
from torch import Tensor

from stcl.core.arrays import relative_error
from stcl.operators.surrogate import Surrogate


def field_errors(surrogate: Surrogate, a: Tensor, u: Tensor, batch: int = 64) -> Tensor:
    """The field errors E_i = ‖u_i − S_θ(a_i)‖ / ‖u_i‖ of the scored responses, [samples]."""
    score = surrogate.layout.score
    with torch.no_grad():
        return torch.cat([relative_error(score(surrogate(a[i])), score(u[i])) for i in _slices(len(a), batch)])


def jacobian_errors(
    surrogate: Surrogate, a: Tensor, v: Tensor, w: Tensor, batch: int = 16, directions: int = 16
) -> Tensor:
    """The Jacobian errors E_ik = ‖w_ik − DS_θ(a_i)[v_k]‖ / ‖w_ik‖ of the scored responses, [samples, directions]."""
    rows = []
    with torch.no_grad():
        for i in _slices(len(a), batch):
            columns = []
            for k in _slices(len(v), directions):
                _, tangents = surrogate.value_and_tangents(a[i], v[k])
                columns.append(relative_error(surrogate.layout.score(tangents), w[i, k], batch_axes=2))
            rows.append(torch.cat(columns, 1))
    return torch.cat(rows)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(i, i + size) for i in range(0, count, size))
