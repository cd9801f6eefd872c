"""Numbers in a formula stay numbers under forward mode."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, ops
from torch.overrides import TorchFunctionMode

_ARITHMETIC = {
    ops.aten.mul.Scalar: (Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
    ops.aten.div.Scalar: (Tensor.div, Tensor.__truediv__),
    ops.aten.add.Scalar: (Tensor.add, Tensor.__add__, Tensor.__radd__),
    ops.aten.sub.Scalar: (Tensor.sub, Tensor.__sub__),
    ops.aten.rsub.Scalar: (Tensor.__rsub__,),
}
_WITH_NUMBER = {function: op for op, functions in _ARITHMETIC.items() for function in functions}


class ScalarFactors(TorchFunctionMode):
    """A mode in which `2 * x` multiplies by the number 2. It gives the same bits, sooner.

    By itself torch makes the number a tensor. Forward mode then looks for its tangent, takes a zero without memory, and
    finds the shape of every product with it in Python. Each takes a millisecond, which is most of a small residual.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        if function in _WITH_NUMBER and not named and type(arguments[1]) in (int, float):
            x, number = arguments
            if x.is_floating_point():
                return _WITH_NUMBER[function](x, number)
        return function(*arguments, **(named or {}))
