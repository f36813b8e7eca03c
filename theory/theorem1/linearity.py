"""Is a layer's map h ↦ h' affine? J and the images at one state are compared with those at others.

An affine map F has J everywhere the same and F(h̃) − F(h) = J (h̃ − h). The first is measured at the farthest
other h̃. Where that shows nothing, the others are looked at: the secants to visited states, and secants and
slopes at random states between and beside them, which a map that is affine at the visited states alone cannot
know. Looks cost a few evaluations only; their findings are measured in full before they count.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vmap

from theory.blocks import BlockMap, flatten, last_place_displacements, random_signs
from theory.fixed_point import EPSILON, ERROR_MARGIN
from theory.forward_mode import derivative_along, jvp
from theory.jacobian.factored import FactoredJacobian
from theory.theorem1.conditions import MeasuredJacobian, MeasuredState, Verdict, judge
from theory.theorem1.cross_checks import Probes, at_once, difference_step
from theory.transition import State


@dataclass(frozen=True)
class Sight:
    """The first, cheap measurements at another state h̃."""

    # ‖F(h̃) − F(h) − J(h) (h̃ − h)‖ / (‖J(h)‖_F ‖h̃ − h‖); infinite where F(h̃) is not finite, NaN where
    # nothing was looked at
    defect: float = math.nan
    error: float = math.nan  # its error: that of J(h), and the last places of both images
    rounding: float = math.nan  # the part of the error that is rounding
    slope: float = 0.0  # ‖(J(h̃) − J(h)) g‖ / ‖J(h)‖_F along a Gaussian g; 0 where it was not measured

    @property
    def clearness(self) -> tuple[bool, float]:
        """The key that orders secants: whether the defect exceeds its error, and by how much rounding.

        One whose error hides everything, between states that are nearly the same, says nothing.
        """
        established = self.defect > ERROR_MARGIN * self.error
        if math.isinf(self.defect):
            return False, math.inf
        is_blind = not ERROR_MARGIN * self.error < 1  # not even a defect of 1 would show
        if math.isnan(self.defect) or (math.isfinite(self.error) and not established and is_blind):
            return False, -1.0
        return established, self.defect / (self.rounding or EPSILON)


UNSEEN = Sight()
"""Nothing was looked at."""


@dataclass(frozen=True)
class Origin:
    """The state from which others are looked at, with what is needed for each of them."""

    block: BlockMap  # the maps there
    measured: MeasuredState  # the state, at which C1 to C3 hold
    here: MeasuredJacobian  # J with its error

    @property
    def has_latent(self) -> bool:
        """Return whether every other state costs a search for its fixed point."""
        return self.measured.transition.latent_size > 0

    @cached_property
    def image(self) -> tuple[Tensor, float, Tensor]:
        """The image h', its error, and that of each entry."""
        return image_at(self.measured, self.block)

    @cached_property
    def direction(self) -> Tensor:
        """The Gaussian g along which slopes are compared."""
        return self.measured.probes.gaussian(1, self.block.vector.numel(), self.block.vector, purpose=6)[0]

    @cached_property
    def product(self) -> Tensor:
        """J g, by the same computation as at other states, so that its rounding cancels."""
        return _product(self.measured, self.block, self.direction)

    @cached_property
    def short(self) -> float:
        """The length of the displacements over which the error of J was measured."""
        return difference_step(self.block.vector, self.image[0])

    def deviation(self, vector: Tensor, image: Tensor) -> Tensor:
        """Return F(h̃) − F(h) − J (h̃ − h)."""
        return image - self.image[0] - self.here.jacobian.matvec(vector - self.block.vector)

    def product_rounding(self, vector: Tensor) -> Tensor:
        """Return what rounding may leave of J (h̃ − h), as a norm."""
        return EPSILON * self.here.jacobian.magnitude(vector - self.block.vector).norm()

    def sight(
        self, length: float, defect: float, product_rounding: float, slope: float = 0.0, there: float = 0.0
    ) -> Sight:
        """Return what a defect at a distance and a change of J g show; nothing where the state did not move.

        ``there`` is the error of the image at h̃.
        """
        here, start_error, short = self.here, self.image[1], self.short
        unit, slope = here.scale * length, slope / here.scale
        if unit == 0:  # also where it is too small for a float
            return UNSEEN
        # J's error was measured over short displacements. Over these it shows how rough the map is.
        rounding = here.error * short + EPSILON * here.scale * length + start_error
        error = here.error * max(length, short) + start_error + product_rounding + there
        rounding += there
        if not math.isfinite(defect):
            return Sight(math.inf, math.inf, rounding / unit, slope)
        return Sight(defect / unit, error / unit, rounding / unit, slope)


