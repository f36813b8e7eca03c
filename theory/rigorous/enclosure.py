"""Theorem 1 in rigorous arithmetic: what is computed here about (Φ, G) is proved, not measured.

At T positions at once, each with a token, a box S of states (a point is a box of radius zero), a latent z̃ and
a radius r. Let Z = {z : ‖z − z̃‖_∞ ≤ r}, let A enclose ∂zΦ over Z × S, P ≈ (I − A)⁻¹ be any float matrix, and

    κ ≥ ‖I − P (I − A)‖_∞ ,      e = ‖P (Φ(z̃; S) − z̃)‖_∞ / (1 − κ) .

**A1.** If κ < 1 and e ≤ r, then for every s ∈ S there is exactly one fixed point of Φ(·; s) in Z, and it lies
within e of z̃: z ↦ z + P (Φ(z; s) − z) has a Lipschitz constant of at most κ on Z and maps the ball of radius
e around z̃ into itself; P is invertible, since ‖I − P (I − A)‖ < 1 (Newton-Kantorovich; Rump 2010, Acta
Numerica 19, section 13).

**A2.** For every z ∈ Z, s ∈ S: I − ∂zΦ = P⁻¹ (I − E) with ‖E‖₂ ≤ √(‖E‖₁ ‖E‖_∞), hence its smallest singular
value is at least (1 − ‖E‖₂) / ‖P‖₂.

**A3.** Let 𝓜 be the interval of matrices that encloses (1 − τ) I + τ ∂zΦ over Z × S. Let every product of
k of them have ‖·‖_∞ ≤ q < 1, and every product of fewer ‖·‖_∞ ≤ g (with g ≥ 1, for the empty one). From every
start with g ‖z₀ − z*‖_∞ ≤ r − e the damped iteration stays in Z and converges to z*: as the mean of ∂zΦ along
a segment in Z is enclosed as well, z_n − z* is a product of n members times z₀ − z*, so that by induction
‖z_n − z*‖_∞ ≤ g q^⌊n/k⌋ ‖z₀ − z*‖_∞ ≤ r − e. And the spectral radius of the step at z* is at most q^{1/k}.
`theory.rigorous.orbits` (A6) shows whether the iteration from zero comes so near.

**A4.** J_ij = ∂G_i/∂h_j + ∂zG_i x with x = (I − ∂zΦ)⁻¹ b = (I − E)⁻¹ P b, where b = ∂Φ/∂h_j and ‖E‖_∞ ≤ κ,
so that x differs from P b + E P b by at most κ² / (1 − κ) ‖P b‖_∞ in each component.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from theory.rigorous.balls.ball import (
    UNIT_ROUNDOFF,
    Array,
    Ball,
    approximate_inverse,
    round_up,
    row_sum_norm,
    spectral_norm,
)
from theory.rigorous.balls.dual import Dual

MAX_SQUARINGS = 10
"""Contraction is looked for in the powers 1, 2, 4, … 2¹⁰ of the damped step."""
GOOD_FACTOR = 0.5
"""The norm of a power at which no higher power is tried."""

Entries = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows i and columns j of one entry of ∂h'/∂h at each position, ``[T]`` each."""


class EnclosedUpdate(Protocol):
    """One layer's h' = decay ⊙ h + drive, enclosed, such as `implicit.enclosed.mamba2.Mamba2Update`."""

    @property
    def coefficients(self) -> Dual:
        """All that decay and drive are computed from, ``[T, c]``.

        Where none of it depends on h, the update is affine in h with a diagonal matrix.
        """

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        """Return decay and drive of one entry of h at each position, ``[T, 1]`` each."""


