"""A model's arrays in the shapes and the numbers of an equation."""

from torch import Tensor

from stcl.core.infer_layout import without_ones
from stcl.core.layout import Layout
from stcl.losses.scale import Scale

Shape = tuple[int, ...]


class Spaces:
    """Maps a model's inputs, outputs and tangents to those of an equation.

    The numbers go through the scale, if there is one. Axes of length one, such as that of a single channel, may be
    there or not. `given` holds the shapes of one input and one response as the user gave them, for messages.
    """

    def __init__(self, layout: Layout, given: tuple[Shape, Shape], scale: Scale | None) -> None:
        self.layout, self.given, self.scale = layout, given, scale

    def inputs(self, a: Tensor) -> Tensor:
        """Inputs [B, *input_shape] for the model's."""
        scaled = a if self.scale is None else self.scale.inputs(a)
        return _shaped("inputs a", scaled, 1, self.layout.input_shape, self.given[0])

    def input_tangents(self, a: Tensor, v: Tensor) -> Tensor:
        """Directions [B, q, *input_shape] for the model's."""
        scaled = v if self.scale is None else self.scale.input_tangents(a, v)
        return _shaped("directions v", scaled, 2, self.layout.input_shape, self.given[0])

    def responses(self, u: Tensor, what: str) -> Tensor:
        """Responses [B, *response_shape] for the model's."""
        scaled = u if self.scale is None else self.scale.responses(u)
        return _shaped(what, scaled, 1, self.layout.response_shape, self.given[1])

    def response_tangents(self, u: Tensor, w: Tensor) -> Tensor:
        """Tangents [B, q, *response_shape] for the model's."""
        scaled = w if self.scale is None else self.scale.response_tangents(u, w)
        return _shaped("the model's tangents", scaled, 2, self.layout.response_shape, self.given[1])


def _shaped(what: str, x: Tensor, batch_axes: int, shape: Shape, given: Shape) -> Tensor:
    if x.is_complex():
        raise ValueError(f"{what} has complex values; give real and imaginary part as two fields, (B, 2, …)")
    if without_ones(x.shape[batch_axes:]) != without_ones(shape):
        lead = ("B", "q")[:batch_axes]
        raise ValueError(
            f"expected {what} of shape ({', '.join(map(str, (*lead, *given)))}), as the equation was made for, got "
            f"{tuple(x.shape)}. For another grid make another stcl.TangentConsistency"
        )
    return x.reshape(*x.shape[:batch_axes], *shape)