@torch.no_grad()
def look(origin: Origin, there: MeasuredState, change: float = 0.0) -> Sight:
    """Return what is seen at a state at which C1 to C3 hold; J g changes by ``change`` on the way there."""
    block = BlockMap(there.transition, there.state, origin.block.names)
    image, error, _ = image_at(there, block)
    length = (block.vector - origin.block.vector).norm().item()
    defect = origin.deviation(block.vector, image).norm().item()
    return origin.sight(length, defect, origin.product_rounding(block.vector).item(), change, error)


@torch.no_grad()
def screen(
    origin: Origin, vectors: Tensor, solved: Callable[[Tensor], MeasuredState], *, slopes: bool = True
) -> Iterator[tuple[Tensor, Sight]]:
    """Look at values of the block, ``[m, n]``: yield each at which C1 to C3 hold, with what is seen there.

    Without a latent all are looked at in one batch. With one, J g is compared only where ``slopes`` asks for
    it, as it costs more.
    """
    if not len(vectors):
        return
    if origin.has_latent:
        for vector in vectors:
            there = solved(vector)
            if there.holds:
                yield vector, look(origin, there, _change_of_product(origin, there) if slopes else 0.0)
        return
    _ = origin.short
    # The state itself goes into the batch, so that what a batch rounds otherwise cancels.
    images, products = _images(origin, torch.cat([origin.block.vector[None], vectors]))
    lengths = (vectors - origin.block.vector).norm(dim=1)
    defects = vmap(origin.deviation)(vectors, images[1:]).norm(dim=1)
    changes = (products[1:] - products[0]).norm(dim=1)
    roundings = vmap(origin.product_rounding)(vectors)
    numbers = torch.stack([lengths, defects, roundings, changes], dim=1).tolist()
    for vector, found in zip(vectors, numbers, strict=True):
        sight = origin.sight(*found)
        if not sight.defect <= ERROR_MARGIN * sight.rounding:
            there = dataclasses.replace(origin.measured, state=origin.block.at(vector))
            sight = look(origin, there, found[-1])
        yield vector, sight


def _images(origin: Origin, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return F and its derivative along g at many values of a block without a latent."""
    # What is drawn or measured once is so before vmap, which allows neither.
    block, latent, direction = origin.block, origin.measured.fixed_point.latent, origin.direction

    def along(vector: Tensor) -> Tensor:
        return torch.stack(jvp(lambda v: block.state_update(latent, v), (vector,), (direction,)))

    images, products = at_once(along, vectors).unbind(dim=1)
    return images, products


def _change_of_product(origin: Origin, there: MeasuredState) -> float:
    """Return ‖(J(h̃) − J(h)) g‖ for a model with a latent."""
    block = BlockMap(there.transition, there.state, origin.block.names)
    return (_product(there, block, origin.direction) - origin.product).norm().item()


def _product(there: MeasuredState, block: BlockMap, direction: Tensor) -> Tensor:
    """Return J g at another state, by forward mode through the fixed point."""
    assert there.slope is not None  # of a model with a latent
    latent, vector = there.fixed_point.latent, block.vector
    source = derivative_along(lambda v: block.self_map(latent, v), vector, direction)
    identity = torch.eye(latent.numel(), dtype=latent.dtype, device=latent.device)
    tangent = torch.linalg.solve(identity - there.slope, source)
    # both ways to h' at once: by z, and by h itself
    both = torch.cat([latent, vector])
    return derivative_along(
        lambda x: block.state_update(*x.split([latent.numel(), vector.numel()])),
        both,
        torch.cat([tangent, direction]),
    )


@torch.no_grad()
def image_at(measured: MeasuredState, block: BlockMap) -> tuple[Tensor, float, Tensor]:
    """Return h' and its error, as a norm and by entries.

    It is the change when h moves by one unit in the last place, z by its own error.
    """
    latent, vector = measured.fixed_point.latent, block.vector
    image = block.state_update(latent, vector)
    reach = 0.0
    if latent.numel():
        # The residual over the smallest singular value of I − ∂zΦ bounds the distance to the fixed point.
        reach = measured.fixed_point.threshold / measured.conditions[1].value / math.sqrt(latent.numel())
    latents = latent + reach * random_signs(2, latent.numel(), latent)
    vectors = last_place_displacements(vector, 2, seed=1)
    images = torch.stack([block.state_update(*nearby) for nearby in zip(latents, vectors, strict=True)])
    changes = images - image
    norms = changes.norm(dim=1)
    change = norms.max().item() if norms.isfinite().all() else math.inf
    error = change + EPSILON * torch.nan_to_num(image, nan=math.inf).norm().item()
    return image, error, (changes.abs().amax(0) + EPSILON * image.abs()).nan_to_num(math.inf)


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
