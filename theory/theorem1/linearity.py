"""Is a layer's map h ↦ h' affine? J and the images at one state are compared with those at others.

An affine map F has J everywhere the same and F(h̃) − F(h) = J (h̃ − h). The first is measured at the farthest
other h̃. Where that shows nothing, the others are looked at (:mod:`theory.theorem1.elsewhere`): the secants to
visited states, and secants and slopes at random states between and beside them, which a map that is affine at
the visited states alone cannot know.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from theory.blocks import BlockMap, flatten
from theory.fixed_point import EPSILON, ERROR_MARGIN
from theory.jacobian.factored import FactoredJacobian
from theory.theorem1.conditions import Verdict, judge
from theory.theorem1.cross_checks import Probes
from theory.theorem1.elsewhere import UNSEEN, Origin, Sight, look, screen
from theory.theorem1.measured_state import MeasuredJacobian, MeasuredState
from theory.transition import State

ROWS = 256
"""How many rows of a Jacobian are made dense at a time."""
MAX_CANDIDATES = 3
"""How many other visited states are tried until C1 to C3 hold at one."""
MAX_COMPARED = {False: 256, True: 16}
"""How many visited states are compared where nothing contradicts linearity, without and with a latent."""
UNVISITED = {False: 16, True: 2}
"""How many states that were not visited are looked at in addition."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How J and the images at a state differ from those at others."""

    # ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F at the farthest h̃ at which C1 to C3 hold; NaN without one
    change: float = math.nan
    change_error: float = math.nan  # its measured error
    # the defect ‖F(h̃) − F(h) − J(h) (h̃ − h)‖ / (‖J(h)‖_F ‖h̃ − h‖) that speaks most clearly
    sight: Sight = UNSEEN
    row_change: float = 0.0  # the largest change of a row of J relative to that row, where the change is tiny
    compared: int = 0  # how many other h̃ were compared
    unvisited: bool = False  # whether only an h̃ that was not visited contradicts linearity
    place: Tensor | None = None  # the h̃ that contradicts linearity
    note: str = ""  # why there is no change, if there is none

    @property
    def contradicts(self) -> bool:
        """Return whether one of the two contradicts linearity."""
        pairs = ((self.change, self.change_error), (self.sight.defect, self.sight.error))
        return any(judge(*pair) is Verdict.HOLDS for pair in pairs)

    def with_sight(self, sight: Sight) -> "Comparison":
        """Return the comparison with one more secant, of which the clearest stays."""
        clearest = max(self.sight, sight, key=lambda each: each.clearness)
        return dataclasses.replace(self, sight=clearest, compared=self.compared + 1)


def compare(
    measured: MeasuredState, layer: int, here: MeasuredJacobian, others: Sequence[State]
) -> Comparison:
    """Compare one layer at a state with the values of its block at other states, the farthest first.

    The token and the rest of the state stay as they are. The search ends when something contradicts
    linearity, so that a non-linear transition costs one comparison.
    """
    origin, vectors, solved = surroundings(measured, layer, here, others)
    if not len(vectors):
        return Comparison(note="no other visited state differs in this block, give more states")
    found = Comparison(note="C1 to C3 are not established with the block of another visited state")
    remaining = iter(range(len(vectors)))
    for index in itertools.islice(remaining, MAX_CANDIDATES):
        there = solved(vectors[index])
        if there.holds:
            found = _change(here, there).with_sight(look(origin, there))
            found = dataclasses.replace(found, place=vectors[index] if found.contradicts else None)
            break
    if found.note or found.contradicts:
        return found
    chosen = vectors[_spread(list(remaining), MAX_COMPARED[origin.has_latent], measured.probes)]
    for vector, sight in screen(origin, chosen, solved, slopes=False):
        found = _followed(found.with_sight(sight), origin, sight, vector, solved)
        if found.contradicts:
            return dataclasses.replace(found, place=vector)
    return _beyond(found, origin, vectors, solved)


