"""Tangents of any torch model, and how far they are from a solver's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from stcl.core.arrays import relative_error
from stcl.operators import forward_mode


class TangentError(RuntimeError):
    """The model's derivative along a direction is not available. The message says why and what to do."""


def value_and_tangents(model: Callable[[Tensor], Tensor], a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """u = S_θ(a) [B, ...] and w = DS_θ(a)[v] [B, q, ...], both differentiable in the weights θ.

    Directions v are [q, ...], shared by the batch, or [B, q, ...], in the shape of one input. A model with a method
    value_and_tangents(a, v) of its own is asked for it. Any other is pushed forward, all q tangents along one value.
    Attention is computed by torch's own formula meanwhile, because its fused kernels have no derivative of this kind.

    >>> import torch, stcl
    >>> u, w = stcl.value_and_tangents(torch.sin, torch.zeros(2, 5), torch.ones(3, 5))
    >>> w.shape, bool((w == 1).all())  # cos(0) = 1
    (torch.Size([2, 3, 5]), True)
    """
    shape = tuple(a.shape[1:])
    if tuple(v.shape[1:]) != shape and (tuple(v.shape[2:]) != shape or v.shape[:1] != a.shape[:1]):
        raise ValueError(
            f"expected directions of shape (q, {_listed(shape)}), or (B, q, {_listed(shape)}) with B = {len(a)}, for "
            f"inputs of shape {tuple(a.shape)}, got {tuple(v.shape)}"
        )
    try:
        with _plain_attention():
            u, w = forward_mode.value_and_tangents(model, a, v.to(a))
    except (RuntimeError, NotImplementedError, TypeError, AttributeError, IndexError) as error:
        with torch.no_grad():
            _check_output(model, model(a))  # what the model itself cannot do is its own error
        along = v[0].expand_as(a) if v.ndim == a.ndim else v[:, 0]
        raise TangentError(_explained(model, error, ignores_input=_is_constant(model, a, along))) from error
    _check_output(model, u)
    return u, w


def _check_output(model: Any, output: Any) -> None:
    if not isinstance(output, Tensor):
        raise TangentError(
            f"{type(model).__name__} returns a {type(output).__name__} where one tensor is needed; take that from it, "
            f"as in lambda a: model(a)[0]"
        )


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Attention without fused kernels: neither scaled_dot_product_attention's nor the fast path of an encoder layer."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def jacobian_error(model: Callable[[Tensor], Tensor], a: Tensor, v: Tensor, truth: Any, step: float = 1e-3) -> Tensor:
    """‖DS_θ(a_i)[v_k] − w_ik‖ / ‖w_ik‖, [B, q], for directions v [q, ...], shared by the batch, or [B, q, ...].

    `truth` holds the tangents w [B, q, ...] as a tensor or an array, or it is a solver a ↦ u. Central differences of
    the solver then take their place, with a step relative to those entries of the input that the direction changes.
    They cost 2q solves for each sample.

    >>> import torch, stcl
    >>> stcl.jacobian_error(lambda a: a**2, torch.ones(1, 3), torch.eye(3), lambda a: a**2 + a).mean()  # 2 against 3
    tensor(0.3333)
    """
    with torch.no_grad():
        _, w = value_and_tangents(model, a, v)
        truth = _differences(truth, a, v, step) if callable(truth) else torch.as_tensor(truth)
    if w.is_complex() or truth.is_complex():
        raise ValueError("tangents are complex; give real and imaginary part as two fields, (B, 2, …)")
    if truth.shape != w.shape:
        raise ValueError(f"expected reference tangents of shape {tuple(w.shape)}, got {tuple(truth.shape)}")
    return relative_error(w, truth.to(w), batch_axes=2)


def _differences(solve: Callable[[Tensor], Any], a: Tensor, v: Tensor, step: float) -> Tensor:
    """(S(a + εv) − S(a − εv)) / 2ε in double precision, ε ‖v‖ = step ‖a‖.

    ‖a‖ is taken over the entries where v is not zero: others may be of another size. An input that is zero there, or
    nearly so, has the largest ‖a‖ of the batch instead. If all are zero, ε = step.
    """
    a, columns = a.double(), []
    for direction in v.double().expand(len(a), *v.shape[-a.ndim :]).unbind(1):
        size = direction.reshape(len(a), -1).norm(dim=1)
        length = torch.where(direction != 0, a, 0.0).reshape(len(a), -1).norm(dim=1)
        length = torch.where(length > 1e-6 * length.max(), length, length.max())
        epsilon = step * torch.where(length > 0, length / size, 1.0)
        shift = epsilon.reshape(-1, *[1] * (a.ndim - 1)) * direction
        change = _real(solve(a + shift)) - _real(solve(a - shift))
        columns.append(change / (2 * epsilon.reshape(-1, *[1] * (change.ndim - 1))))
    return torch.stack(columns, 1)


def _real(u: Any) -> Tensor:
    """A solver's responses in double precision. A complex one keeps its type, to be refused."""
    u = torch.as_tensor(u)
    return u if u.is_complex() else u.double()


class ReverseTangents(nn.Module):
    """A model whose tangents come from reverse mode twice, for operations that have no forward mode.

    w = ∂/∂c [∂⟨c, S_θ(a)⟩/∂a · v] takes one backward pass for the inner derivative and one for each direction. This is
    slower, but it only needs what training needs already: differentiable backward passes.

    >>> import torch, stcl
    >>> _, w = stcl.value_and_tangents(stcl.ReverseTangents(torch.sin), torch.zeros(2, 5), torch.ones(3, 5))
    >>> bool((w == 1).all())
    True
    """

    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model

    def forward(self, a: Tensor) -> Tensor:
        return self.model(a)

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            a = a.detach().requires_grad_()
            u = self.model(a)
            cotangent = torch.zeros_like(u, requires_grad=True)
            (pullback,) = torch.autograd.grad(u, a, cotangent, create_graph=True)
            v = v.expand(len(a), *v.shape) if v.ndim == a.ndim else v
            rows = [
                torch.autograd.grad(pullback, cotangent, v_k, create_graph=keep, retain_graph=True)[0]
                for v_k in v.unbind(1)
            ]
        w = torch.stack(rows, 1)
        return (u, w) if keep else (u.detach(), w.detach())


def _is_constant(model: Callable[[Tensor], Tensor], a: Tensor, along: Tensor) -> bool:
    """Whether the derivative exists and is zero. torch fails if several such tangents are taken at once."""
    try:
        return not torch.func.jvp(model, (a,), (along,))[1].any()
    except (RuntimeError, NotImplementedError):
        return False


def _explained(model: Any, error: Exception, ignores_input: bool) -> str:
    name, text = type(model).__name__, str(error)
    cause = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if ignores_input:
        return f"{name} has tangents that are all zero: it ignores its input, or detaches it on the way"
    if "randomness" in text or "random operation" in text:
        return f"{name} draws random numbers while tangents are taken ({cause}); switch dropout off with model.eval()"
    if "running_mean" in text or "in-place" in text or "inplace" in text:
        return (
            f"{name} changes a tensor in place while tangents are taken ({cause}); call model.eval(), or use GroupNorm "
            f"or LayerNorm instead of BatchNorm and out-of-place activations"
        )
    if isinstance(model, ReverseTangents):
        return (
            f"{type(model.model).__name__} cannot be differentiated twice in reverse mode: {cause}. Replace that "
            f"operation, or give the model a method value_and_tangents(a, v) -> (u, w) of its own"
        )
    return (
        f"{name} has no forward-mode derivative: {cause}. Replace that operation; or wrap the model, "
        f"stcl.ReverseTangents(model), which uses reverse mode twice; or give it a method value_and_tangents(a, v)"
    )


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
