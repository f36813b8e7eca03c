"""Does an entry of h' change with other entries over a whole distance? J at a point cannot show it.

Some entries of h move to where they are in another state, and h' is compared with the images of both states:
of a diagonal transition h'_i is that of the state whose h_i it has. A change counts by the rounding of each
entry, which no unit of measurement changes.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from theory.blocks import BlockMap
from theory.fixed_point import EPSILON, ERROR_MARGIN
from theory.theorem1.conditions import MeasuredJacobian, MeasuredState
from theory.theorem1.cross_checks import PROBES, at_once
from theory.theorem1.linearity import UNSEEN, Origin, Sight, image_at, look, surroundings
from theory.transition import State

VISITED = {False: 16, True: 4}
"""How many visited states entries are moved to, without and with a latent."""
HALVES = {False: 8, True: 4}
"""How many random halves of the entries move there, besides the sets that part every two entries."""
BESIDE = {False: 48, True: 12}
"""How many random states entries are moved to: random halves, or all parting sets to the near quarter."""
NEAREST = -13.0
"""The binary logarithm of the shortest of these ways, as a share of the distances between states."""
TRIED = 6
"""How many moves are measured in full until one is established."""
FAILED = 3
"""How many moves without a fixed point end the search."""
BATCH = 2**14
"""How many entries the points of several moves have at most that are evaluated together."""
NEARBY = 2.0**-26
"""The share by which a state is displaced to see how rough an image is; what bends counts with its square."""


@torch.no_grad()
def look_at_other_entries(
    measured: MeasuredState,
    layer: int,
    here: MeasuredJacobian,
    others: Sequence[State],
    place: Tensor | None = None,
) -> tuple[Sight, Sight]:
    """Return by how much an entry of h' changes where its own does not move, relative to its size.

    Sets that part every two entries, and their complements, move to ``place``, a value that contradicts
    linearity. Entries move to A visited states: all, the parting sets, H random halves, and all complements.
    A half and its complement move to each of 3 B/4 random states, and the parting sets to each of B/4 that
    are near. These are at most

        A (1 + 2 D + 2 H) + B (5 + D) / 2 + 2 D

    evaluations of h', with D = ⌈log₂ n⌉, or D = n up to 8 entries, and A, H, B = 16, 8, 48. With a latent
    each one is a search for a fixed point, and A, H, B = 4, 4, 12.

    Limits: on the way to a visited state each entry has moved or has not. A change of h'_i on one of the A
    ways is found for certain in three cases: it depends on one or two other entries; on whether all of some
    moved; on whether any of some moved. Another dependence on k entries is missed with a probability of at
    most (1 − 2^−k)^H. The near states are 2^−2 to 2^−13 of the distances away, or 2^−5 to 2^−13, by equal
    factors: what couples two entries around the state itself shows at one of them. A coupling that shows in
    no mixture of two visited states is otherwise found by chance only: another seed may find another kind.

    Returns:
        A change that stands out, with its error, and the defect of a secant on that way; NaN where
        nothing could be evaluated. The error is infinite where nothing stands out, and h' has no value on the
        way to a visited state at which it has one.
    """
    origin, vectors, solved = surroundings(measured, layer, here, others)
    vector, (image, _, image_noise) = origin.block.vector, origin.image

    # The differences that J was compared with show how rough each entry is over a short way.
    noise = 2 * here.row_errors * origin.short / math.sqrt(len(vector)) + image_noise

    def measured_in_full(goal: Tensor, moved: Tensor) -> tuple[Sight, Sight] | None:
        there, whole = solved(torch.where(moved, goal, vector)), solved(goal)
        if not (there.holds and whole.holds):
            return None
        (image_there, noise_there), (image_whole, noise_whole) = _image(origin, there), _image(origin, whole)
        change = (image_there - torch.where(moved, image_whole, image)).abs()
        size = _size(torch.stack([image, image_there, image_whole]))
        rough = noise + EPSILON * size + noise_there + torch.where(moved, noise_whole, 0.0)
        row = (change / rough).argmax()
        value, error = change[row] / size[row], rough[row] / size[row]
        widest = error if value > ERROR_MARGIN * error else (rough / size).max()
        # What jumps may do so on the way here, or only on the way on from here to the goal.
        secants = (look(origin, there), look(origin, whole))
        clearest = max(secants, key=lambda each: each.clearness)
        return Sight(value.item(), widest.item(), error.item()), clearest

    found, tried, complete = (UNSEEN, UNSEEN), 0, True
    unclear: list[tuple[float, Tensor, Tensor]] = []
    for (goal, sets, visited), images in _imaged(origin, _moves(origin, vectors, place)):
        reference, whole, images = images[0], images[1], images[2:]
        if not whole.isfinite().all():
            continue
        reached = images.isfinite().all(1)
        complete &= not visited or bool(reached.all())
        change = (images - torch.where(sets, whole, reference)).abs().nan_to_num(0.0, 0.0, 0.0)
        size = _size(torch.stack([reference, whole, *images[reached]]))
        clearness, place = (change / (noise + EPSILON * size)).amax(1).max(0)
        unclear.append((clearness.item(), goal, sets[place]))
        if clearness > ERROR_MARGIN and tried < TRIED:  # one of them may lie on a jump, where all is rough
            tried += 1
            seen = measured_in_full(goal, sets[place])
            found = seen or found
            if seen and seen[0].defect > ERROR_MARGIN * seen[0].error:
                return seen
    for _, goal, moved in sorted(unclear, key=lambda each: -each[0])[: TRIED - tried]:
        if found[0] is not UNSEEN:
            break
        found = measured_in_full(goal, moved) or found
    if complete:
        return found
    return Sight(0.0, math.inf, math.inf), found[1]


Move = tuple[Tensor, Tensor, bool]
"""Where to, sets of entries that move there, and whether it is one of the visited states."""


def _imaged(origin: Origin, moves: Iterator[Move]) -> Iterator[tuple[Move, Tensor]]:
    """Moves, each with the images of the state itself, of where it goes, and of every set moved there."""
    block, latent = origin.block, origin.measured.fixed_point.latent
    here = block.vector

    def at_once_of(group: list[tuple[Move, Tensor]]) -> Iterator[tuple[Move, Tensor]]:
        # The state itself goes into the batch, so that what a batch rounds otherwise cancels.
        points = torch.cat([here[None], *(each for _, each in group)])
        images = at_once(lambda v: block.state_update(latent, v), points)
        parts = images[1:].split([len(each) for _, each in group])
        for (move, _), part in zip(group, parts, strict=True):
            yield move, torch.cat([images[:1], part])

    group: list[tuple[Move, Tensor]] = []
    entries = 0
    for move in moves:
        goal, sets, _ = move
        points = torch.cat([goal[None], torch.where(sets, goal, here)])
        if origin.has_latent:
            yield move, _images(origin, points)
            continue
        if group and entries + points.numel() > BATCH:
            yield from at_once_of(group)
            group, entries = [], 0
        group.append((move, points))
        entries += points.numel()
    if group:
        yield from at_once_of(group)


def _images(origin: Origin, points: Tensor) -> Tensor:
    """The images of the state itself and of points; NaN without a fixed point, or after `FAILED` such."""
    block, image, failed = origin.block, origin.image[0], 0
    images = [image]
    for point in points:
        images.append(torch.full_like(image, math.nan))
        if failed < FAILED and bool(images[1].isfinite().all() or len(images) == 2):
            found = origin.measured.search.solve(block.transition, block.at(point))
            failed += not found.converged
            if found.converged:
                images[-1] = block.state_update(found.latent, point)
    return torch.stack(images)


def _size(images: Tensor) -> Tensor:
    """How large each entry is at most; 1 where it is zero."""
    size = images.abs().amax(0)
    return torch.where(size > 0, size, 1.0)


def _image(origin: Origin, there: MeasuredState) -> tuple[Tensor, Tensor]:
    """The image at another state and the noise of its entries; NaN where C1 to C3 do not hold."""
    if not there.holds:
        return (torch.full_like(origin.block.vector, math.nan),) * 2
    block = BlockMap(there.transition, there.state, origin.block.names)
    image, _, noise = image_at(there, block)
    if not origin.has_latent:  # else a fixed point at each
        latent, vector = there.fixed_point.latent, block.vector
        shares = NEARBY * vector * there.probes.gaussian(PROBES, len(vector), vector, purpose=13)
        ahead, behind = (
            at_once(lambda v: block.state_update(latent, v), vector + s * shares) for s in (1, -1)
        )
        noise = noise + (ahead - 2 * image + behind).abs().amax(0).nan_to_num(math.inf)
    return image, noise


def _moves(origin: Origin, vectors: Tensor, place: Tensor | None) -> Iterator[Move]:
    here, probes, searches = origin.block.vector, origin.measured.probes, origin.has_latent
    size, visited, beside = len(here), VISITED[searches], BESIDE[searches]
    # Ranks in a random order, of which two differ in a binary digit; few entries move each by itself.
    ranks = probes.gaussian(1, size, here, purpose=9)[0].argsort()
    digits = [ranks >> digit & 1 == 1 for digit in range((size - 1).bit_length())]
    parting = torch.eye(size, dtype=torch.bool, device=here.device) if size <= PROBES else torch.stack(digits)
    if place is not None:
        yield place, torch.cat([parting, ~parting]), False
    halves = probes.gaussian(visited * HALVES[searches] + beside, size, here, purpose=8) > 0
    steps = vectors - here
    mixed = probes.gaussian(1, len(steps), here, purpose=12)[0].argsort().tolist()
    # By turns the farthest, in order, and any.
    ways = steps[list(dict.fromkeys(place for pair in enumerate(mixed) for place in pair))]
    for way, some in zip(ways[:visited], halves[beside:].split(HALVES[searches]), strict=False):
        sets = torch.cat([parting, some])
        yield here + way, torch.cat([sets, ~sets]), True
    spread = steps.square().mean(0).sqrt() if len(steps) else torch.ones_like(here)
    factor, wide = probes.gaussian(2, beside, here, purpose=10)
    lengths = wide.exp2()
    near = lengths[2::4]
    near[:] = torch.linspace(-1.0, NEAREST, len(near) + 1)[1:].exp2()
    away = probes.gaussian(beside, size, here, purpose=11) * spread * lengths[:, None]
    for index, half in enumerate(halves[:beside]):
        way = away[index]
        if len(ways) and index % 2:
            way = ways[index // 2 % len(ways)] * (factor[index].sigmoid() if index % 4 == 1 else 1.0)
        sets = parting if index % 4 == 2 else half[None]
        yield here + way, torch.cat([sets, ~sets]), False