Solve = Callable[[Tensor], MeasuredState]


def surroundings(
    measured: MeasuredState, layer: int, here: MeasuredJacobian, others: Sequence[State]
) -> tuple[Origin, Tensor, Solve]:
    """Return one layer's view from a state, its other values, the farthest first, and how to solve there."""
    names = measured.transition.layer_states[layer]
    single = dataclasses.replace(measured.transition, layer_states=(names,))
    block = BlockMap(single, measured.state, names)
    vectors = torch.stack([flatten(other, names) for other in others])
    distances = (vectors - block.vector).norm(dim=1)
    order = [index for index in distances.argsort(descending=True).tolist() if distances[index] > 0]

    def solved(vector: Tensor) -> MeasuredState:
        return measured.search.measure(single, block.at(vector))

    return Origin(block, measured, here), vectors[order], solved


def _followed(found: Comparison, origin: Origin, sight: Sight, vector: Tensor, solved: Solve) -> Comparison:
    """Measure J in full where a slope shows more than its errors, and keep the slope where it shows less."""
    if not sight.slope > found.change:  # also where it is NaN
        return found
    if sight.slope > ERROR_MARGIN * found.change_error:
        change = _change(origin.here, solved(vector))
        return dataclasses.replace(change, sight=found.sight, compared=found.compared)
    return dataclasses.replace(found, change=sight.slope)


def _beyond(found: Comparison, origin: Origin, vectors: Tensor, solved: Solve) -> Comparison:
    """Look at states that were not visited: on the way to others, and as far away in any direction."""
    here, probes = origin.block.vector, origin.measured.probes
    count = UNVISITED[origin.has_latent] // 2
    steps = vectors - here
    shares, places = probes.gaussian(2, count, here, purpose=7).sigmoid()
    between = shares[:, None] * steps[(places * len(steps)).long()]
    around = probes.gaussian(count, len(here), here, purpose=8) * steps.square().mean().sqrt()
    for vector, sight in screen(origin, here + torch.cat([between, around]), solved):
        if not (math.isfinite(sight.defect) and math.isfinite(sight.slope)):
            continue  # F need not be defined where nobody was
        found = _followed(found.with_sight(sight), origin, sight, vector, solved)
        if found.contradicts:
            return dataclasses.replace(found, place=vector, unvisited=True)
    return found


def _change(here: MeasuredJacobian, there: MeasuredState) -> Comparison:
    (elsewhere,) = there.jacobians()
    difference = here.jacobian - elsewhere.jacobian
    change = difference.frobenius_norm() / here.scale
    error = max((here.error + elsewhere.error) / here.scale, EPSILON)
    tiny = change > 0 and judge(change, error) is not Verdict.HOLDS
    return Comparison(change, error, row_change=largest_row(difference, here.jacobian) if tiny else 0.0)


def largest_row(part: FactoredJacobian, whole: FactoredJacobian, *, diagonal: bool = True) -> float:
    """Return the largest norm of a row of one matrix, relative to that row of another one."""
    largest = 0.0
    for start in range(0, part.size, ROWS):
        rows = part.rows(start, start + ROWS)
        if not diagonal:
            rows.diagonal(offset=start).zero_()
        norms = rows.norm(dim=1)
        relative = norms / whole.rows(start, start + ROWS).norm(dim=1)
        largest = max(largest, relative[norms > 0].max().item() if norms.any() else 0.0)
    return largest


def _spread(order: list[int], limit: int, probes: Probes) -> list[int]:
    """Return all states; of too many half the farthest, a quarter the nearest, the others at random."""
    if len(order) <= limit:
        return order
    far, near, middle = order[: limit // 2], order[-(limit // 4) :], order[limit // 2 : -(limit // 4)]
    drawn = probes.gaussian(1, len(middle), torch.zeros(0), purpose=5)[0].argsort().tolist()
    return far + near + [middle[place] for place in drawn[: limit - len(far) - len(near)]]
