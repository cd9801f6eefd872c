"""A cell is one training run of a study. Its path is its name in every folder of results."""

import re
from dataclasses import dataclass

SELECTED = "selected"
_PATH = re.compile(rf"([a-z][a-z0-9_-]*)/N(\d+)/([a-z_]+)/lam({SELECTED}|\d+(?:\.\d+)?(?:e[+-]\d+)?)/seed(\d+)")


def written(lam: float) -> str:
    """λ as a path has it, with at most six digits. A configuration with a λ of more digits is refused."""
    return f"{lam:g}"


@dataclass(frozen=True)
class Cell:
    """One training run. `lam` is a number, None for fno, or SELECTED where validation chooses it from a grid."""

    block: str
    n_train: int
    method: str
    lam: float | str | None
    seed: int

    @property
    def path(self) -> str:
        """The cell's folder below `runs`. No λ is written as 0, a value that no derivative term has."""
        lam = "0" if self.lam is None else self.lam if isinstance(self.lam, str) else written(self.lam)
        return f"{self.block}/N{self.n_train}/{self.method}/lam{lam}/seed{self.seed}"

    @classmethod
    def parse(cls, path: str) -> "Cell":
        """The cell that has this path. A path of any other shape raises ValueError."""
        found = _PATH.fullmatch(path)
        if found is None:
            raise ValueError(f"expected the path of a cell, <block>/N<n>/<method>/lam<λ>/seed<s>, got {path!r}")
        block, size, method, lam, seed = found.groups()
        values = {SELECTED: SELECTED, "0": None}
        return cls(block, int(size), method, values[lam] if lam in values else float(lam), int(seed))
