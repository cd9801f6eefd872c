"""Every problem at a size small enough for tests; each claim of test_problems.py runs over this list."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # constants for a fast test
    shared_grid: bool = True  # network and solver use the same discrete equation

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("diffusion", {"n": 17}),
]
