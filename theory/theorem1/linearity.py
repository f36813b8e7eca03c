"""Whether a layer's map h ↦ h' is affine: J and the images at one state against those at others.

An affine map F has J everywhere the same and F(h̃) − F(h) = J (h̃ − h). The first is measured at the farthest
other h̃. The second costs no further Jacobian, and shows what the first may miss: at h and −h the Jacobian of
tanh is the same, and so is that of sin at 0 and 2π or of a switch between two affine maps.
"""

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from theory.blocks import BlockMap, flatten, last_place_displacements, random_signs
from theory.fixed_point import EPSILON
from theory.theorem1.conditions import Verdict, judge
from theory.theorem1.cross_checks import difference_step
from theory.theorem1.measured_state import MeasuredJacobian, MeasuredState
from theory.transition import State

MAX_CANDIDATES = 3
"""How many other visited states are tried until C1 to C3 hold at one."""
MAX_COMPARED = 16
"""How many other visited states are tried in all where nothing contradicts linearity."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How J and the images at a state differ from those at the other visited states.

    Attributes:
        change: ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F at the farthest h̃ at which C1 to C3 hold; NaN without one.
        change_error: its measured error.
        defect: the largest ‖F(h̃) − F(h) − J(h) (h̃ − h)‖ / (‖J(h)‖_F ‖h̃ − h‖); NaN without any.
        defect_error: its measured error.
        note: why there is none, if there is none.

    Example:
        >>> Comparison(math.nan, math.nan, math.nan, math.nan, "no other visited state").contradicts
        False
        >>> Comparison(0.0, 1e-9, 0.3, 1e-9).contradicts
        True
    """

    change: float = math.nan
    change_error: float = math.nan
    defect: float = math.nan
    defect_error: float = math.nan
    note: str = ""

    @property
    def contradicts(self) -> bool:
        """Whether one of the two contradicts linearity."""
        pairs = ((self.change, self.change_error), (self.defect, self.defect_error))
        return any(judge(*pair) is Verdict.HOLDS for pair in pairs)


def compare(
    measured: MeasuredState,
    layer: int,
    here: MeasuredJacobian,
    others: Sequence[State],
    start: Tensor | None = None,
    max_iterations: int = 4000,
) -> Comparison:
    """Compare one layer at a state with the values of its block at other states, the farthest first.

    The token and the rest of the state stay as they are. The search ends when something contradicts
    linearity, so that a non-linear transition costs one comparison.

    Args:
        measured: the state, at which C1 to C3 hold.
        layer: which layer.
        here: J of that layer there.
        others: states that give h̃.
        start: the first latent of every solve; zeros if not given.
        max_iterations: the largest number of damped iterations of a solve.

    Example:
        J of tanh is the same at 1 and −1, yet tanh 1 − tanh(−1) is not 2 tanh'(1).

        >>> from theory.transition import Transition
        >>> tanh = Transition(lambda z, s: z, lambda z, s: {"h": s["h"].tanh()}, 0, (("h",),))
        >>> states = [{"h": torch.tensor([value]).double()} for value in (1.0, -1.0)]
        >>> measured = MeasuredState.at(tanh, states[0])
        >>> found = compare(measured, 0, measured.jacobians()[0], states)
        >>> found.change, round(found.defect, 4)  # tanh 1 / (1 − tanh² 1) − 1
        (0.0, 0.8134)
    """
    names = measured.transition.layer_states[layer]
    block = BlockMap(measured.transition, measured.state, names)
    vectors = torch.stack([flatten(other, names) for other in others])
    distances = (vectors - block.vector).norm(dim=1)
    found = Comparison(note="no other visited state differs in this block, give more states")
    if distances.any():
        found = Comparison(note="C1 to C3 are not established with the block of another visited state")
    single_layer = dataclasses.replace(measured.transition, layer_states=(names,))
    image, image_error = _image(measured, block)
    for attempt, index in enumerate(distances.argsort(descending=True)[:MAX_COMPARED].tolist()):
        if distances[index] == 0 or (attempt >= MAX_CANDIDATES and found.note):
            break
        there = MeasuredState.at(single_layer, block.at(vectors[index]), start, max_iterations)
        if not there.holds:
            continue
        if found.note:
            found = _change(here, there)
        defect, error = _defect(block, here, image, image_error, there)
        if not defect <= found.defect:  # the largest, or the first
            found = dataclasses.replace(found, defect=defect, defect_error=error)
        if found.contradicts:
            break
    return found


def _change(here: MeasuredJacobian, there: MeasuredState) -> Comparison:
    (elsewhere,) = there.jacobians()
    change = (here.jacobian - elsewhere.jacobian).frobenius_norm() / here.scale
    return Comparison(change, max((here.error + elsewhere.error) / here.scale, EPSILON))


@torch.no_grad()
def _defect(
    block: BlockMap, here: MeasuredJacobian, image: Tensor, image_error: float, there: MeasuredState
) -> tuple[float, float]:
    """Return the defect of the secant from here to there, and its error."""
    other = BlockMap(there.transition, there.state, block.names)
    step = other.vector - block.vector
    reached, reached_error = _image(there, other)
    defect = (reached - image - here.jacobian.matvec(step)).norm().item()
    length = step.norm().item()
    # J's error was measured over displacements of this size; over shorter ones it is mostly the images'.
    error = here.error * max(length, difference_step(block.vector, image)) + image_error + reached_error
    return defect / (here.scale * length), error / (here.scale * length)


@torch.no_grad()
def _image(measured: MeasuredState, block: BlockMap) -> tuple[Tensor, float]:
    """Return h' and its error: its change when h moves by one unit in the last place, z by its own error."""
    latent, vector = measured.fixed_point.latent, block.vector
    image = block.state_update(latent, vector)
    reach = 0.0
    if latent.numel():
        # The residual over the smallest singular value of I − ∂zΦ bounds the distance to the fixed point.
        reach = measured.fixed_point.threshold / measured.conditions[1].value / math.sqrt(latent.numel())
    latents = latent + reach * random_signs(2, latent.numel(), latent)
    vectors = last_place_displacements(vector, 2, seed=1)
    change = 0.0
    for nearby_latent, nearby_vector in zip(latents, vectors, strict=True):
        nearby = block.state_update(nearby_latent, nearby_vector)
        change = max(change, (nearby - image).norm().item())
    return image, change + EPSILON * image.norm().item()
