"""That Φ brings latents nearer to a point, over cells of latents, in FLINT's ball arithmetic.

The claim is that of `theory.rigorous.attraction`: |L (Φ(z) − c)/w| < |L (z − c)/w| at every latent z with
Σ (zᵢ/wᵢ)² ≤ d, w the weights of the last norm, outside of a region, for every state of a box. Nothing here is
shared with what found it: the bounds are mean-value forms with derivatives worked out layer by layer, where
the producer has affine forms. With û = z / λ, λ = (mean z² + ε)^½, all that the block reads is û. Let g(û) be
what the gated norm normalises and V its weights and the projection behind it; then

    γ = (mean g² + ε)^½,   s = γ λ û + V g,   N = (mean s² + ε γ²)^½,   Φ/w = s / N,

and what is shown of a cell of (û, λ) is |a| < |b| N with a = L (s − N c/w) and b = L (λ û − c)/w:

    |a| ≤ |a(m)| + Σ_k sup |∂_k a| r_k ,   |b| ≥ e·b(m) − Σ_k sup |e·∂_k b| r_k ,   e = b(m) / |b(m)| ,

m the middle of the cell and r_k its half-widths; N likewise. Cells cover K and are halved until all are
shown, left out as within the region, or hold no latent of K: |û|² = d (1 − ε/λ²) and λ |û/w| ≤ √d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

from flint import arb, arb_mat

from analysis.certificates.arb.linear import norm_bound
from analysis.certificates.arb.mamba2 import EPSILON, Rows, Vector, apply, times
from analysis.certificates.arb.model import ArbModel, State

MARGIN = 1e-9
"""By how much ends of cells are moved outwards when they are tightened, in floats: far more than rounding."""
SMALLEST = 1e-9
"""Half the width of a cell of which nothing can be shown any more."""
Cell = tuple[list[float], list[float]]
"""Lower and upper ends of û, one after the other, and of λ."""


@dataclass(frozen=True, eq=False)
class Region:
    """The latents z with |M (z − m)| ≤ R, which are left out.

    Attributes:
        centre: m.
        metric: M.
        radius: R.

    Example:
        >>> Region([arb(0)], arb_mat([[1]]), arb(0.5)).radius == 0.5
        True
    """

    centre: Vector
    metric: arb_mat
    radius: arb


class ArbLatentCells:
    """Cells of latents of a model of one layer, at a box of states.

    Args:
        model: from the weights of the run.
        token: what is read.
        state: the box.
        centre: c.
        norm: L.
        region: what is left out.

    Attributes:
        examined: how many cells were looked at.

    Example:
        A region that holds all of K leaves nothing to show.

        >>> import numpy as np
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=2, head_size=4, d_state=1)
        >>> weights = {name: value.numpy() for name, value in ImplicitMamba2(config).state_dict().items()}
        >>> model = ArbModel(weights, config.model_dump())
        >>> whole = Region([arb(0)] * 2, arb_mat([[1, 0], [0, 1]]), arb(9))
        >>> state, unit = model.state([arb(0)] * (6 * 3 + 4)), arb_mat([[1, 0], [0, 1]])
        >>> cells = ArbLatentCells(model, 0, state, [arb(0)] * 2, unit, whole)
        >>> cells.all_fall(limit=10), cells.examined
        (True, 1)
    """

    def __init__(
        self, model: ArbModel, token: int, state: State, centre: Vector, norm: arb_mat, region: Region
    ) -> None:
        (self.layer,) = model.layers
        self.injection = model.injection(token)
        self.size, self.residual, self.weight = model.size, model.residual, model.last_norm
        self.window, self.h = state["conv.0"], state["ssm.0"]
        self.norm, self.region = norm, region
        self.centre = [c / w for c, w in zip(centre, self.weight, strict=True)]
        self.target = apply(norm, self.centre)
        self.through = self.layer.out_proj * _diagonal(self.layer.norm)
        self.scaled = norm * _diagonal([1 / w for w in self.weight])
        self.examined = 0

    def all_fall(self, limit: int) -> bool:
        """Return whether it is shown of all of K, with so many cells at most."""
        bounded = all(float(abs(w).lower()) > 0 for w in self.weight)
        if not (self.residual and self.layer.groups == 1 and bounded):
            return False  # of other models the formulas above are not
        waiting = [self._whole()]
        while waiting and self.examined < limit:
            cell = self._tightened(waiting.pop())
            self.examined += 1
            if cell is None:
                continue
            shown, axis = self._falls(cell)
            if not shown:
                if max(hi - lo for lo, hi in zip(*cell, strict=True)) < 2 * SMALLEST:
                    return False
                waiting += _halves(cell, axis)
        return not waiting

    def _whole(self) -> Cell:
        """One cell with all latents of K."""
        side = sqrt(self.size) + MARGIN
        largest = max(float(abs(w).upper()) for w in self.weight)
        ends = sqrt(1e-5) * (1 - MARGIN), sqrt(largest**2 + 1e-5) * (1 + MARGIN)
        return [*[-side] * self.size, ends[0]], [*[side] * self.size, ends[1]]

    def _tightened(self, cell: Cell) -> Cell | None:
        """The cell without most of what is not in K; None if nothing is left."""
        lower, upper, d = [*cell[0]], [*cell[1]], self.size
        near = [max(lo, -hi, 0.0) ** 2 for lo, hi in zip(lower[:d], upper[:d], strict=True)]
        far = [max(-lo, hi) ** 2 for lo, hi in zip(lower[:d], upper[:d], strict=True)]
        if sum(near) > d + MARGIN:
            return None
        # ε d / λ² = d − |û|²
        lower[d] = max(lower[d], sqrt(d * 1e-5 / (d - min(sum(near), d) + MARGIN)) * (1 - MARGIN))
        if d - sum(far) > 2 * MARGIN:
            upper[d] = min(upper[d], sqrt(d * 1e-5 / (d - sum(far) - MARGIN)) * (1 + MARGIN))
        widest = [float(abs(w).upper()) for w in self.weight]
        least = sqrt(sum(n / w**2 for n, w in zip(near, widest, strict=True)))  # of |û/w|
        if least > 0:
            upper[d] = min(upper[d], sqrt(d) / least * (1 + MARGIN))
        if lower[d] > upper[d]:
            return None
        shell = d * (1 - 1e-5 / lower[d] ** 2) - MARGIN
        for k in range(d):
            side = sqrt(max(d - sum(near) + near[k], 0.0)) + MARGIN
            hole = sqrt(max(shell - sum(far) + far[k], 0.0)) - MARGIN
            lo, hi = max(lower[k], -side), min(upper[k], side)
            if lo > -hole:
                lo = max(lo, hole)
            if hi < hole:
                hi = min(hi, -hole)
            if lo > hi:
                return None
            lower[k], upper[k] = lo, hi
        return lower, upper

    def _falls(self, cell: Cell) -> tuple[bool, int]:
        """Whether it is shown of a cell, and else the axis to halve it along."""
        middle = [(lo + hi) / 2 for lo, hi in zip(*cell, strict=True)]
        half = [max(hi - m, m - lo) * (1 + MARGIN) for lo, hi, m in zip(*cell, middle, strict=True)]
        point, radii = [arb(m) for m in middle], [arb(r) for r in half]
        u0, l0 = point[:-1], point[-1]
        if self._within_region(u0, l0, radii):
            return True, 0
        u = [m + arb(0, r) for m, r in zip(u0, half, strict=False)]
        length = l0 + arb(0, half[-1])
        g, dg = self._gated(u, derive=True)
        g0, _ = self._gated(u0, derive=False)
        g = [m + _spread(row, radii) for m, row in zip(g0, dg, strict=True)]
        s0, gamma0 = self._stream(u0, l0, g0)
        N0 = _mean_root(s0, EPSILON * gamma0 * gamma0)
        # derivatives over the cell, along û and then λ
        gamma = _mean_root(g, EPSILON)
        slopes = times(arb_mat(1, len(g), g), dg)[0]
        dgamma = [entry / (len(g) * gamma) for entry in slopes]
        Vdg = times(self.through, dg)
        ds = [
            [
                *(
                    entry + length * u[i] * rate + (gamma * length if i == k else 0)
                    for k, (entry, rate) in enumerate(zip(row, dgamma, strict=True))
                ),
                gamma * u[i],
            ]
            for i, row in enumerate(Vdg)
        ]
        s = [m + _spread(row, radii) for m, row in zip(s0, ds, strict=True)]
        N = _mean_root(s, EPSILON * gamma * gamma)
        across = times(arb_mat(1, self.size, s), ds)[0]
        inner = [*(EPSILON * gamma * rate for rate in dgamma), arb(0)]
        dN = [(entry / self.size + more) / N for entry, more in zip(across, inner, strict=True)]
        a0 = [x - N0 * c for x, c in zip(apply(self.norm, s0), self.target, strict=True)]
        Lds = times(self.norm, ds)
        da = [
            norm_bound([row[k] - dN[k] * c for row, c in zip(Lds, self.target, strict=True)]) * r
            for k, r in enumerate(radii)
        ]
        b0 = [x - c for x, c in zip(apply(self.scaled, [l0 * e for e in u0]), self.target, strict=True)]
        size = norm_bound(b0)
        e = [(x / size).mid() * (1 - MARGIN) for x in b0]
        along = times(arb_mat(1, self.size, e), self.scaled.tolist())[0]
        db = [abs(entry * length) * r for entry, r in zip(along, radii, strict=False)]
        db.append(abs(sum((x * y for x, y in zip(along, u, strict=True)), arb(0))) * radii[-1])
        near = sum((x * y for x, y in zip(e, b0, strict=True)), arb(0)) - sum(db, arb(0))
        dNr = [abs(entry) * r for entry, r in zip(dN, radii, strict=True)]
        least = N0 - sum(dNr, arb(0))
        far = norm_bound(a0) + sum(da, arb(0))
        if norm_bound(e) <= 1 and near > 0 and least > 0 and far < near * least:
            return True, 0
        added = [x + N0 * y + size * z for x, y, z in zip(da, db, dNr, strict=True)]
        shares = [float(entry.upper()) if entry.is_finite() else inf for entry in added]
        if not all(share < inf for share in shares):
            shares = half
        return False, max(range(len(shares)), key=shares.__getitem__)

    def _within_region(self, u: Vector, length: arb, radii: Vector) -> bool:
        """Whether all latents of a cell around λ û are left out."""
        *sides, deep = radii
        reach = [
            (abs(length) + deep) * side + abs(entry) * deep for entry, side in zip(u, sides, strict=True)
        ]
        away = [
            length * entry - m + arb(0, r.upper())
            for entry, m, r in zip(u, self.region.centre, reach, strict=True)
        ]
        return bool(norm_bound(apply(self.region.metric, away)) <= self.region.radius)

    def _gated(self, u: Vector, *, derive: bool) -> tuple[Vector, Rows]:
        """What the gated norm normalises, and its derivatives along û."""
        before = self.layer.norm_before
        inputs = [w * entry for w, entry in zip(before, u, strict=True)]
        slopes = [[w if i == k else arb(0) for k in range(self.size)] for i, w in enumerate(before)]
        found = self.layer.read(inputs, slopes if derive else [[]] * self.size, self.injection, self.window)
        return self.layer.gated(found, self.h)

    def _stream(self, u: Vector, length: arb, g: Vector) -> tuple[Vector, arb]:
        """S and γ at a point."""
        gamma = _mean_root(g, EPSILON)
        added = apply(self.through, g)
        return [gamma * length * entry + more for entry, more in zip(u, added, strict=True)], gamma


def _halves(cell: Cell, axis: int) -> list[Cell]:
    """Both halves along an axis."""
    lower, upper = cell
    middle = (lower[axis] + upper[axis]) / 2
    first, second = [*upper], [*lower]
    first[axis] = second[axis] = middle
    return [(lower, first), (second, upper)]


def _spread(row: Sequence[arb], radii: Sequence[arb]) -> arb:
    """The ball around zero that Σ slope · radius reaches."""
    return arb(0, sum((abs(d) * r for d, r in zip(row, radii, strict=False)), arb(0)).upper())


def _mean_root(entries: Vector, more: arb) -> arb:
    """The square root of the mean of squares and more."""
    squares = sum((entry**2 for entry in entries), arb(0)) / len(entries)
    return (squares + more).sqrt()


def _diagonal(entries: Vector) -> arb_mat:
    size = len(entries)
    return arb_mat(size, size, [entries[i] if i == j else arb(0) for i in range(size) for j in range(size)])
