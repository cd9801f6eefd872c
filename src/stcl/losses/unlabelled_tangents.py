"""Tangents and values at inputs that nobody has solved, judged by the equation alone."""

from collections.abc import Callable
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, Solved, TangentForm, TangentSolver, TargetForm, Weighing
from stcl.core.layout import Layout
from stcl.losses.newton import Newton, on_blocks
from stcl.losses.sketched_tangents import TangentModel
from stcl.tangent.unknowns import as_blocks

SOLVED = 0.02  # largest relative residual of a Newton step that is solved well enough to tell a resonance


class Judged(NamedTuple):
    """Losses of one batch of unlabelled inputs, scalars on the device."""

    derivative: Tensor
    value: Tensor  # 0 if values are not judged
    kept: Tensor  # share of the inputs that count


class UnlabelledTangents:
    """L_deriv and L_value at inputs a without labels.

    With `correct`, the prediction takes one Newton step of the equation with the form's own solver, without gradient:
    û = u_θ − A⁻¹F(u_θ, a). The form then linearises at û, which stands for the label that is not there. L_value is

    none       0
    residual   the energy of F(u_θ, a) in the form's metric; its mean square over the nodes if there is no metric
    corrected  the data loss of u_θ against û

    Inputs without a step do not count. With `largest`, neither do those near a resonance: there the step's system is
    not solved to 2 %, or û has a norm above `largest`. They keep their places and have weight 0, so the shapes are
    those of every update.
    """

    def __init__(
        self,
        equation: DiscreteEquation,
        form: TangentForm,
        data_loss: Callable[[Tensor, Tensor], Tensor],
        value: Literal["none", "residual", "corrected"] = "none",
        correct: bool = False,
        largest: Tensor | None = None,
    ) -> None:
        self.form, self.data_loss, self.value = form, data_loss, value
        self.layout: Layout = equation.layout
        self.largest = largest
        solver = form.solver if isinstance(form, TargetForm) else None
        self.corrects = correct or value == "corrected" or largest is not None
        self._correct = self._newton(equation, solver) if self.corrects else None
        self.equation = equation if solver is None else solver.equation
        weighing = form if solver is None else solver
        self.metric = weighing.metric if isinstance(weighing, Weighing) else None

    def __call__(self, surrogate: TangentModel, a: Tensor, v: Tensor) -> Judged:
        """The losses at inputs a [B, ...] along directions v [B, q, ...] or [q, ...]."""
        prediction, w = surrogate.value_and_tangents(a, v)
        return self.judge(a, prediction, v, w)

    def judge(self, a: Tensor, prediction: Tensor, v: Tensor, w: Tensor) -> Judged:
        """The losses of predictions [B, ...] and tangents w [B, q, ...]."""
        found = None if self._correct is None else self._correct(prediction.detach(), a)
        if found is None:
            derivative = self.form(a, prediction, v, w, label=prediction)
            return Judged(derivative, self._value(prediction, a, prediction, None), torch.ones_like(derivative))
        kept = self._kept(found)
        derivative = cast(TargetForm, self.form)(a, prediction, v, w, label=found.x, kept=kept)
        return Judged(derivative, self._value(prediction, a, found.x, kept), kept.to(derivative.dtype).mean())

    def kept_from_zero(self, u: Tensor, a: Tensor) -> float:
        """The share of solved responses u that a step from zero would keep, if the equation is linear."""
        if self._correct is None or self.largest is None:
            return 1.0
        return self._kept(self._correct(torch.zeros_like(u), a)).double().mean().item()

    def change(self, u: Tensor, a: Tensor) -> float:
        """How far a correction moves responses u that are solved: the median of ‖û − u‖/‖u‖.

        It is small where the residual of the loss is the equation that the data obey. Elsewhere û is no better than a
        prediction of that size.
        """
        assert self._correct is not None  # who asks has a term that corrects
        moved, size = (self.layout.score(x).flatten(1).norm(dim=1) for x in (self._correct(u, a).x - u, u))
        return (moved / size).median().item()

    def _newton(self, equation: DiscreteEquation, solver: TangentSolver | None) -> Newton:
        if solver is None:
            raise ValueError("a correction needs a form with a solver of its own: solved_target or krylov_target")
        return Newton(equation, solver)

    def _kept(self, found: Solved) -> Tensor:
        """Which inputs count, [B]."""
        if self.largest is None:
            return found.solved
        size = torch.linalg.vector_norm(self.layout.score(found.x).flatten(1), dim=1)
        return found.solved & (found.residual <= SOLVED) & (size <= self.largest)

    def _value(self, prediction: Tensor, a: Tensor, state: Tensor, kept: Tensor | None) -> Tensor:
        if self.value == "none":
            return prediction.new_zeros(())
        if self.value == "residual":
            energy = self._energy(prediction, a)
            return energy.mean() if kept is None else _over_kept((energy * kept).mean(), kept)
        assert kept is not None  # a value that is drawn to its correction has been corrected
        # An input that does not count is compared with itself, and the mean is taken over the others.
        columns = kept.view(-1, *[1] * (state.ndim - 1))
        return _over_kept(self.data_loss(prediction, torch.where(columns, state, prediction.detach())), kept)

    def _energy(self, u: Tensor, a: Tensor) -> Tensor:
        """How far u is from solving the equation, [B]."""
        residual = self.equation.residual(u, a)
        if self.metric is not None:
            return self.metric.energy(on_blocks(lambda r: r.unsqueeze(1), residual), a).squeeze(1)
        return torch.stack([block.square().flatten(1).mean(1) for block in as_blocks(residual)]).sum(0)


def _over_kept(mean: Tensor, kept: Tensor) -> Tensor:
    """A mean over all inputs, in which those that do not count are zero, as one over those that are kept."""
    return mean * len(kept) / kept.sum().clamp_min(1)
