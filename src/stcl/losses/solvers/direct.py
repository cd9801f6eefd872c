"""A⁻¹ for each sample, made once and kept in memory."""

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solved
from stcl.losses import settings, solvers
from stcl.tangent.dense import matrices
from stcl.tangent.unknowns import Unknowns, as_blocks

SINGULAR = 1e-2  # largest ‖z − A A⁻¹z‖/‖z‖ of an inverse that has solved something
VALUES = 2**24  # entries of the matrices that are inverted together
KeysOf = Callable[[Tensor, Tensor], list[tuple] | None]
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # types for the bits of a float, by its bytes


class Direct:
    """x = A⁻¹g with the inverse of A as a dense matrix, for any square A with few unknowns.

    At the training response A is the same at every update. So its inverse is made when a sample comes for the first
    time, in the precision of the equation's states, and kept in that of the responses, until `limit` bytes are full.
    Nothing is thrown out. Samples that come later are solved by `otherwise`, if there is one, and else inverted anew.

    A sample is recognised by its content, see `fingerprints`. The host reads two numbers a sample at every update, and
    on a GPU it waits for them. What is kept is no part of a checkpoint or of a copy.
    """

    products = 0  # a kept sample needs none
    steps = None

    def __init__(
        self, equation: DiscreteEquation, settings: settings.Direct, tangent_class: OperatorClass | None
    ) -> None:
        self.equation, self.settings = equation, settings
        a, u = equation.states(1)
        self.exact = u.dtype
        self.unknowns = Unknowns(equation.residual(u, a), equation.layout)
        other = settings.otherwise
        self.otherwise = None if other is None else solvers.load(equation, other, tangent_class)
        self.keys_of: KeysOf = fingerprints  # what samples are known by; None if they will not come again
        self._kept: dict[tuple, _Inverse] = {}
        self._bytes = 0
        self._full = False  # whether it was said that there is no more room

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "keys_of": fingerprints, "_kept": {}, "_bytes": 0, "_full": False}

    @torch.no_grad()
    def at(self, u: Tensor, a: Tensor) -> Callable[[Any], Solved]:
        self.unknowns.index = self.unknowns.index.to(u.device)  # the states may be elsewhere than the batches
        keys = self.keys_of(u, a)
        if keys is None:
            return self._unkept(u, a)
        self._keep(keys, u, a)
        found = [self._kept.get(key) for key in keys]
        known, rest = ([i for i, one in enumerate(found) if (one is None) == missing] for missing in (False, True))
        if not known:
            return self._unkept(u, a)
        solve = _by_inverses([one for one in found if one is not None], self.unknowns)
        return solve if not rest else _joined((known, solve), (rest, self._unkept(u[rest], a[rest])))

    def _unkept(self, u: Tensor, a: Tensor) -> Callable[[Any], Solved]:
        if self.otherwise is not None:
            return self.otherwise.at(u, a)
        return _by_inverses(self._inverses(u, a), self.unknowns)

    def _keep(self, keys: list[tuple], u: Tensor, a: Tensor) -> None:
        """Invert what is new, as far as there is room."""
        size = len(self.unknowns) ** 2 * _single(u.dtype).itemsize
        room = max(int(self.settings.limit - self._bytes) // size, 0)
        new = list({key: i for i, key in enumerate(keys) if key not in self._kept}.values())
        if len(new) > room and self.otherwise is None and not self._full:
            self._full = True
            warnings.warn(
                f"the inverses of {len(self._kept) + room} samples fill the {self.settings.limit / 2**30:.3g} GiB that "
                f"they may take; those of other samples are made at every update, which is slow. Give more room, "
                f"stcl.SolvedTarget(solver=stcl.Direct(limit=…)), or `otherwise`, a solver for these samples",
                stacklevel=2,
            )
        new = new[:room]
        if not new:
            return
        for i, inverse in zip(new, self._inverses(u[new], a[new]), strict=True):
            self._kept[keys[i]] = inverse
            self._bytes += size

    def _inverses(self, u: Tensor, a: Tensor) -> "list[_Inverse]":
        """The inverses for a batch. Where A is singular the inverse is zero, and counts as not solved."""
        together = max(VALUES // len(self.unknowns) ** 2, 1)
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(u.device.type, enabled=False):
            parts = zip(u.split(together), a.split(together), strict=True)
            return [inverse for few in parts for inverse in self._few_inverses(*few)]

    def _few_inverses(self, u: Tensor, a: Tensor) -> "list[_Inverse]":
        matrix = matrices(self.equation, self.unknowns, u.to(self.exact, copy=True), a.to(self.exact, copy=True))
        inverse = torch.linalg.inv_ex(matrix)[0].mT
        z = torch.ones_like(matrix[:, :1]).cumsum(-1).sin_()  # any vector will do
        residual = (z @ inverse @ matrix.mT - z).norm(dim=-1) / z.norm(dim=-1)
        solved = residual <= SINGULAR  # false for what is not a number, too
        kept = inverse.masked_fill(~solved[..., None], 0).to(_single(u.dtype))
        residual = residual.masked_fill(~solved, 1).to(u.dtype)
        return [_Inverse(*one) for one in zip(kept, residual, solved, strict=True)]


class _Inverse:
    """The transposed inverse of one A [n, n], the relative residual it left before it was rounded, and if it exists."""

    def __init__(self, transposed: Tensor, residual: Tensor, solved: Tensor) -> None:
        self.transposed, self.residual, self.solved = transposed.clone(), residual, solved


def _by_inverses(inverses: list[_Inverse], unknowns: Unknowns) -> Callable[[Any], Solved]:
    def solve(g: Any) -> Solved:
        right = unknowns.join(g)
        with torch.autocast(right.device.type, enabled=False):
            inverse = torch.stack([one.transposed for one in inverses])
            x = torch.bmm(right.to(inverse.dtype), inverse).to(right.dtype)
        residual, solved = (torch.stack([getattr(one, name) for one in inverses]) for name in ("residual", "solved"))
        pairs = right.shape[:2]
        return Solved(unknowns.embed(x), residual.expand(pairs), solved.expand(pairs))

    return torch.no_grad()(solve)


def _single(dtype: torch.dtype) -> torch.dtype:
    """The type of what is kept: that of the responses, and at least single precision."""
    return torch.promote_types(dtype, torch.float32)


def _joined(*parts: tuple[list[int], Callable[[Any], Solved]]) -> Callable[[Any], Solved]:
    """One solver from those of parts of a batch, each given with its positions."""
    positions = [i for rows, _ in parts for i in rows]
    order = sorted(range(len(positions)), key=positions.__getitem__)

    def solve(g: Any) -> Solved:
        solved = [solver(_rows(g, rows)) for rows, solver in parts]
        return Solved(*(torch.cat(of_part)[order] for of_part in zip(*solved, strict=True)))

    return solve


def _rows(g: Any, rows: list[int]) -> Any:
    return g[rows] if isinstance(g, Tensor) else type(g)(*(block[rows] for block in as_blocks(g)))


def fingerprints(*fields: Tensor) -> list[tuple]:
    """One key for each sample of fields [B, ...]: the device, and two sums of the bits with random weights.

    The sums are exact modulo 2⁶⁴, so a sample has the same key in every batch. The chance that two given samples share
    a key is at most 2⁻⁶⁴.
    """
    bits = torch.cat([_bits(x.detach()).long() for x in fields], 1)
    sums = (bits.unsqueeze(1) * _weights(bits.shape[1], bits.device)).sum(-1)
    return [(fields[0].device, *pair) for pair in sums.tolist()]


def _bits(x: Tensor) -> Tensor:
    """The values of fields [B, ...] as integers with the same bits, [B, count]."""
    return x.contiguous().view(_INTEGERS[x.element_size()]).reshape(len(x), -1)


@lru_cache(maxsize=16)
def _weights(count: int, device: torch.device) -> Tensor:
    """[2, count] integers of 64 random bits."""
    with torch.inference_mode(False):  # the cache outlives the caller's context
        random = torch.randint(-(2**63), 2**63 - 1, (2, count), generator=torch.Generator().manual_seed(0))
        return random.to(device)
