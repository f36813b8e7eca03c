"""Whether every latent of K is attracted at a state: a norm in which distances fall, and the proof of it.

What is found by sampling (the centre, the norm) is a guess. What is proved of it by `LatentCells` and
`theory.rigorous.attraction` does not depend on how it was found.
"""

from dataclasses import dataclass

import numpy as np

from implicit.enclosed.affine import SLACK
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.latent_cells import LatentCells
from implicit.models.interface import SequenceModel
from theory.rigorous.attraction import Examined, prove_falling
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array

SAMPLES = 3000
ITERATIONS = 400
NORM_STEPS = 150
BOXES = tuple(0.5**k for k in range(3, 40))
"""Half-widths of the boxes of latents in which contraction is tried, the largest first."""
LONGEST_CHAIN = 200


@dataclass(frozen=True, eq=False)
class AllLatents:
    """What is proved of the damped iteration at one state and token, in exact arithmetic.

    Attributes:
        proved: whether it has one fixed point in K, to which it tends from every latent of K.
        ratio: the largest |Φ(y) − c| / |y − c| among samples, in the norm that was found: near 1 the proof is
            long, above 1 there is none in this norm. Not proved.
        inner: within which distance of c the distance need not fall.
        examined: cells, and whether it was proved of them; None where the neighbourhood of c was not proved.

    Example:
        >>> AllLatents(False, 1.3, 0.0, None).proved
        False
    """

    proved: bool
    ratio: float
    inner: float
    examined: Examined | None


@dataclass(frozen=True, eq=False)
class Region:
    """The latents z with |M (z − m)| ≤ R.

    Attributes:
        centre: m, ``[d]``.
        metric: M, ``[d, d]``.
        radius: R.

    Example:
        >>> Region(np.zeros(2), np.eye(2), 0.5).radius
        0.5
    """

    centre: Array
    metric: Array
    radius: float


def falling_norm(
    model: SequenceModel, token: int, state: Array, centre: Array, seed: int = 0
) -> tuple[Array, float]:
    """Look for a norm in which Φ brings all latents of K nearer to a latent, by samples.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        state: one state, as `flatten_state` orders it, ``[n]``.
        centre: c, near the fixed point, ``[d]``.
        seed: of the samples.

    Returns:
        L, upper triangular, for latents divided by the last norm's weights, ``[d, d]``, and the largest
        |Φ(y) − c| / |y − c| among the samples.

    Raises:
        InputError: for another model.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> model = load_run("parity-small").model
        >>> norm, ratio = falling_norm(model, 0, np.zeros(18), np.zeros(8))
        >>> bool((norm == np.triu(norm)).all()), ratio > 1  # 0 is not near a fixed point
        (True, True)
    """
    size = len(centre)
    cells = LatentCells(model, token, Ball.exact(state), centre, np.eye(size), 0.0)
    image = _SelfMap(cells, token, state)
    return _norm(image, centre / image.weight, np.random.default_rng(seed))


def prove_into_region(
    model: SequenceModel,
    token: int,
    states: Ball,
    centre: Array,
    norm: Array,
    region: Region,
    limit: int = 200_000,
) -> Examined:
    """Try to prove that Φ brings all latents of K outside of a region nearer to c, at all states of a box.

    Where the damped iteration maps the region into itself and contracts there, it then has one fixed point
    in K, to which it tends from every latent of K (`theory.rigorous.attraction`).

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        states: a box of states, as `flatten_state` orders them, ``[n]``.
        centre: c, a latent, ``[d]``.
        norm: L, in which distances are measured, of latents divided by the last norm's weights.
        region: the region.
        limit: cells to examine at most.

    Raises:
        InputError: for another model.

    Example:
        A region that holds all of K leaves nothing to prove.

        >>> from implicit.runs.loading import load_run
        >>> model, states = load_run("parity-small").model, Ball.around(np.zeros(18), 0.01)
        >>> all_of_it = Region(np.zeros(8), np.eye(8), 100.0)
        >>> prove_into_region(model, 0, states, np.zeros(8), np.eye(8), all_of_it)
        Examined(proved=True, cells=1, left=0)
    """
    cells = LatentCells(model, token, states, centre, norm, 0.0)
    return prove_falling(cells.with_inner(region.radius, (region.metric, region.centre)), limit)


