"""Whether an entry of h' changes with other entries over a whole distance: J at a point cannot show it.

Of a diagonal transition, h'_i stays where h_i does. So some entries of h are moved, and the images of the
others are compared with the rounding of each, which no unit of measurement changes.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from theory.blocks import BlockMap
from theory.fixed_point import EPSILON, ERROR_MARGIN
from theory.theorem1.cross_checks import at_once
from theory.theorem1.elsewhere import UNSEEN, Origin, Sight, image_at, look
from theory.theorem1.linearity import surroundings
from theory.theorem1.measured_state import MeasuredJacobian, MeasuredState
from theory.theorem1.probes import PROBES
from theory.transition import State

MOVES = {False: 48, True: 4}
"""How many times entries are moved, without and with a latent; then all others are."""

TRIED = 3
"""How many of the moves that show most are looked at until one is established."""
NEARBY = 2.0**-26
"""The share by which a state is displaced to see how rough an image is; what bends counts with its square."""


@torch.no_grad()
def look_at_other_entries(
    measured: MeasuredState,
    layer: int,
    here: MeasuredJacobian,
    others: Sequence[State],
    start: Tensor | None = None,
    max_iterations: int = 4000,
) -> tuple[Sight, Sight]:
    """Return by how much an entry of h' changes where its own does not move, relative to its size.

    Args:
        measured: the state from which entries are moved, at which C1 to C3 hold.
        layer: which layer.
        here: J of that layer there.
        others: states whose entries are moved to.
        start: the first latent of every solve; zeros if not given.
        max_iterations: the largest number of damped iterations of a solve.

    Returns:
        The change that stands out most, with its error, and the defect of the secant to that place; NaN where
        nothing could be evaluated.

    Example:
        >>> from theory.transition import Transition
        >>> switch = Transition(
        ...     lambda z, s: z, lambda z, s: {"h": s["h"] / 2 + (s["h"].flip(0) > 0.5).double()}, 0, (("h",),)
        ... )
        >>> states = [{"h": torch.tensor(entries).double()} for entries in ([0.7, 0.3], [0.1, 0.9])]
        >>> measured = MeasuredState.at(switch, states[0])
        >>> change, secant = look_at_other_entries(measured, 0, measured.jacobians()[0], states)
        >>> change.defect > 0.1, secant.defect > 0.1
        (True, True)
    """
    origin, vectors, solved = surroundings(measured, layer, here, others, start, max_iterations)
    vector, (image, _, image_noise) = origin.block.vector, origin.image
    moved, points = _moves(origin, vectors)
    if origin.has_latent:
        images = torch.stack([_image(origin, solved(point))[0] for point in points])
        change = images - image
    else:
        latent = origin.measured.fixed_point.latent
        # The state itself goes into the batch, so that what a batch rounds otherwise cancels.
        images = at_once(lambda v: origin.block.state_update(latent, v), torch.cat([vector[None], points]))
        change = images[1:] - images[0]
    size = images.nan_to_num(0.0, 0.0, 0.0).abs().amax(0).maximum(image.abs())
    size = torch.where(size > 0, size, 1.0)
    # The differences that J was compared with show how rough each entry is over a short way.
    noise = 2 * here.row_errors * origin.short / math.sqrt(len(vector)) + image_noise + EPSILON * size
    change = change.abs().where(~moved & change.isfinite(), 0.0)
    clearest = (change / noise).amax(1).argsort(descending=True)[:TRIED]
    found = UNSEEN, UNSEEN
    for place in clearest.tolist():  # one of them may lie on a jump, where all is rough
        there = solved(points[place])
        if not there.holds:
            continue
        image_there, noise_there = _image(origin, there)
        moves, rough = (image_there - image).abs().where(~moved[place], 0.0), noise + noise_there
        row = (moves / rough).argmax()
        value, error = moves[row] / size[row], rough[row] / size[row]
        shown = bool(value > ERROR_MARGIN * error)
        if shown or found[0] is UNSEEN:
            widest = error if shown else (rough / size).max()
            found = Sight(value.item(), widest.item(), error.item()), look(origin, there)
        if shown:
            break
    return found


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


def _moves(origin: Origin, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries are moved and where to: to visited states, and between and beside them."""
    here, probes, count = origin.block.vector, origin.measured.probes, MOVES[origin.has_latent]
    size = len(here)
    if size <= PROBES:  # each by itself
        chosen = torch.eye(size, dtype=torch.bool, device=here.device).repeat(-(-count // size), 1)
    else:
        chosen = probes.gaussian(count, size, here, purpose=9) > 0
    steps = vectors - here
    spread = steps.square().mean(0).sqrt() if len(steps) else torch.ones_like(here)
    factor, wide = probes.gaussian(2, len(chosen), here, purpose=10)
    goals = probes.gaussian(len(chosen), size, here, purpose=11) * spread * wide.exp2()[:, None]
    moved, far = torch.cat([chosen, ~chosen]), here + torch.cat([goals, goals])
    if not len(steps):
        return moved, torch.where(moved, far, here)
    # By turns to the farthest, in order, and to any: each entry by itself goes the same ways.
    turns = torch.arange(len(chosen), device=here.device) // (size if size <= PROBES else 1)
    mixed = probes.gaussian(1, len(steps), here, purpose=12)[0].argsort()
    farthest = turns // 2 % len(steps)
    ways = steps[torch.where(turns % 2 == 0, farthest, mixed[farthest])]
    ways = torch.cat([ways, ways, factor.sigmoid()[:, None] * ways])
    moved = torch.cat([moved, moved[: len(chosen)], moved])
    return moved, torch.where(moved, torch.cat([here + ways, far]), here)
