"""Numbers and tables in a formula stay what they are under forward mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, ops
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

_ARITHMETIC = {
    ops.aten.mul.Scalar: (Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
    ops.aten.div.Scalar: (Tensor.div, Tensor.__truediv__),
    ops.aten.add.Scalar: (Tensor.add, Tensor.__add__, Tensor.__radd__),
    ops.aten.sub.Scalar: (Tensor.sub, Tensor.__sub__),
    ops.aten.rsub.Scalar: (Tensor.__rsub__,),
}
_WITH_NUMBER = {function: op for op, functions in _ARITHMETIC.items() for function in functions}
_SUMS = {Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.sub, Tensor.__sub__, Tensor.__rsub__}


class ScalarFactors(TorchFunctionMode):
    """A mode for torch.func.jvp in which `2 * x` multiplies by the number 2 and `x - table` subtracts a constant.

    By itself torch makes the number a tensor. Forward mode then looks for its tangent, takes a zero without memory, and
    finds the shape of every product with it in Python. Each takes a millisecond, which is most of a small residual. The
    same happens where a constant tensor, such as a source, is added, and the first time it imports torch's compiler,
    which takes a second. So a constant that is added has a tangent of ordinary zeros here. The bits are the same.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        if function in _WITH_NUMBER and not named and type(arguments[1]) in (int, float):
            x, number = arguments
            if x.is_floating_point():
                return _WITH_NUMBER[function](x, number)
        if function in _SUMS and not named and all(isinstance(x, Tensor) for x in arguments):
            arguments = _with_tangents(*arguments)
        return function(*arguments, **(named or {}))


def _with_tangents(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors. If only one of them has a tangent, the other gets one of zeros.

    To look for a tangent takes time, too. A table is known by its shape, because it has no axis of samples, so tensors
    of one shape are left to torch.
    """
    if x.shape == y.shape:
        return x, y
    known = [not z.is_floating_point() or forward_ad.unpack_dual(z).tangent is not None for z in (x, y)]
    if known == [True, False]:
        return x, forward_ad.make_dual(y, torch.zeros_like(y))
    return (forward_ad.make_dual(x, torch.zeros_like(x)), y) if known == [False, True] else (x, y)
