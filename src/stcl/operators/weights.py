"""The weights of an FNO in the order in which its passes take them."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Weights(NamedTuple):
    """The tensors of an FNO, or their bars.

    A spectral weight holds one complex matrix for each mode, [ky, kx, Re|Im, in, out]: real and imaginary parts below
    each other are the real matrix [2 in, out] that takes (Re, −Im) to the real and (Im, Re) to the imaginary part.
    """

    lift: Tensor  # L [C, c_in]
    lift_bias: Tensor  # l [C]
    head: Tensor  # W₁ [D, C]
    head_bias: Tensor  # b₁ [D]
    output: Tensor  # W₂ [c_out, D]
    output_bias: Tensor  # b₂ [c_out]
    spectral: tuple[Tensor, ...]  # of each layer, [m, 2m, 2, C, C]
    pointwise: tuple[Tensor, ...]  # P of each layer, [C, C]
    bias: tuple[Tensor, ...]  # p of each layer, [C]

    def flat(self) -> tuple[Tensor, ...]:
        pointwise = (self.lift, self.lift_bias, self.head, self.head_bias, self.output, self.output_bias)
        return (*pointwise, *self.spectral, *self.pointwise, *self.bias)

    @classmethod
    def of(cls, flat: Sequence[Tensor]) -> "Weights":
        lift, lift_bias, head, head_bias, output, output_bias, *layers = flat
        n = len(layers) // 3
        spectral, pointwise, bias = tuple(layers[:n]), tuple(layers[n : 2 * n]), tuple(layers[2 * n :])
        return cls(lift, lift_bias, head, head_bias, output, output_bias, spectral, pointwise, bias)

    @property
    def modes(self) -> int:
        return len(self.spectral[0])
