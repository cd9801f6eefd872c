"""Tridiagonal systems on the device, many at once, in few operations. This module imports torch."""

import torch
from torch import Tensor
from torch.nn.functional import pad

DENSE = 20  # largest number of unknowns that are solved by a dense inverse


class CyclicReduction:
    """The factorised systems  lowerᵢ xᵢ₋₁ + centreᵢ xᵢ + upperᵢ xᵢ₊₁ = rᵢ  for bands [..., m].

    Every other unknown is eliminated, again and again, until few are left. They are solved by a dense inverse. `solve`
    takes the systems of one index of the first axis, so that time steps with matrices that are all known are factorised
    together and solved one after the other.
    """

    def __init__(self, lower: Tensor, centre: Tensor, upper: Tensor) -> None:
        self.levels: list[tuple[Tensor, ...]] = []
        while centre.shape[-1] > DENSE:
            if centre.shape[-1] % 2 == 0:  # an equation x = 0 at the end, so that every odd unknown has two neighbours
                lower, centre, upper = pad(lower, (0, 1)), pad(centre, (0, 1), value=1.0), pad(upper, (0, 1))
            inverse = centre[..., ::2].reciprocal()
            left, right = lower[..., 1::2] * inverse[..., :-1], upper[..., 1::2] * inverse[..., 1:]
            before, after = lower[..., ::2], upper[..., ::2]
            self.levels.append((left, right, before[..., 1:], after[..., :-1], inverse))
            centre = centre[..., 1::2] - left * after[..., :-1] - right * before[..., 1:]
            lower, upper = -left * before[..., :-1], -right * after[..., 1:]
        matrix = torch.diag_embed(centre)
        matrix += torch.diag_embed(lower[..., 1:], -1) + torch.diag_embed(upper[..., :-1], 1)
        self.inverse = torch.linalg.inv_ex(matrix)[0].mT

    def solve(self, n: int, r: Tensor) -> Tensor:
        """x for right-hand sides r [B, q, m] of the systems [n, B, m]."""
        known, unknowns = [], r.shape[-1]
        for left, right, *_, inverse in self.levels:
            r = pad(r, (0, 2 * inverse.shape[-1] - 1 - r.shape[-1]))
            even = r[..., ::2]
            known.append(even)
            r = torch.addcmul(r[..., 1::2], left[n].unsqueeze(1), even[..., :-1], value=-1)
            r.addcmul_(right[n].unsqueeze(1), even[..., 1:], value=-1)
        x = torch.bmm(r, self.inverse[n])
        for (*_, before, after, inverse), even in zip(reversed(self.levels), reversed(known), strict=True):
            x, even = x[..., : inverse.shape[-1] - 1], even.clone()
            even[..., 1:].addcmul_(before[n].unsqueeze(1), x, value=-1)
            even[..., :-1].addcmul_(after[n].unsqueeze(1), x, value=-1)
            whole = even.new_empty(*even.shape[:-1], 2 * even.shape[-1] - 1)
            whole[..., ::2], whole[..., 1::2] = even.mul_(inverse[n].unsqueeze(1)), x
            x = whole
        return x[..., :unknowns]
