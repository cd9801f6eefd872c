"""Functions that are recorded and replayed, on the CPU; what torch.cuda is asked for, without a GPU."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from replay import by_recording

from stcl.runtime import graphs


class Average:
    """A function with state on the device, and a count on the host."""

    def __init__(self) -> None:
        self.value, self.calls = torch.zeros(3), 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.value.lerp_(x, 0.5)
        return self.value.square()


def test_a_replay_repeats_the_function_on_the_inputs_it_is_given():
    plain, recorded = Average(), Average()
    captured = graphs.Captured(recorded, by_recording)
    for _ in range(6):
        x = torch.randn(3)
        assert torch.equal(captured(x), plain(x))
    assert (plain.calls, recorded.calls) == (6, graphs.WARM_UP + 1)


def test_other_shapes_are_not_recorded():
    captured = graphs.Captured(lambda x: x.sum(), by_recording)
    calls = [torch.randn(n) for n in (4, 3, 4, 4, 3, 4, 4)]
    for x in calls:
        assert captured(x) == x.sum()


def test_state_that_has_moved_is_recorded_again():
    average = Average()
    captured = graphs.Captured(average, by_recording)
    for _ in range(4):
        captured(torch.ones(3))
    average.value = torch.zeros(3)  # as after loading a checkpoint
    captured.forget()
    for k in range(1, 6):
        captured(torch.ones(3))
        torch.testing.assert_close(average.value, torch.full((3,), 1 - 0.5**k))


def test_what_torch_is_asked_for(monkeypatch):
    """Warm-up on another stream with both orders kept, one graph, its replay."""
    asked = []

    class Stream:
        def __init__(self, name: str = "own") -> None:
            self.name = name

        def wait_stream(self, other: "Stream") -> None:
            asked.append(f"{self.name} waits for {other.name}")

    class Graph:
        def replay(self) -> None:
            asked.append("replay")

    @contextmanager
    def within(what):
        asked.append("in graph" if isinstance(what, Graph) else f"on {what.name}")
        yield

    for name, value in {"Stream": Stream, "CUDAGraph": Graph, "graph": within, "stream": within}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream("main"))

    class OnGpu:
        """What a tensor is asked for, with another device."""

        shape, dtype, device = (3,), torch.float32, torch.device("cuda")

        def clone(self) -> "OnGpu":
            return OnGpu()

        def copy_(self, other: "OnGpu") -> None:
            asked.append("copy")

    captured = graphs.Captured(lambda x: asked.append("call"), graphs.by_cuda)
    for _ in range(graphs.WARM_UP + 2):
        captured(OnGpu())
    warm_up = ["own waits for main", "on own", "call", "main waits for own"]
    assert asked == warm_up * graphs.WARM_UP + ["in graph", "call", "copy", "replay", "copy", "replay"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_cuda_graph():
    captured, total = graphs.Captured(lambda x: x.square().sum(), graphs.by_cuda), 0.0
    for n in range(5):
        total += captured(torch.full((3,), float(n), device="cuda")).item()
    assert total == 3 * (1 + 4 + 9 + 16)
