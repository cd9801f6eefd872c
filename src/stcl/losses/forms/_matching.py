"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from a solver: a tangent that is solved for, used once, and never stored."""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation, Solved, TangentSolver
from stcl.losses.newton import Newton, nodes, on_blocks
from stcl.losses.squares import squares
from stcl.tangent.residual import input_derivative, tangent_residual

WATCHED = 4096  # updates whose targets are remembered, where nobody asks for the columns of an epoch


class MatchedTarget:
    """L = mean over samples, directions and all nodes of (DS_θ(a)[v] − ŵ)², without pairs that were not solved.

    ŵ solves A(u, a) ŵ = −B(u, a) v, without gradient, at the training response u, at the prediction u_θ, or at its
    Newton correction u_θ − A⁻¹F(u_θ, a). Elsewhere than at the nodes that have an equation, at walls for example, ŵ is
    zero, and the tangent is held to it there. Not compared are nodes without an equation whose values depend on the
    input, such as an initial frame, and responses that are not scored.
    """

    def __init__(
        self,
        equation: DiscreteEquation,
        solver: TangentSolver,
        state: Literal["label", "prediction", "corrected"],
        warm_start: bool = False,
    ) -> None:
        self.solver, self.layout = solver, equation.layout
        self.state, self.warm_start = state, warm_start
        self._watch = _Watch()
        self._correct = Newton(equation, solver) if state == "corrected" else None
        own, fixed = nodes(equation)
        self._own = own.double().cpu().numpy()  # 1 at the nodes that have an equation
        known = self.layout.score(own | fixed)
        self._known = None if known.all() else known.double().cpu().numpy()  # 1 where tangents are compared

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor, kept: Tensor | None = None) -> Tensor:
        """The loss of those samples that are `kept` [B], or of all.

        Who says what is kept has corrected the prediction, and gives the result as `label`.
        """
        if self.state == "label" or (self.state == "corrected" and kept is not None):
            target = self._solved(a, label, v, w.detach())
        else:
            target = self.target(a, u.detach(), v, w.detach())
        counted = target.solved if kept is None else target.solved & kept.unsqueeze(1)
        solved = counted.sum()
        self._watch.add(target.residual, target.solved.sum())
        difference = self.layout.score(w) - self.layout.score(target.x)
        distance = squares(difference if self._known is None else difference * like(w, self._known))
        share = counted / (self.layout.score(w[0, 0]).numel() * solved.clamp_min(1)).to(w.dtype)
        return torch.dot(distance.flatten(), share.flatten())

    def epoch_columns(self) -> dict[str, float]:
        """The median relative residual of the targets since the last call, and how many of them were not solved."""
        return self._watch.finish()

    @torch.no_grad()
    def target(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor | None = None) -> Solved:
        """ŵ [B, q, *response_shape] and the relative residual that it leaves [B, q]; a warm start needs tangents w."""
        return self._solved(a, u if self._correct is None else self._correct(u, a).x, v, w)

    @torch.no_grad()
    def _solved(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor | None) -> Solved:
        """ŵ at the state u itself."""
        equation = self.solver.equation
        if not self.warm_start or w is None:
            return self.solver.at(u, a)(on_blocks(torch.neg, input_derivative(equation, u, a, v)))
        start = w * like(w, self._own)
        left = self.solver.at(u, a)(on_blocks(torch.neg, tangent_residual(equation, u, a, start, v)))
        return left._replace(x=start + left.x)


class _Watch:
    """What became of the last targets, in memory that is taken once: a captured update goes on writing to it."""

    def __init__(self) -> None:
        self.residuals = torch.empty(0, 0)  # [WATCHED, pairs of an update], NaN where an update had fewer pairs
        self.solved = torch.empty(0, dtype=torch.long)  # pairs that were solved, [WATCHED]
        self.updates = torch.zeros((), dtype=torch.long)

    def add(self, residual: Tensor, solved: Tensor) -> None:
        """Count an update by the relative residuals of its pairs and the number of pairs that were solved."""
        if residual.numel() > self.residuals.shape[1] or residual.device != self.residuals.device:
            self._take_memory(residual)
        values, missing = residual.flatten().to(self.residuals.dtype), self.residuals.shape[1] - residual.numel()
        if missing > 0:  # the last batch of an epoch
            values = pad(values, (0, missing), value=math.nan)
        row = (self.updates % WATCHED).view(1)
        self.residuals.index_copy_(0, row, values.view(1, -1))
        self.solved.index_copy_(0, row, solved.view(1))
        self.updates.add_(1)

    def _take_memory(self, residual: Tensor) -> None:
        """Make room for updates with as many pairs as this one. It is the first, or a larger batch than all before."""
        with torch.inference_mode(False):
            old, pairs = self.residuals, max(residual.numel(), self.residuals.shape[1])
            self.residuals = torch.full((WATCHED, pairs), math.nan, dtype=residual.dtype, device=residual.device)
            self.residuals[: len(old), : old.shape[1]] = old
            self.solved = pad(self.solved, (0, WATCHED - len(self.solved))).to(residual.device)
            self.updates = self.updates.to(residual.device)

    def finish(self) -> dict[str, float]:
        """The columns of an epoch. What they were made from is forgotten."""
        rows = min(int(self.updates), WATCHED)
        if rows == 0:
            return {}
        self.updates.zero_()
        residuals = self.residuals[:rows]
        residuals = residuals[~residuals.isnan()]
        unsolved = residuals.numel() - int(self.solved[:rows].sum())
        return {"target_residual": residuals.median().item(), "targets_unsolved": unsolved}
