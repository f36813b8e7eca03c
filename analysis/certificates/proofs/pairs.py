"""From visited pairs to proved claims: where the balls are put, how large, and what is tried when one fails.

Choosing is floating point and heuristic; every claim is then proved by `theory.rigorous.enclosure`, over a
region that is larger than the one claimed by `MARGIN`. That leaves a checker with another formulation, whose
enclosures over wide balls may be a little wider and still confirm it. Of the explicit control it is proved
that its transition is diagonal, and the same at every h.

Positions are visited pairs with their approximate fixed points; a companion puts another h beside the window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.certificates.certificate import Interval
from analysis.certificates.claims.theorem1 import (
    Claimed,
    Contraction,
    ControlPair,
    Orbit,
    Point,
    least_state_radius,
)
from analysis.framework.visited_states import TIGHT_RTOL, VisitedState, in_double_precision
from implicit.enclosed.any_cell import compare_with_floats
from implicit.enclosed.forms import Form, block_parts, boxes, form_of, widest
from implicit.enclosed.mamba2 import EnclosedMamba2
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.models.stack import CellStack
from implicit.modes import Solve
from theory.jacobian.coupling_entries import coupling_entries
from theory.rigorous.balls.ball import Array, Ball
from theory.rigorous.balls.dual import Dual
from theory.rigorous.enclosure import (
    Enclosures,
    Entries,
    approximate_slopes,
    enclose,
    independent_of_state,
    newton_step_bound,
    refine,
)
from theory.rigorous.orbits import orbits_into_basin
from theory.rigorous.tensors import EnclosedTransitionBatch

CHUNK = 2**22
"""The most float64 entries of one array of derivatives."""
MAX_COMPANIONS = 3
"""How many other values of h are tried until one has a fixed point beside the window that is kept."""


@dataclass(frozen=True, eq=False)
class Sites:
    """Positions at which something is to be proved.

    Attributes:
        tokens: ``[T]``.
        state: the states, each entry ``[T, …]``.
        latents: approximate fixed points, ``[T, d]``.
    """

    model: SequenceModel
    tokens: NDArray[np.int64]
    state: Mapping[str, Array]
    latents: Array
    places: Sequence[Entries]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> "Sites":
        return Sites(
            self.model,
            self.tokens[chosen],
            {name: entry[chosen] for name, entry in self.state.items()},
            self.latents[chosen],
            [(rows[chosen], columns[chosen]) for rows, columns in self.places],
        )

    def transitions(self) -> Form:
        """Return (Φ, G) at these positions."""
        return form_of(self.model, torch.from_numpy(self.tokens))

    def boxes(self, radius: Array) -> dict[str, Ball]:
        """Return the states with h widened by a radius at each position."""
        return boxes(self.transitions(), block_parts(self.model), self.state, radius)

    def chunks(self) -> list[slice]:
        """Return slices that keep derivatives within `CHUNK` entries."""
        numbers = widest(self.model, self.transitions())
        count = max(1, CHUNK // (numbers * (self.latents.shape[1] + len(self.places))))
        return [slice(start, start + count) for start in range(0, len(self), count)]


@dataclass(frozen=True, eq=False)
class Companions:
    """For each position another visited h, put beside the window of this one.

    Attributes:
        pairs: the number of the position that h is taken from, ``[T]``.
        differ: whether it is another h, ``[T]``; where there is none, a position is its own companion.
    """

    pairs: NDArray[np.int64]
    differ: NDArray[np.bool_]
    sites: Sites


def visited_sites(model: FixedPointModel, visited: Sequence[VisitedState]) -> Sites:
    """Return the visited pairs with their fixed points and a large coupling entry of each."""
    names = visited[0].state
    tokens = np.array([pair.token for pair in visited])
    state = {name: np.stack([pair.state[name].numpy() for pair in visited]) for name in names}
    latents = _fixed_points(model, tokens, state)
    _, slopes = approximate_slopes(*_points(model, tokens, state), latents)
    places = coupling_entries(
        in_double_precision(model).transitions(torch.from_numpy(tokens)),
        _tensors(state),
        torch.from_numpy(latents),
        torch.from_numpy(slopes),
    )
    return Sites(model, tokens, state, latents, [(row.numpy(), column.numpy()) for row, column in places])


def companions(sites: Sites, attempt: int) -> Companions:
    """Return companions: the farthest h of the same token, and in later attempts nearer ones."""
    blocks = block_parts(sites.model)
    vectors = np.concatenate(
        [entry.reshape(len(sites), -1) for name, entry in sites.state.items() if name in blocks], axis=1
    )
    pairs = np.arange(len(sites))
    for position, token in enumerate(sites.tokens):
        others = np.flatnonzero(
            (sites.tokens == token) & (vectors != vectors[position]).any(1)
        )  # two visited states may have the same h
        if len(others):
            distances = np.square(vectors[others] - vectors[position]).sum(1)
            order = others[np.argsort(-distances)]
            pairs[position] = order[(len(order) - 1) * (2**attempt - 1) // 2**attempt]
    state = {name: entry[pairs] if name in blocks else entry for name, entry in sites.state.items()}
    columns = [column for _, column in sites.places]
    latents = _fixed_points(sites.model, sites.tokens, state, columns)
    differ = pairs != np.arange(len(sites))
    return Companions(pairs, differ, Sites(sites.model, sites.tokens, state, latents, sites.places))


@torch.no_grad()
def _fixed_points(
    model: SequenceModel,
    tokens: NDArray[np.int64],
    state: dict[str, Array],
    columns: Sequence[NDArray[np.int64]] = (),
) -> Array:
    """Fixed points by iteration in float64 and Newton steps; the last iterate where there is none."""
    precise = in_double_precision(model).implicit
    assert precise is not None
    stopping = Stopping(rtol=TIGHT_RTOL, max_iterations=precise.stopping.max_iterations)
    where = torch.from_numpy(tokens)
    solve = Solve("sequential", stopping=stopping)
    solution = precise.fixed_points(where[:, None], _tensors(state), solve)
    latents = np.nan_to_num(solution.latents[:, 0].numpy(), posinf=0.0, neginf=0.0)
    form, points = _points(model, tokens, state)
    latents = refine(form, points, latents)
    if isinstance(form, EnclosedTransitionBatch) and isinstance(model, CellStack):
        compare_with_floats(model, form, where, state, latents, columns)
    return latents


def _points(
    model: SequenceModel, tokens: NDArray[np.int64], state: dict[str, Array]
) -> tuple[Form, dict[str, Ball]]:
    """(Φ, G) and the states as balls of radius zero."""
    form = form_of(model, torch.from_numpy(tokens))
    return form, boxes(form, block_parts(model), state, np.zeros(len(tokens)))


def _tensors(state: dict[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(entry) for name, entry in state.items()}


MARGIN = 1.5
LEEWAY = 2.0**-12
"""How much weaker than proved, relatively, singular values and norms of powers are claimed to be."""
POINT_RADII = (2.0**-28, 2.0**-36)
"""Radii tried at a point, before the least that the residual allows: wide enough that the iteration from zero
comes into the ball soon, small enough for sharp enclosures of J."""
RANGE_EXPONENTS = (2, 48)
"""Boxes of states have radii 2⁻², 2⁻³, …, 2⁻⁴⁸, found by bisection."""


def prove_points(sites: Sites) -> list[Point | None]:
    """Prove what can be proved at single states: with the largest radius that proves it all, or some of it.

    Returns:
        One claim per position, None where there is none.
    """
    claims: list[Point | None] = [None] * len(sites)
    for radius in (*POINT_RADII, None):
        missing = np.array(
            [i for i, claim in enumerate(claims) if not (claim and claim.attracts and _is_complete(claim))],
            dtype=np.int64,
        )
        if not len(missing):
            break
        here, point = sites[missing], np.zeros(len(missing))
        radii = _latent_radii(here, point) if radius is None else np.full(len(missing), radius)
        for index, claim in zip(missing, prove_orbits(here, prove(here, radii, point)), strict=True):
            before = claims[index]
            if claim is not None and not (before is not None and before.attracts and not claim.attracts):
                claims[index] = claim
    return claims


def prove_orbits(sites: Sites, claims: list[Claimed | None]) -> list[Point | None]:
    """Prove of claims at single states that the iteration from zero ends where they say that it converges.

    Returns:
        The claims with an orbit, None in its place where none is proved.
    """
    points = [None if claim is None else Point(**dict(claim), orbit=None) for claim in claims]
    contracting = [
        (index, claim, claim.contraction.growth)
        for index, claim in enumerate(claims)
        if claim is not None and claim.contraction is not None
    ]
    if not contracting:
        return points
    radius, error, growth = np.array(
        [(claim.radius, claim.error, grown) for _, claim, grown in contracting]
    ).T
    arriving = sites[np.array([index for index, _, _ in contracting], dtype=np.int64)]
    for part in arriving.chunks():
        here = arriving[part]
        boxes = here.boxes(np.zeros(len(here)))
        bounds = radius[part], error[part], growth[part]
        found = orbits_into_basin(here.transitions(), boxes, here.latents, *bounds)
        for place in map(int, np.flatnonzero(found.arrive)):
            index, claim, _ = contracting[part.start + place]
            orbit = Orbit(iterations=int(found.iterations[place]), distance=float(found.distance[place]))
            points[index] = Point(**dict(claim), orbit=orbit)
    return points


def prove_ranges(sites: Sites) -> tuple[list[Claimed | None], Array]:
    """Prove the same over boxes of states that are as large as bisection finds.

    A box counts if the fixed point exists, is unique and attracting, and no entry's interval holds zero. In a
    box the ball of latents is as small as the box allows, so that derivatives are enclosed sharply.

    Returns:
        One claim per position, None where there is none, and the radii of the boxes.
    """
    smallest = np.full(len(sites), RANGE_EXPONENTS[0] - 1)  # too large a box, by assumption
    largest = np.full(len(sites), RANGE_EXPONENTS[1] + 1)
    claims: list[Claimed | None] = [None] * len(sites)
    while (largest - smallest > 1).any():
        exponents = (smallest + largest) // 2
        open_ones = np.flatnonzero(largest - smallest > 1)
        radii = 2.0 ** -exponents[open_ones].astype(np.float64)
        here = sites[open_ones]
        for index, claim in zip(open_ones, prove(here, _latent_radii(here, radii), radii), strict=True):
            if _is_complete(claim):
                claims[index], largest[index] = claim, exponents[index]
            else:
                smallest[index] = exponents[index]
    found = 2.0 ** -largest.astype(np.float64)
    for place, radius in enumerate(found):
        h = [sites.state[name][place] for name in block_parts(sites.model)]
        if radius < least_state_radius(h):
            claims[place] = None
    return claims, found


def prove(sites: Sites, radii: Array, state_radii: Array) -> list[Claimed | None]:
    """Prove A1 to A4 for given balls of latents and boxes of states.

    Args:
        sites: T positions.
        radii: of the balls that are claimed, ``[T]``.
        state_radii: of the boxes that are claimed, ``[T]``.

    Returns:
        One claim per position, None where existence is not proved.
    """
    claims: list[Claimed | None] = []
    for part in sites.chunks():
        here = sites[part]
        proved = enclose(
            here.transitions(),
            here.boxes(MARGIN * state_radii[part]),
            here.latents,
            MARGIN * radii[part],
            here.places,
        )
        claims += [
            _claim(proved, index, here.latents[index], radius) for index, radius in enumerate(radii[part])
        ]
    return claims


def _is_complete(claim: Claimed | None) -> bool:
    """Whether existence, invertibility and contraction are proved, and no entry's interval holds zero."""
    return claim is not None and claim.complete


