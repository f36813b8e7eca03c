"""Theorem 1 of a trained model at visited states; of an explicit model the opposite.

Where the balls are put, how large, and what is tried when one fails, is chosen in floating point. Every claim
is then proved by `theory.rigorous.enclosure`, over a region that is larger than the one claimed by `MARGIN`.
That leaves a checker with another formulation, whose enclosures over wide balls may be a little wider and
still confirm it. The explicit control's transition is proved to be diagonal, and the same at every
h. The words of the statements stand in `analysis.certificates.claims.theorem1`.

Points are visited pairs with their approximate fixed points; a partner puts another h beside the window.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from torch import Tensor

from analysis.certificates.claims.theorem1 import (
    VERIFIED,
    Claimed,
    Contraction,
    ControlPair,
    Elsewhere,
    Explicit,
    Orbit,
    Pair,
    Point,
    Range,
    Theorem1,
    least_state_radius,
    non_linear,
    summarise,
)
from analysis.certificates.producing import Found, Proof, about
from analysis.framework.finding import Rows
from analysis.framework.needs import BALL_ARITHMETIC
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import (
    TIGHT_RTOL,
    VisitedState,
    in_double_precision,
    sample_batch,
    visited_states,
)
from automata.command_line import progress_bar
from implicit.enclosed.any_loop import Form, block_parts, boxes, compare_with_floats, form_of, widest
from implicit.enclosed.mamba2 import EnclosedMamba2, compare_form
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.models.stack import CellStack
from implicit.modes import Solve
from implicit.runs.loading import Run
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

CHUNK = 2**22  # the most float64 entries of one array of derivatives
MAX_PARTNERS = 3
"""Other values of h that are tried until one has a fixed point beside the window that is kept."""


@dataclass(frozen=True, eq=False)
class Points:
    """Positions at which something is to be proved."""

    model: SequenceModel
    tokens: NDArray[np.int64]  # [T]
    state: Mapping[str, Array]  # each part [T, …]
    latents: Array  # approximate fixed points, [T, d]
    places: Sequence[Entries]  # the entry of ∂h'/∂h, per layer

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> "Points":
        return Points(
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


def visited_points(model: FixedPointModel, visited: Sequence[VisitedState]) -> Points:
    """Return the visited pairs with their fixed points and a large coupling entry of each."""
    names = visited[0].state
    tokens = np.array([pair.token for pair in visited])
    state = {name: np.stack([pair.state[name].numpy() for pair in visited]) for name in names}
    latents = _fixed_points(model, tokens, state)
    _, slopes = approximate_slopes(*_exact(model, tokens, state), latents)
    places = coupling_entries(
        in_double_precision(model).transitions(torch.from_numpy(tokens)),
        _tensors(state),
        torch.from_numpy(latents),
        torch.from_numpy(slopes),
    )
    return Points(model, tokens, state, latents, [(row.numpy(), column.numpy()) for row, column in places])


def partners(points: Points, attempt: int) -> tuple[NDArray[np.int64], Points]:
    """Return for each position another visited h, put beside the window of this one.

    It is the farthest h of the same token, and in later attempts a nearer one. The numbers say from which
    position it is taken; where there is no other h, it is the position's own.
    """
    blocks = block_parts(points.model)
    vectors = np.concatenate(
        [entry.reshape(len(points), -1) for name, entry in points.state.items() if name in blocks], axis=1
    )
    pairs = np.arange(len(points))
    for position, token in enumerate(points.tokens):
        others = np.flatnonzero(
            (points.tokens == token) & (vectors != vectors[position]).any(1)
        )  # two visited states may have the same h
        if len(others):
            distances = np.square(vectors[others] - vectors[position]).sum(1)
            order = others[np.argsort(-distances)]
            pairs[position] = order[(len(order) - 1) * (2**attempt - 1) // 2**attempt]
    state = {name: entry[pairs] if name in blocks else entry for name, entry in points.state.items()}
    columns = [column for _, column in points.places]
    latents = _fixed_points(points.model, points.tokens, state, columns)
    return pairs, Points(points.model, points.tokens, state, latents, points.places)


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
    form, exact = _exact(model, tokens, state)
    latents = refine(form, exact, latents)
    if isinstance(form, EnclosedMamba2):
        compare_form(model)
    elif isinstance(model, CellStack):
        compare_with_floats(model, form, where, state, latents, columns)
    return latents


def _exact(
    model: SequenceModel, tokens: NDArray[np.int64], state: dict[str, Array]
) -> tuple[Form, dict[str, Ball]]:
    """(Φ, G) and the states as balls of radius zero."""
    form = form_of(model, torch.from_numpy(tokens))
    return form, boxes(form, block_parts(model), state, np.zeros(len(tokens)))


def _tensors(state: dict[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(entry) for name, entry in state.items()}


MARGIN = 1.5
LEEWAY = 2.0**-12  # relative reserve of claimed singular values and norms of powers
POINT_RADII = (2.0**-28, 2.0**-36)
"""Radii tried at a point, before the least that the residual allows: wide enough that the iteration from zero
comes into the ball soon, small enough for sharp enclosures of J."""
RANGE_EXPONENTS = (2, 48)  # boxes of states have radii 2⁻², 2⁻³, …, 2⁻⁴⁸, found by bisection


def prove_points(points: Points) -> list[Point | None]:
    """Prove what can be proved at states, with the largest radius that proves it all, or some of it."""
    claims: list[Point | None] = [None] * len(points)
    for radius in (*POINT_RADII, None):
        missing = np.flatnonzero([not (claim and claim.attracts and claim.complete) for claim in claims])
        if not len(missing):
            break
        here, point = points[missing], np.zeros(len(missing))
        radii = _latent_radii(here, point) if radius is None else np.full(len(missing), radius)
        for index, claim in zip(missing, prove_orbits(here, prove_boxes(here, radii, point)), strict=True):
            before = claims[index]
            if claim is not None and not (before is not None and before.attracts and not claim.attracts):
                claims[index] = claim
    return claims


def prove_orbits(points: Points, claims: list[Claimed | None]) -> list[Point | None]:
    """Prove of claims at single states that the iteration from zero ends where they say that it converges."""
    proved = [None if claim is None else Point(**dict(claim), orbit=None) for claim in claims]
    contracting = [
        (index, claim, claim.contraction.growth)
        for index, claim in enumerate(claims)
        if claim is not None and claim.contraction is not None
    ]
    if not contracting:
        return proved
    radius, error, growth = np.array([(one.radius, one.error, grown) for _, one, grown in contracting]).T
    arriving = points[np.array([index for index, _, _ in contracting], dtype=np.int64)]
    for part in arriving.chunks():
        here = arriving[part]
        boxes = here.boxes(np.zeros(len(here)))
        bounds = radius[part], error[part], growth[part]
        found = orbits_into_basin(here.transitions(), boxes, here.latents, *bounds)
        for place in map(int, np.flatnonzero(found.arrive)):
            index, claim, _ = contracting[part.start + place]
            orbit = Orbit(iterations=int(found.iterations[place]), distance=float(found.distance[place]))
            proved[index] = Point(**dict(claim), orbit=orbit)
    return proved


def prove_ranges(points: Points) -> tuple[list[Claimed | None], Array]:
    """Prove the same over boxes of states that are as large as bisection finds.

    A box counts if the fixed point exists, is unique and attracting, and no entry's interval holds zero. In a
    box the ball of latents is as small as the box allows, so that derivatives are enclosed sharply. Returned
    are a claim per position, None where there is none, and the radii of the boxes.
    """
    smallest = np.full(len(points), RANGE_EXPONENTS[0] - 1)  # too large a box, by assumption
    largest = np.full(len(points), RANGE_EXPONENTS[1] + 1)
    claims: list[Claimed | None] = [None] * len(points)
    while (largest - smallest > 1).any():
        exponents = (smallest + largest) // 2
        open_ones = np.flatnonzero(largest - smallest > 1)
        radii = 2.0 ** -exponents[open_ones].astype(np.float64)
        here = points[open_ones]
        for index, claim in zip(open_ones, prove_boxes(here, _latent_radii(here, radii), radii), strict=True):
            if claim is not None and claim.complete:
                claims[index], largest[index] = claim, exponents[index]
            else:
                smallest[index] = exponents[index]
    found = 2.0 ** -largest.astype(np.float64)
    for place, radius in enumerate(found):
        h = [points.state[name][place] for name in block_parts(points.model)]
        if radius < least_state_radius(h):
            claims[place] = None
    return claims, found


def prove_boxes(points: Points, radii: Array, state_radii: Array) -> list[Claimed | None]:
    """Prove A1 to A4 for balls of latents and boxes of states of these radii; None: no proof."""
    claims: list[Claimed | None] = []
    for part in points.chunks():
        here = points[part]
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


def _latent_radii(points: Points, state_radii: Array) -> Array:
    """Twice as far as a Newton step leads from the latent, for any state of the box."""
    bounds = [
        newton_step_bound(here.transitions(), here.boxes(MARGIN * state_radii[part]), here.latents)
        for part in points.chunks()
        for here in [points[part]]
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
    compare_form(model)
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
            **_place(pair), decay=[_intervals(decay[index]) for decay in decays] if proved[index] else None
        )
        for index, pair in enumerate(visited)
    ]


def _intervals(balls: Ball) -> list[tuple[float, float]]:
    return [(float(lower), float(upper)) for lower, upper in zip(balls.lower, balls.upper, strict=True)]


class CertifySettings(SampleSettings):
    """The choice of visited states."""

    states: PositiveInt = Field(default=256, description="visited (state, token) pairs to certify")


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundPairs(Found):
    """The result of `prove`: claims on visited pairs."""

    pairs: list[Pair] | list[ControlPair]

    @property
    def summary(self) -> dict[str, int]:
        """The number of pairs of which each statement is proved."""
        return summarise(self.pairs)

    def numbers(self) -> dict[str, Any]:
        """Return how many pairs each statement is proved of."""
        return dict(self.summary)

    def rows(self) -> list[Rows]:
        """Return counts and bounds, and why no more is proved."""
        summary = self.summary
        total = summary.pop("pairs")
        implicit = [pair for pair in self.pairs if isinstance(pair, Pair)]
        bounds, rows = _bounds(implicit), []
        for statement, count in summary.items():
            name, values = bounds.get(statement, ("", []))
            spread = np.quantile(values, (0, 0.5, 1)) if values else (None, None, None)
            rows.append([VERIFIED[statement], f"{count}/{total}", name, *map(number, spread)])
        found = [Rows(["statement", "pairs", "bound", "min", "median", "max"], rows, self.run.title)]
        reasons = Counter(reason for pair in implicit for reason in reasons_of(pair))
        if reasons:
            missing = [[reason, str(count)] for reason, count in reasons.items()]
            found.append(Rows(["why no more is proved", "pairs"], missing))
        return found

    @cached_property
    def claims(self) -> list[Theorem1 | Explicit]:
        """All pairs, also those of which nothing is proved."""
        kind = Explicit if "explicit" in self.summary else Theorem1
        settings = self.settings.model_dump()
        fields: dict[str, Any] = {"settings": settings, "pairs": self.pairs, "summary": self.summary}
        return [kind(statements=kind.stated(self.config), **fields)]


def prove(run: Run, settings: CertifySettings | None = None, **chosen: int) -> FoundPairs:
    """Prove what can be proved of a run at visited pairs."""
    settings = settings_from(CertifySettings, chosen, settings)
    began = time.monotonic()
    BALL_ARITHMETIC.require(run)
    batch = sample_batch(run.task, settings.sequences, settings.length, settings.seed)
    model = in_double_precision(run.model)
    visited = visited_states(model, batch.tokens, settings.states, lengths=batch.lengths)
    implicit = run.model.implicit
    pairs = certify_pairs(implicit, visited) if implicit is not None else certify_control(run.model, visited)
    return FoundPairs(pairs=pairs, **about(run, settings, began))


def certify_pairs(model: FixedPointModel, visited: Sequence[VisitedState]) -> list[Pair]:
    """Prove A1 to A6 at visited pairs, as far as they can be."""
    with progress_bar(total=4, desc="certify", unit="stage") as bar:
        points = visited_points(model, visited)
        bar.update()
        proved = prove_points(points)
        bar.update()
        elsewhere = _prove_elsewhere(points, proved)
        bar.update()
        ranges, radii = prove_ranges(points)
        bar.update()
    pairs = []
    for index, pair in enumerate(visited):
        point, box = (proved[index], ranges[index]) if pair.reached else (None, None)
        if point is None or box is None or not _same_fixed_point(point, box):
            box = None
        other = elsewhere[index] if point is not None else None
        if other is not None and not visited[other.pair].reached:
            other = None
        places = [(int(rows[index]), int(columns[index])) for rows, columns in points.places]
        whole = None if box is None else Range(**dict(box), state_radius=float(radii[index]))
        pairs.append(Pair(**_place(pair), places=places, point=point, elsewhere=other, range=whole))
    return pairs


def _place(pair: VisitedState) -> dict[str, Any]:
    """Return the fields of a certificate that say which state was visited, and where."""
    state = {name: entry.numpy().ravel() for name, entry in pair.state.items()}
    return {"sequence": pair.sequence, "position": pair.position, "token": pair.token, "state": state}


def _same_fixed_point(point: Point, box: Claimed) -> bool:
    """Tell whether the ball of a claim over a box of h holds the fixed point that the iteration tends to."""
    apart = float(np.abs(box.latent - point.latent).max()) * (1 + 2.0**-50)
    return point.attracts and (apart + point.error) * (1 + 2.0**-50) <= box.radius


def _prove_elsewhere(points: Points, proved: Sequence[Point | None]) -> list[Elsewhere | None]:
    """Claims at partners of points with C1 to C3; at nearer ones where the farther shows nothing."""
    found: list[Elsewhere | None] = [None] * len(proved)
    for attempt in range(MAX_PARTNERS):
        open_ones = [p and p.attracts and not non_linear(p, found[i]) for i, p in enumerate(proved)]
        missing = np.flatnonzero(np.array(open_ones, dtype=bool))
        if not len(missing):
            break
        pairs, others = partners(points, attempt)
        missing = missing[pairs[missing] != missing]
        for index, claim in zip(missing, prove_points(others[missing]), strict=True):
            if claim is not None:
                found[index] = Elsewhere(**dict(claim), pair=int(pairs[index]))
    return found


def reasons_of(pair: Pair) -> list[str]:
    """Return why a statement is not proved of a pair; nothing where all are."""
    if pair.point is None:
        return [
            "no fixed point was found, I − ∂zΦ is nearly singular there, or a token before did not converge"
        ]
    reasons = []
    if pair.point.contraction is None:
        reasons.append("no power up to 1024 of the damped step contracts")
    elif pair.point.orbit is None:
        reasons.append("the iteration from zero is not proved to come near this fixed point")
    elif not pair.non_diagonal:
        reasons.append("the entry's enclosure holds zero")
    if pair.attracts:
        reasons += _reasons_of_linearity(pair)
    if pair.range is None:
        reasons.append("no box of states was found for which all statements are proved")
    return reasons


def _reasons_of_linearity(pair: Pair) -> list[str]:
    if pair.elsewhere is None:
        return ["no fixed point was proved beside another h"]
    if not pair.elsewhere.attracts:
        return ["beside another h the iteration from zero is not proved to tend to the fixed point"]
    return [] if pair.non_linear else ["the entry's enclosures at both states overlap"]


def _bounds(pairs: Sequence[Pair]) -> dict[str, tuple[str, list[float]]]:
    points = [pair.point for pair in pairs if pair.point is not None]
    contractions = [point.contraction for point in points if point.contraction is not None]
    orbits = [point.orbit for point in points if point.orbit is not None]
    return {
        "existence": ("distance to the fixed point", [point.error for point in points]),
        "invertibility": ("smallest singular value", [point.singular_value for point in points]),
        "contraction": ("factor a step", [contraction.factor for contraction in contractions]),
        "orbit": ("steps to get near it", [float(orbit.iterations) for orbit in orbits]),
        "non_diagonal": ("entry", [min(map(abs, pair.point.entries[0])) for pair in pairs if pair.point]),
        "range": ("radius in h", [pair.range.state_radius for pair in pairs if pair.range]),
    }


PROOFS = (
    Proof(
        claim="theorem1",
        question="What of Theorem 1 can be proved at visited states? A certificate.",
        description="Prove Theorem 1 of a model at visited states.",
        settings=CertifySettings,
        needs=BALL_ARITHMETIC,
        prove=prove,
    ),
)
