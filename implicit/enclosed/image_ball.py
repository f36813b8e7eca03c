"""A ball of latents that Φ maps all latents into, and in which it contracts: so all are attracted.

Let y = z / w be the latent in units of the last norm's weights w, d its size, and Ψ(y) = ŝ(w y + u(û)) what Φ
gives in these units: ŝ(s) = s / (mean s² + ε)^½, û = z / λ, λ = (mean z² + ε)^½, and u what the block adds to
its residual stream (without one, w y is missing). |ŝ| < √d, so that the images lie in K = {|y| ≤ √d}.

By Proposition 10 of docs/when_modes_agree.md all latents are attracted if |Ψ(y) − c| ≤ ρ at every y in K, and
‖∂Ψ‖ ≤ κ < 1 on the ball B of radius ρ around c. All that the block reads of the latent is û, through the rows
Mᵢ of its input projection times the weights of the norm before it: where |û − û₀| ≤ r, row i is off by at
most ‖Mᵢ‖ r. With U enclosing ∂u/∂û over these intervals,

    over K:  |w y + u(û) − u(0)| ≤ η = √d (max |w| + ‖U‖),   |Ψ(y) − ŝ(u(0))| ≤ η / N,
    on B:    κ = (max |w| + ‖U‖ max |w| / λ) / N,

with the least N and λ of each set. No latent is sampled and no cell is halved: it costs a few evaluations of
the block, whatever d is. It takes a block that reads little of the latent, for what it adds to the stream;
`implicit.penalties.image_ball` trains for that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.mamba2 import rms_norm
from theory.rigorous.balls import Ball, Dual, functions
from theory.rigorous.balls.ball import UNDERFLOW, Array, spectral_norm

ROUNDING = 2.0**-40
"""Relative; far more than a thousand roundings of float64 take away."""


@dataclass(frozen=True, eq=False)
class ImageBalls:
    """Proved bounds at T pairs of a token and a box of states, for latents divided by the weights w.

    The radius ρ is infinite where none was found; ``lipschitz``, κ, bounds the derivative on that ball, and
    where it is below 1 all latents are attracted.
    """

    radius: Array
    lipschitz: Array

    @property
    def attracts(self) -> NDArray[np.bool_]:
        """Where every latent of K is proved to tend to the one fixed point."""
        return np.isfinite(self.radius) & (self.lipschitz < 1)


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def image_balls(
    loop: EnclosedClosedLoop, tokens: NDArray[np.int64], states: Ball, latents: Array, factor: float = 1.0
) -> ImageBalls:
    """Return balls around latents, ``[T, d]``, that hold all images of Φ, and how Φ contracts in them.

    The balls are larger than the smallest that are found by ``factor``, at least 1. States are boxes, ``[T,
    n]``.
    """
    if not factor >= 1:
        raise InputError(f"factor is {factor}; give at least 1: smaller balls need not hold the images")
    return _Bounds(loop, tokens, states, latents).balls(factor)


class _Bounds:
    """The numbers of the module at T pairs: upper bounds, or lower ones where it is said."""

    def __init__(
        self, loop: EnclosedClosedLoop, tokens: NDArray[np.int64], states: Ball, latents: Array
    ) -> None:
        self.loop, self.tokens, self.size = loop, tokens, loop.latent_size
        self.states = states
        weight, self.epsilon = loop.last_norm
        self.widest = weight.magnitude.max() if loop.residual else np.float64(0.0)
        self.scale = weight.magnitude.max()
        self.divides = bool((weight.mignitude > 0).all())
        self.centre = Ball.exact(latents)
        self.target = self.centre / weight
        self.before, self.read_epsilon = loop.norm_before
        self.reading = loop.cell.in_proj * self.before
        self.row_norms = _length(self.reading.magnitude)

    def balls(self, factor: float) -> ImageBalls:
        """See `image_balls`."""
        radius = self._image_radius() * factor
        radius = radius if factor == 1 else _up(radius)
        defined = np.isfinite(radius) & self.divides
        return ImageBalls(np.where(defined, radius, np.inf), self._lipschitz(radius))

    def _image_radius(self) -> Array:
        """ρ."""
        zero = Ball.exact(np.zeros_like(self.centre.midpoint))
        root = _up(np.sqrt(np.float64(self.size)))
        added, slope = self._added(zero), self._slope(zero, np.full(len(self.tokens), root))
        moved = _up(root * (self.widest + slope))
        image = self._normalised(added, self.epsilon)
        return _up(_length((image - self.target).magnitude) + moved / self._least_root(added, moved))

    def _lipschitz(self, radius: Array) -> Array:
        """κ on the ball of a radius."""
        squares = (self.centre * self.centre).sum(1) / Ball.exact(float(self.size)) + self.read_epsilon
        at_centre = _down(1 / functions.rsqrt(squares).upper)  # λ, from below
        far = _up(self.scale * radius)
        least = np.maximum(_down(at_centre - _up(far / _down(np.sqrt(np.float64(self.size))))), 0.0)
        turn = _up(far / least)
        read = self._normalised(self.centre, self.read_epsilon)
        added, slope = self._added(read), self._slope(read, turn)
        stream = self.centre + added if self.loop.residual else added
        moved = _up(_up(self.widest * radius) + _up(slope * turn))
        found = _up(self.widest + slope * (self.scale / least)) / self._least_root(stream, moved)
        return np.where(np.isfinite(found), _up(found), np.inf)

    def _normalised(self, numbers: Ball, epsilon: float) -> Ball:
        """Numbers over the root of their mean square, without weights."""
        return rms_norm(Dual.constant(numbers, 0), Ball.exact(np.ones(self.size)), epsilon).value

    def _projected(self, read: Ball) -> Dual:
        """The input projection of û, without derivatives."""
        return self.loop.projected(Dual.constant(read, 0).scaled(self.before), self.tokens)

    def _added(self, read: Ball) -> Ball:
        """The sum that the block adds to its stream at û = read."""
        return self.loop.block(self._projected(read), Dual.constant(self.states, 0))[0].value

    def _slope(self, read: Ball, radius: Array) -> Array:
        """‖U‖ where |û − read| ≤ radius."""
        value = self._projected(read).value.widened(_up(self.row_norms * radius[:, None]))
        tangent = Ball(
            np.broadcast_to(self.reading.midpoint, (len(radius), *self.reading.shape)),
            np.broadcast_to(self.reading.radius, (len(radius), *self.reading.shape)),
        )
        output, _ = self.loop.block(Dual(value, tangent), Dual.constant(self.states, self.size))
        return spectral_norm(output.tangent)

    def _least_root(self, stream: Ball, moved: Array) -> Array:
        """The least (mean s² + ε)^½ within a distance of a stream, from below."""
        size = _down(np.sqrt(_down(np.square(stream.midpoint).sum(1)))) - _length(stream.radius)
        left = np.maximum(_down(size - moved), 0.0)
        return _down(np.sqrt(_down(left * left / self.size + self.epsilon)))


def _length(sizes: Array) -> Array:
    """Upper bounds of Euclidean norms from bounds of the entries; squares may be too small for a float."""
    return _up(np.sqrt(_up(np.square(sizes).sum(-1)) + UNDERFLOW))


def _up(number: Array) -> Array:
    """More than what was computed in fewer than 2¹⁰ roundings of sums of non-negative terms."""
    return number * (1 + ROUNDING)


def _down(number: Array) -> Array:
    """Less than it."""
    return number - np.abs(number) * ROUNDING