class EnclosedTransitions(Protocol):
    """(Φ, G) of the tokens at T positions, evaluated on balls; the package of the models supplies it.

    That of a Mamba-2 model is `implicit.enclosed.mamba2.EnclosedMamba2`.
    """

    @property
    def latent_size(self) -> int:
        """The number d of entries of z; 0 for an explicit model."""

    @property
    def damping(self) -> float:
        """τ of the iteration."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The name of the state h of each layer."""

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[EnclosedUpdate]]:
        """Return Φ and the updates of all layers.

        Args:
            latent: ``[T, d]``, with d + (number of layers) directions, or none.
            state: each entry ``[T, …]``.
            directions: for each block the derivative of h in the direction of its layer, direction d + layer;
                shaped like h. Empty if no derivative is asked for.
        """


@dataclass(frozen=True, eq=False)
class Enclosures:
    """Proved bounds at T positions; the module says what each number bounds. NaN or infinite: nothing."""

    radius: Array  # r
    newton_factor: Array  # κ
    error: Array  # e
    singular_value: Array  # the lower bound of A2
    power: NDArray[np.int64]  # k of A3; 0 where no power was found to contract
    power_norm: Array  # q of A3
    growth: Array  # g of A3
    entries: tuple[Ball, ...]  # per layer the enclosures of J_ij, [T]

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Where A1 and A2 are proved."""
        return (self.newton_factor < 1) & (self.error <= self.radius) & (self.singular_value > 0)

    @property
    def contracts(self) -> NDArray[np.bool_]:
        """Where A3 is proved too."""
        return self.exists & (self.power > 0) & (self.power_norm < 1)


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def enclose(
    transitions: EnclosedTransitions,
    state: Mapping[str, Ball],
    latent: Array,
    radius: Array,
    entries: Sequence[Entries],
) -> Enclosures:
    """Prove A1 to A4 around a latent, for all states in a box.

    The box of states holds every entry as ``[T, …]``; z̃ is ``[T, d]``, r ``[T]``. ``entries`` are per layer
    the entry of ∂h'/∂h that is enclosed at each position.

    Example:
        Φ(z; h) = z/2 + h/4 at h = 1 has the fixed point 1/2, and h' = h/2 + z gives J = 1/2 + 1/2.

        >>> @dataclass
        ... class Update:
        ...     coefficients: Dual
        ...
        ...     def entries(self, rows):
        ...         return Dual.constant(Ball.exact([[0.5]]), self.coefficients.columns), self.coefficients
        >>> class Affine:
        ...     latent_size, damping, blocks = 1, 1.0, ("h",)
        ...
        ...     def advance(self, latent, state, directions):
        ...         h = Dual.constant(state["h"], latent.columns)
        ...         if directions:
        ...             h = Dual(h.value, Ball.exact([[[0.0, 1.0]]]) * directions["h"][..., None])
        ...         return latent.scaled(Ball.exact(0.5)) + h.scaled(Ball.exact(0.25)), [Update(latent)]
        >>> first = (np.array([0]), np.array([0]))
        >>> bounds = enclose(
        ...     Affine(), {"h": Ball.exact([[1.0]])}, np.array([[0.5]]), np.array([0.1]), [first]
        ... )
        >>> bounds.exists, bounds.error < 1e-15, bounds.contracts, bounds.entries[0].contains(1.0)
        (array([ True]), array([ True]), array([ True]), True)
    """
    size, layers = transitions.latent_size, len(transitions.blocks)
    columns = size + layers
    directions = {
        name: Ball.exact(unit_vectors(state[name].shape, sources))
        for name, (_, sources) in zip(transitions.blocks, entries, strict=True)
    }
    region = Ball.around(latent, np.broadcast_to(radius[:, None], latent.shape))
    image, updates = transitions.advance(Dual.variable(region, columns), state, directions)
    slope, source = image.tangent[..., :size], image.tangent[..., size:]

    identity = Ball.exact(np.eye(size))
    inverse = Ball.exact(approximate_inverse(np.eye(size) - slope.midpoint))
    defect = identity - inverse @ (identity - slope)
    kappa = row_sum_norm(defect)
    slack = (Ball.exact(1.0) - Ball.exact(kappa)).mignitude
    residual = _residual(transitions, state, latent)
    step = row_sum_norm(inverse @ residual[..., None])
    error = np.where(kappa < 1, round_up(step / slack), np.inf)
    defect_norm = round_up(np.sqrt(round_up(kappa * row_sum_norm(defect.transpose()))))
    remaining = (Ball.exact(1.0) - Ball.exact(defect_norm)).mignitude
    singular_value = np.where(
        defect_norm < 1, remaining / spectral_norm(inverse) * (1 - 8 * UNIT_ROUNDOFF), 0.0
    )
    power, power_norm, growth = _contraction(slope, transitions.damping)
    solved = inverse @ source
    beyond = round_up((kappa * kappa / slack)[:, None] * solved.magnitude.max(axis=1))  # [T, layers]
    first_order = solved + defect @ solved
    response = first_order.widened(np.where(kappa[:, None] < 1, beyond, np.inf)[:, None, :])
    found = tuple(
        _entry(update, state[name], layer, size, places, response[..., layer])
        for layer, (name, update, places) in enumerate(zip(transitions.blocks, updates, entries, strict=True))
    )
    return Enclosures(radius, kappa, error, singular_value, power, power_norm, growth, found)


@np.errstate(all="ignore")
def approximate_slopes(
    transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array
) -> tuple[Array, Array]:
    """Return Φ(z) − z and ∂zΦ in floating point, ``[T, d]`` and ``[T, d, d]``: where a proof starts."""
    image, _ = transitions.advance(Dual.variable(Ball.exact(latent), latent.shape[1]), state, {})
    return image.value.midpoint - latent, image.tangent.midpoint


def refine(
    transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array, max_steps: int = 10
) -> Array:
    """Take Newton steps towards the fixed points, each only where it lowers the residual: no proof."""
    residual, slopes = approximate_slopes(transitions, state, latent)
    for _ in range(max_steps):
        change = approximate_inverse(np.eye(latent.shape[1]) - slopes) @ residual[..., None]
        candidate = latent + change[..., 0]
        new_residual, new_slopes = approximate_slopes(transitions, state, candidate)
        better = np.abs(new_residual).max(1) < np.abs(residual).max(1)
        latent = np.where(better[:, None], candidate, latent)
        residual = np.where(better[:, None], new_residual, residual)
        slopes = np.where(better[:, None, None], new_slopes, slopes)
        level = 64 * UNIT_ROUNDOFF * (1 + np.abs(latent).max(1))
        if not (better & (np.abs(residual).max(1) > level)).any():
            break
    return latent


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def newton_step_bound(transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array) -> Array:
    """Return ‖P (Φ(z̃; S) − z̃)‖_∞ at each position: about how far the fixed points of a box of states lie.

    Example:
        The fixed points of z/2 + h/4 for h within 0.2 of 1 are within 0.1 of 1/2.

        >>> class Affine:
        ...     latent_size, damping, blocks = 1, 1.0, ()
        ...
        ...     def advance(self, latent, state, directions):
        ...         return latent.scaled(Ball.exact(0.5)).shifted(state["h"] * 0.25), []
        >>> box = {"h": Ball.around([[1.0]], 0.2)}
        >>> newton_step_bound(Affine(), box, np.array([[0.5]])).round(6)
        array([0.1])
    """
    centre = {name: Ball.exact(entry.midpoint) for name, entry in state.items()}
    _, slopes = approximate_slopes(transitions, centre, latent)
    inverse = Ball.exact(approximate_inverse(np.eye(latent.shape[1]) - slopes))
    return row_sum_norm(inverse @ _residual(transitions, state, latent)[..., None])


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def independent_of_state(
    transitions: EnclosedTransitions, state: Mapping[str, Ball]
) -> tuple[NDArray[np.bool_], ...]:
    """Prove, per layer, that h' = decay ⊙ h + drive with a decay and a drive that do not depend on h.

    Then ∂h'/∂h is diag(decay) for every h in the box: every off-diagonal entry is exactly zero, and each
    entry is the same at all of them. The derivative of every coefficient is enclosed for all directions of h
    at once (each entry of the direction is the ball [−1, 1]); only an enclosure that is exactly zero counts.
    The result says per layer whether it is proved, ``[T]``. InputError for a model with a latent: what its
    coefficients read depends on h through z*.
    """
    if transitions.latent_size:
        raise InputError(
            f"latent_size is {transitions.latent_size}; give an explicit model, for a latent depends on h"
        )
    layers = len(transitions.blocks)
    positions = len(next(iter(state.values())).midpoint)
    everywhere = {name: Ball.around(np.zeros(state[name].shape), 1.0) for name in transitions.blocks}
    latent = Dual.constant(Ball.exact(np.zeros((positions, 0))), layers)
    _, updates = transitions.advance(latent, state, everywhere)
    proved: list[NDArray[np.bool_]] = []
    for layer, update in enumerate(updates):
        value = update.coefficients.value
        found = np.isfinite(value.midpoint) & np.isfinite(value.radius)
        proved.append(np.all(found & update.coefficients.tangent[..., layer].is_zero, axis=1))
    return tuple(proved)


def _residual(transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array) -> Ball:
    """Φ(z̃; S) − z̃."""
    centre = Ball.exact(latent)
    return transitions.advance(Dual.constant(centre, 0), state, {})[0].value - centre


def damped_step(slope: Ball, damping: float) -> Ball:
    """Return (1 − τ) I + τ ∂zΦ, the derivative of a damped step."""
    keep = Ball.exact(1.0) - Ball.exact(damping)
    return keep * Ball.exact(np.eye(slope.shape[-1])) + slope * Ball.exact(damping)


def _contraction(slope: Ball, damping: float) -> tuple[NDArray[np.int64], Array, Array]:
    """The power k, the norm q and the growth g of A3 at each position, by repeated squaring.

    A product of fewer than 2^j members is one of products of 2^i members, each i < j at most once.
    """
    product = damped_step(slope, damping)
    positions = len(slope.midpoint)
    power: NDArray[np.int64] = np.zeros(positions, dtype=np.int64)
    norm: Array = np.full(positions, np.inf)
    growth: Array = np.full(positions, np.inf)
    so_far: Array = np.ones(positions)
    for squaring in range(MAX_SQUARINGS + 1):
        here = row_sum_norm(product)
        better = ~(norm <= GOOD_FACTOR) & (here < 1)
        power, norm = np.where(better, 2**squaring, power), np.where(better, here, norm)
        growth = np.where(better, so_far, growth)
        if (norm <= GOOD_FACTOR).all():
            break
        so_far = round_up(so_far * np.maximum(here, 1.0))
        product = product @ product
    return power, norm, growth


def _entry(
    update: EnclosedUpdate, state: Ball, layer: int, size: int, places: Entries, response: Ball
) -> Ball:
    """J_ij at each position: the direct part, and the part that goes through the fixed point."""
    rows, sources = places
    decay, drive = update.entries(rows)
    flat = state.reshape(len(rows), -1)
    h = flat[np.arange(len(rows)), rows][:, None]
    slopes = (drive + decay.scaled(h)).tangent[:, 0]  # of G_i at fixed h_i, [T, d + layers]
    through = (slopes[:, None, :size] @ response[..., None])[:, 0, 0]
    own = decay.value[:, 0] * Ball.exact((rows == sources).astype(np.float64))
    return through + slopes[:, size + layer] + own


def unit_vectors(shape: tuple[int, ...], sources: NDArray[np.int64]) -> Array:
    """Return the direction of one entry of h at each position."""
    flat = np.zeros((shape[0], int(np.prod(shape[1:]))))
    flat[np.arange(len(sources)), sources] = 1.0
    return flat.reshape(shape)
