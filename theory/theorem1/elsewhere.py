"""The map h ↦ h' seen from one state at another one: the defect of the secant, and the change of a slope.

Both cost a few evaluations only, so that many states can be looked at. Their findings are measured in full
before they count.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vmap

from theory.blocks import BlockMap, last_place_displacements, random_signs
from theory.fixed_point import EPSILON, ERROR_MARGIN
from theory.forward_mode import directional, jvp
from theory.jacobian.factored import latent_jacobian
from theory.theorem1.cross_checks import at_once, difference_step
from theory.theorem1.measured_state import MeasuredJacobian, MeasuredState


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
def look(origin: Origin, there: MeasuredState, *, slope: bool = False) -> Sight:
    """Return what is seen at a state at which C1 to C3 hold."""
    block = BlockMap(there.transition, there.state, origin.block.names)
    image, error, _ = image_at(there, block)
    change = (_product(there, block, origin.direction) - origin.product).norm().item() if slope else 0.0
    length = (block.vector - origin.block.vector).norm().item()
    defect = origin.deviation(block.vector, image).norm().item()
    return origin.sight(length, defect, origin.product_rounding(block.vector).item(), change, error)


@torch.no_grad()
def screen(
    origin: Origin, vectors: Tensor, solved: Callable[[Tensor], MeasuredState], *, slopes: bool = True
) -> Iterator[tuple[Tensor, Sight]]:
    """Look at values of the block, ``[m, n]``: yield each at which C1 to C3 hold, with what is seen there.

    Without a latent all are looked at in one batch.
    """
    if not len(vectors):
        return
    if origin.has_latent:
        for vector in vectors:
            there = solved(vector)
            if there.holds:
                yield vector, look(origin, there, slope=slopes)
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
        explained = sight.defect <= ERROR_MARGIN * sight.rounding
        yield vector, sight if explained else look(origin, solved(vector), slope=True)


def _images(origin: Origin, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return F and its derivative along g at many values of a block without a latent."""
    # What is drawn or measured once is so before vmap, which allows neither.
    block, latent, direction = origin.block, origin.measured.fixed_point.latent, origin.direction

    def along(vector: Tensor) -> Tensor:
        return torch.stack(jvp(lambda v: block.state_update(latent, v), (vector,), (direction,)))

    images, products = at_once(along, vectors).unbind(dim=1)
    return images, products


def _product(there: MeasuredState, block: BlockMap, direction: Tensor) -> Tensor:
    """Return J g at another state, by forward mode through the fixed point."""
    latent, vector = there.fixed_point.latent, block.vector
    if not latent.numel():
        return directional(lambda v: block.state_update(latent, v), vector, direction[None])[0]
    source = directional(lambda v: block.self_map(latent, v), vector, direction[None])[0]
    identity = torch.eye(latent.numel(), dtype=latent.dtype, device=latent.device)
    slope = latent_jacobian(there.transition, there.state, latent)
    tangent = torch.linalg.solve(identity - slope, source)
    through = directional(lambda z: block.state_update(z, vector), latent, tangent[None])[0]
    return through + directional(lambda v: block.state_update(latent, v), vector, direction[None])[0]


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
