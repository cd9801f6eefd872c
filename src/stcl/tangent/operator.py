"""A(u, a) at one state as a square linear operator, by products alone."""

from functools import cached_property

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.dense import matrices
from stcl.tangent.residual import input_derivative, state_derivative
from stcl.tangent.unknowns import Unknowns


class TangentOperator:
    """A = ∂F/∂u (u, a) between the unknowns of the residual."""

    def __init__(self, equation: DiscreteEquation, u: Tensor, a: Tensor) -> None:
        """Linearise at one sample, u [*response_shape] and a [*input_shape]."""
        self.equation, self.u, self.a = equation, u[None], a[None]
        self.unknowns = Unknowns(equation.residual(self.u, self.a), equation.layout)
        self.assembled: Tensor | None = None  # A as a matrix once `assemble` was called; products are then faster

    def product(self, x: Tensor) -> Tensor:
        """A x for x [k, unknowns]."""
        if self.assembled is not None:
            return x @ self.assembled.T
        fields = self.unknowns.embed(x)[None]
        return self.unknowns.join(state_derivative(self.equation, self.u, self.a, fields))[0]

    def transposed_product(self, y: Tensor) -> Tensor:
        """Aᵀ y for y [k, unknowns]."""
        if self.assembled is not None:
            return y @ self.assembled
        state, equations = self._graph
        (back,) = torch.autograd.grad(equations, state, y, retain_graph=True, is_grads_batched=True)
        return self.unknowns.restrict(back[:, 0])

    @cached_property
    def _graph(self) -> tuple[Tensor, Tensor]:
        """The state and the equations of it. torch.func.vjp would do the same, but it imports torch's compiler."""
        with torch.enable_grad():
            state = self.u.detach().requires_grad_()
            return state, self.unknowns.join(self.equation.residual(state, self.a), batch_axes=1)[0]

    def right_hand_side(self, v: Tensor) -> Tensor:
        """−B v [k, unknowns] for directions v [k, *input_shape]."""
        return -self.unknowns.join(input_derivative(self.equation, self.u, self.a, v))[0]

    def matrix(self) -> Tensor:
        """A as a dense matrix."""
        if self.assembled is not None:
            return self.assembled
        return matrices(self.equation, self.unknowns, self.u, self.a)[0]

    def assemble(self) -> Tensor:
        """A as a dense matrix, which is kept for all products to come."""
        self.assembled = self.matrix()
        return self.assembled