def prove_all_latents(
    model: SequenceModel, token: int, state: Array, limit: int = 200_000, seed: int = 0
) -> AllLatents:
    """Try to prove that every latent of K tends to one fixed point.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream.
        token: the token.
        state: one state, as `flatten_state` orders it, ``[n]``.
        limit: cells to examine at most.
        seed: of the samples.

    Raises:
        InputError: for another model.

    Example:
        >>> import torch
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> sizes = {"d_model": 2, "head_size": 2, "d_state": 1, "d_conv": 1, "expand": 1}
        >>> model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)).double()
        >>> _ = model.cells[0].in_proj.weight.data.mul_(0.2)  # a block that reads little of the latent
        >>> _ = model.cells[0].out_proj.weight.data.mul_(4.0)  # and adds much to it
        >>> prove_all_latents(model, 1, np.array([0.1, -0.2])).proved
        True
    """
    size = EnclosedClosedLoop(model).latent_size
    loop = LatentCells(model, token, Ball.exact(state), np.zeros(size), np.eye(size), 0.0)
    image = _SelfMap(loop, token, state)
    centre = image.limit(np.zeros((1, size)))[0]
    norm, ratio = _norm(image, centre, np.random.default_rng(seed))
    cells = LatentCells(model, token, Ball.exact(state), centre * image.weight, norm, 0.0)
    inner = _neighbourhood(cells)
    if inner == 0:
        return AllLatents(False, ratio, 0.0, None)
    examined = prove_falling(cells.with_inner(inner), limit)
    return AllLatents(examined.proved, ratio, inner, examined)


class _SelfMap:
    """Φ in units of the last norm's weights, in floating point."""

    def __init__(self, loop: EnclosedClosedLoop, token: int, state: Array) -> None:
        self._loop, self._token, self._state = loop, token, state
        self.size, self.damping, self.weight = loop.latent_size, loop.damping, loop.last_weight

    def __call__(self, y: Array) -> Array:
        latent = Dual.constant(Ball.exact(y * self.weight), 0)
        states = Dual.constant(Ball.exact(np.broadcast_to(self._state, (len(y), len(self._state))).copy()), 0)
        image, _ = self._loop.advance(latent, states, np.full(len(y), self._token))
        return np.asarray(image.value.midpoint / self.weight)

    def limit(self, y: Array) -> Array:
        """Where the damped iteration is after many steps."""
        for _ in range(ITERATIONS):
            y = (1 - self.damping) * y + self.damping * self(y)
        return y


def _norm(image: _SelfMap, centre: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """A norm L with a small largest ratio |Φ(y) − c|_L / |y − c|_L over samples, by descent on LᵀL."""
    d = image.size
    y = rng.standard_normal((SAMPLES, d))
    y *= np.sqrt(d) / np.linalg.norm(y, axis=1, keepdims=True) * rng.random((SAMPLES, 1)) ** (1 / d)
    shrunk = y * 10 ** rng.uniform(-3, 0, (SAMPLES, 1))
    near = centre + rng.standard_normal((SAMPLES, d)) * 10 ** rng.uniform(-3, -0.5, (SAMPLES, 1))
    points = np.concatenate([y, shrunk, near[np.square(near).sum(1) <= d]])
    before, after = points - centre, image(points) - centre
    form, best, least = np.eye(d), np.eye(d), np.inf
    for step in range(NORM_STEPS):
        sizes = np.einsum("ni,ij,nj->n", before, form, before)
        ratios = np.einsum("ni,ij,nj->n", after, form, after) / sizes
        if ratios.max() < least:
            best, least = form, float(ratios.max())
        worst = np.argsort(-ratios)[:30]
        share = (before[worst].T * (ratios[worst] / sizes[worst])) @ before[worst]
        slope = share - (after[worst].T / sizes[worst]) @ after[worst]
        slope *= np.linalg.norm(form) / (np.linalg.norm(slope) + 1e-300)
        values, vectors = np.linalg.eigh(form + 0.1 * 0.98**step * slope)
        form = (vectors * np.maximum(values, 0.05)) @ vectors.T
        form *= d / np.trace(form)
    return np.asarray(np.linalg.cholesky(best).T, dtype=np.float64), float(np.sqrt(least))


def _neighbourhood(cells: LatentCells) -> float:
    """The largest distance that is found from which images are proved to end where the step contracts, or 0.

    Where it contracts itself the chain has no link, and the ball has to be mapped into itself.
    """
    contracting = 0.0
    for box in BOXES:
        q, distance, shift = cells.contraction(box)
        if q < 1 and (q * distance + shift) * (1 + SLACK) <= distance:
            contracting = distance
            break
    if contracting == 0:
        return 0.0
    found = contracting
    for start in (contracting * 2.0**k for k in range(1, 40)):
        if not _arrives(cells, start, contracting):
            break
        found = start
    return found


def _arrives(cells: LatentCells, radius: float, goal: float) -> bool:
    """Whether images of balls around c, one after the other, are proved to end within a smaller one."""
    for _ in range(LONGEST_CHAIN):
        following = cells.image_radius(radius)
        if not following < radius:
            return False
        radius = following
        if radius <= goal:
            return True
    return False
