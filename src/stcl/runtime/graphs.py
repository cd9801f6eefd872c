"""CUDA graphs: a function of tensors is recorded once, and the device repeats it without the host.

This was written after torch's documentation and tested by recordings on the CPU. It has not been run on a GPU.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UP = 2  # calls before the recording: they take memory, choose kernels and start moving averages

Function = Callable[..., Tensor]
Replay = Callable[[], None]
Record = Callable[[Function, Sequence[Tensor]], tuple[Replay, Tensor]]


class Captured:
    """A function of tensors that is recorded at its third call and replayed from then on.

    The function must do the same operations with equal shapes at each call, read nothing back to the host, draw no
    random numbers, and keep its state in the same memory. A call with other shapes than the first one, such as that of
    the last and smaller batch of an epoch, runs as it is. The result is overwritten by the next call.
    """

    def __init__(self, function: Function, record: Record) -> None:
        """`record` records a call without making it. It gives what repeats the call, and where its result will be."""
        self.function, self.record = function, record
        self.forget()

    def forget(self) -> None:
        """Start anew, because state has moved: after loading a checkpoint, for example."""
        self._calls = 0
        self._shapes: list[tuple] | None = None
        self._recorded: tuple[Replay, Tensor] | None = None
        self._inputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        shapes = [(x.shape, x.dtype, x.device) for x in inputs]
        if self._shapes is None:
            self._shapes = shapes
        if shapes != self._shapes:
            return self.function(*inputs)
        if self._calls < WARM_UP:
            self._calls += 1
            return beside(self.function, inputs)
        if self._recorded is None:
            self._inputs = [x.clone() for x in inputs]
            self._recorded = self.record(self.function, self._inputs)
        for fixed, x in zip(self._inputs, inputs, strict=True):
            fixed.copy_(x)
        replay, result = self._recorded
        replay()
        return result


def beside(function: Function, inputs: Sequence[Tensor]) -> Tensor:
    """Call a function on a stream of its own, as warm-up calls should be. A CPU has no streams."""
    if inputs[0].device.type != "cuda":
        return function(*inputs)
    stream, own = torch.cuda.current_stream(), torch.cuda.Stream()
    own.wait_stream(stream)
    with torch.cuda.stream(own):
        result = function(*inputs)
    stream.wait_stream(own)
    return result


def by_cuda(function: Function, inputs: Sequence[Tensor]) -> tuple[Replay, Tensor]:
    """Record a call as a CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*inputs)
    return graph.replay, result
