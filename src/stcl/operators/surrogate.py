"""A surrogate S_θ: a network between a problem's arrays, with value and q tangents in one call."""

from typing import Any

import torch
from torch import Tensor, nn

from stcl.core.layout import Layout
from stcl.operators.forward_mode import value_and_tangents


class Surrogate(nn.Module):
    """S_θ(a) for a problem's layout around any network [B, *grid, channels] → [B, *grid, responses].

    The network sees, per node, the channels named by the layout: coordinates divided by the domain's lengths, and
    the input fields, standardised by (a − mean)/std if `standardise` was called. Where the layout names an initial
    axis, the initial condition is exact: u = a + (t/T) net.
    """

    mesh: Tensor
    input_mean: Tensor
    input_std: Tensor
    offset: Tensor  # [*grid, channels]: the coordinates, and what standardisation adds to the input fields
    scale: Tensor  # [inputs, channels]: what standardisation multiplies an input field by, in its own channel

    def __init__(self, network: nn.Module, layout: Layout) -> None:
        super().__init__()
        self.network = network
        self.layout = layout
        mesh = torch.meshgrid(
            *[torch.as_tensor(c / s) for c, s in zip(layout.coordinates, layout.lengths, strict=True)],
            indexing="ij",
        )
        dtype = torch.get_default_dtype()
        self.register_buffer("mesh", torch.stack(mesh, -1).to(dtype), persistent=False)
        self.register_buffer("input_mean", torch.zeros(len(layout.inputs), dtype=dtype))
        self.register_buffer("input_std", torch.ones(len(layout.inputs), dtype=dtype))
        self._place_channels()

    def standardise(self, inputs: Tensor) -> None:
        """Take mean and unbiased standard deviation of each input field from training inputs [N, *input_shape]."""
        fields = inputs.reshape(len(inputs), len(self.layout.inputs), -1).transpose(0, 1).flatten(1)
        self.input_mean.copy_(fields.mean(1))
        self.input_std.copy_(fields.std(1).clamp_min(1e-8))
        self._place_channels()

    def _place_channels(self) -> None:
        """Put coordinates and statistics where an update adds and multiplies them, all channels at once."""
        layout, mean, std = self.layout, self.input_mean, self.input_std
        of_input = torch.eye(len(layout.inputs), dtype=std.dtype, device=std.device)
        columns = dict(zip(layout.axes + layout.inputs, (*self.mesh.unbind(-1), *(-mean / std)), strict=True))
        rows = dict(zip(layout.inputs, of_input / std, strict=True))
        offset = torch.stack([columns[name].expand(layout.grid) for name in layout.channels], -1)
        scale = torch.stack([rows.get(name, torch.zeros_like(std)) for name in layout.channels], -1)
        self.register_buffer("offset", offset, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._place_channels()

    def _apply(self, *args: Any, **kwargs: Any) -> "Surrogate":
        super()._apply(*args, **kwargs)  # it moves the module, or changes its type
        self._place_channels()
        return self

    def forward(self, a: Tensor) -> Tensor:
        """u [B, *response_shape] for a [B, *input_shape]."""
        return self._response(self.network(self._channels(a)), a)

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """u = S_θ(a) [B, *response_shape] and w = DS_θ(a)[v] [B, q, *response_shape].

        Directions v are [q, *input_shape], shared by the batch, or [B, q, *input_shape].
        """
        y, dy = value_and_tangents(self.network, self._channels(a), self._channel_tangents(v))
        return self._response(y, a), self._response(dy, v)

    def _fields(self, a: Tensor) -> Tensor:
        """[..., *input_shape] → [..., *grid, inputs], with one node along the axes the input does not have."""
        layout = self.layout
        lead = a.shape[: a.ndim - len(layout.input_shape)]
        nodes = [n if axis in layout.input_axes else 1 for n, axis in zip(layout.grid, layout.axes, strict=True)]
        return a.reshape(*lead, len(layout.inputs), *nodes).movedim(len(lead), -1)

    def _channels(self, a: Tensor) -> Tensor:
        channels = self.offset
        for field, scale in zip(self._fields(a).split(1, -1), self.scale, strict=True):
            channels = torch.addcmul(channels, field, scale)
        return channels

    def _channel_tangents(self, v: Tensor) -> Tensor:
        """The channels' tangents: zero for the coordinates, and one node along the axes the input does not have."""
        (first, *others), (scale, *scales) = self._fields(v).split(1, -1), self.scale
        channels = first * scale
        for field, scale in zip(others, scales, strict=True):
            channels = torch.addcmul(channels, field, scale)
        return channels

    def _response(self, y: Tensor, a: Tensor) -> Tensor:
        """The network's output y for the input a, or its tangents for directions: both maps are linear in (y, a)."""
        layout = self.layout
        if layout.initial_axis is not None:
            ramp = self.mesh[..., layout.axes.index(layout.initial_axis), None]
            y = torch.addcmul(self._fields(a), ramp, y)
        return self._native(y)

    def _native(self, y: Tensor) -> Tensor:
        """[..., *grid, responses] → [..., *response_shape]."""
        return y.movedim(-1, -1 - len(self.layout.grid)) if len(self.layout.responses) > 1 else y.squeeze(-1)
