"""From visited pairs to proved claims: where the balls are put, how large, and what is tried when one fails.

Choosing is floating point and heuristic; every claim is then proved by `theory.rigorous.enclosure`, over a
region that is larger than the one claimed by `MARGIN`. That leaves a checker with another formulation, whose
enclosures over wide balls may be a little wider and still confirm it. Of the explicit control it is proved
that its transition is diagonal, and the same at every h.
"""

from collections.abc import Sequence

import numpy as np
import torch

from analysis.certificates.arb.pairs import least_state_radius
from analysis.certificates.certificate import Interval
from analysis.certificates.claims.theorem1 import Claimed, Contraction, ControlPair, Orbit, Point
from analysis.certificates.proofs.sites import Sites
from analysis.framework.visited_states import VisitedState
from implicit.enclosed.forms import block_parts
from implicit.enclosed.mamba2 import EnclosedMamba2
from implicit.models.interface import SequenceModel
from theory.rigorous.balls.ball import Array, Ball
from theory.rigorous.balls.dual import Dual
from theory.rigorous.enclosure import Enclosures, enclose, independent_of_state, newton_step_bound
from theory.rigorous.orbits import orbits_into_basin

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

    Example:
        >>> import torch
        >>> from analysis.certificates.proofs.sites import visited_sites
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> [claim.error < claim.radius for claim in prove_points(visited_sites(model, visited))]
        [True, True]
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

    Args:
        sites: T positions.
        claims: what is proved at each.

    Returns:
        The claims with an orbit, None in its place where none is proved.

    Example:
        >>> import torch
        >>> from analysis.certificates.proofs.sites import visited_sites
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> sites = visited_sites(model, visited)
        >>> claims = prove(sites, np.full(2, 2.0**-20), np.zeros(2))
        >>> [point.orbit.distance < point.radius for point in prove_orbits(sites, claims)]
        [True, True]
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

    Example:
        >>> import torch
        >>> from analysis.certificates.proofs.sites import visited_sites
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> claims, radii = prove_ranges(visited_sites(model, visited))
        >>> [claim is not None for claim in claims], bool((radii > 0).all())
        ([True, True], True)
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

    Example:
        No ball of radius 1 holds a region where the Newton map is known to contract.

        >>> import torch
        >>> from analysis.certificates.proofs.sites import visited_sites
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> prove(visited_sites(model, visited), np.ones(2), np.zeros(2))
        [None, None]
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

    Args:
        model: in its working precision, whose weights are what is certified.
        visited: the pairs.

    Example:
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import Mamba2, Mamba2Config
        >>> model = Mamba2(Mamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2))
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> [len(pair.decay[0]) for pair in certify_control(model, visited)]
        [2, 2]
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