def _latent_radii(sites: Sites, state_radii: Array) -> Array:
    """Twice as far as a Newton step leads from the latent, for any state of the box."""
    bounds = [
        newton_step_bound(here.transitions(), here.boxes(MARGIN * state_radii[part]), here.latents)
        for part in sites.chunks()
        for here in [sites[part]]
    ]
    return 2 * np.nan_to_num(np.concatenate(bounds), nan=1.0, posinf=1.0)


def _claim(proved: Enclosures, index: int, latent: Array, radius: float) -> Claimed | None:
    if not (proved.exists[index] and proved.error[index] <= radius):
        return None
    contraction = None
    if proved.contracts[index]:
        norm = min(float(proved.power_norm[index]) * (1 + LEEWAY), 1 - 2.0**-53)
        norm = max(norm, float(proved.power_norm[index]))
        growth = float(proved.growth[index]) * (1 + LEEWAY)
        contraction = Contraction(power=int(proved.power[index]), norm=norm, growth=growth)
    intervals = [(float(ball.lower[index]), float(ball.upper[index])) for ball in proved.entries]
    if not np.isfinite(intervals).all():
        return None
    return Claimed(
        latent=latent,
        radius=float(radius),
        error=float(proved.error[index]),
        singular_value=float(proved.singular_value[index]) * (1 - LEEWAY),
        contraction=contraction,
        entries=intervals,
    )


def certify_control(model: SequenceModel, visited: Sequence[VisitedState]) -> list[ControlPair]:
    """Prove at visited pairs that h' = decay ⊙ h + drive, with both the same for every real h.

    The block of each layer in turn is the ball of all real numbers; the windows and the blocks of the other
    layers are those of the pair.
    """
    transitions = EnclosedMamba2(model, torch.tensor([pair.token for pair in visited]))
    state = {
        name: Ball.exact(np.stack([pair.state[name].numpy() for pair in visited]))
        for name in visited[0].state
    }
    proved = np.ones(len(visited), dtype=bool)
    decays: list[Ball] = []
    for layer, block in enumerate(transitions.blocks):
        everywhere = {**state, block: Ball.around(np.zeros(state[block].shape), np.inf)}
        proved &= independent_of_state(transitions, everywhere)[layer]
        nothing = Dual.constant(Ball.exact(np.zeros((len(visited), 0))), 0)
        decays.append(transitions.advance(nothing, state, {})[1][layer].decay.value)
    return [
        ControlPair(
            sequence=pair.sequence,
            position=pair.position,
            token=pair.token,
            state={name: entry.numpy().ravel() for name, entry in pair.state.items()},
            decay=[_intervals(decay[index]) for decay in decays] if proved[index] else None,
        )
        for index, pair in enumerate(visited)
    ]


def _intervals(balls: Ball) -> list[Interval]:
    return [(float(lower), float(upper)) for lower, upper in zip(balls.lower, balls.upper, strict=True)]
