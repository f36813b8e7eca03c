"""One code read twice: Φ and G on tensors against Φ and G on balls, before anything is proved of them."""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from automata.errors import InputError
from theory.blocks import flatten, replace
from theory.fixed_point import EPSILON
from theory.forward_mode import MAX_CHUNK_ENTRIES, dual, jvp
from theory.pure_maps import called
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.enclosure import unit_vectors
from theory.rigorous.tensors.enclosed_tensor import (
    NAMES,
    EnclosedTensor,
    Heard,
    listening,
    operands,
    operation,
)
from theory.rigorous.tensors.transitions import EnclosedTransitionBatch
from theory.transition import State, Transition, TransitionBatch

SAME = 4.0
"""Largest distance of a number on tensors from that on balls, in radii and units in the last place."""
NEARBY = 2.0**-10
"""Relative distance of a second comparison: terms that vanish at a fixed point show there."""
TINY = 2.0**-960
"""The most that underflow may lose."""

IN_PLACE = {"__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow"))}
"""In-place operators whose names do not end as those of methods do."""
CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type_as"})
"""Methods that change the type of floating-point numbers."""
_TENSOR: Any = Tensor
_ASKED = (_TENSOR.requires_grad.__get__, torch.is_grad_enabled)
"""Functions that tell whether a gradient is recorded."""
_SLOPES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda x: x.cosh().square().reciprocal(),
    "expm1": torch.exp,
    "sigmoid": lambda x: x.sigmoid() * x.neg().sigmoid(),
}
"""Derivatives that PyTorch takes from the value, with the rounding of one where it is near ±1."""

Array = NDArray[np.float64]
Read = TypeVar("Read")


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:  # noqa: ARG001
    return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        return functional.gelu(x, approximate=approximate)
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))


ACCURATE: Mapping[Any, Callable[..., Tensor]] = {functional.softplus: _softplus, functional.gelu: _gelu}
"""PyTorch takes softplus for x itself from a threshold on, and 1 + tanh loses what is left near −1."""


class AsReal(TorchFunctionMode):
    """Runs code on tensors as the function of real numbers that it stands for; notes what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.coarsest = EPSILON  # the machine epsilon of the coarsest type among the results
        self.writes = False  # whether an operator works in place
        self.calls: list[str] = []  # the names of the functions that were called

    def reading(self, function: Callable[..., Read]) -> Callable[..., Read]:
        """Return a function that is run so."""

        def read(*arguments: Any) -> Read:
            with self:
                return function(*arguments)

        return read

    def __torch_function__(
        self, function: Any, _types: Any, arguments: Any = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function of PyTorch."""
        name = getattr(function, "__name__", "")
        self.calls.append(name)
        in_place = name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))
        self.writes |= in_place or bool((options or {}).get("inplace"))
        found = self._call(function, arguments, options or {})
        if isinstance(found, Tensor) and found.is_floating_point():
            self.coarsest = max(self.coarsest, torch.finfo(found.dtype).eps)
        return found

    def _call(self, function: Any, arguments: Any, options: Mapping[str, Any]) -> Any:
        return ACCURATE.get(function, function)(*arguments, **options)


class _Traced(AsReal):
    """Keeps the result of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[Tensor] = []

    def same_as(self, other: "_Traced") -> bool:
        """Return whether the same functions were called, and gave the same numbers."""
        pairs = zip(self.results, other.results, strict=False)
        return self.calls == other.calls and all(_equal(mine, its) for mine, its in pairs)

    def _call(self, function: Any, arguments: Any, options: Mapping[str, Any]) -> Any:
        found = super()._call(function, arguments, options)
        if isinstance(found, Tensor):
            self.results.append(found.clone())  # in-place operators may change it
        return found


def _equal(one: Tensor, other: Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.equal(one.nan_to_num(), other.nan_to_num())


class _AsSmooth(AsReal):
    """Runs code as balls do: in float64, with a gradient that nothing stops and that is accurate.

    Counts the operations on what depends on a latent or a state, and names the functions without a form on
    balls that are given it: code may catch their refusal, or call them on tensors alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.heard = Heard()
        self.unknown: list[str] = []

    def _hear(self, function: Any, options: Mapping[str, Any]) -> None:
        """Note a function that is given what depends on a latent or a state."""
        name = NAMES[function] if function in NAMES else getattr(function, "__name__", str(function))
        if name in ("__get__", "__set__"):  # an attribute
            name = getattr(getattr(function, "__self__", None), "__name__", name)
        own = getattr(EnclosedTensor, name, None)
        if function not in NAMES and operation(name) is None and own in (None, EnclosedTensor._refuse):
            self.unknown.append(name)
        self.heard.add(name, options)

    def _call(self, function: Any, arguments: Any, options: Mapping[str, Any]) -> Any:
        if function is torch._C._set_grad_enabled:
            return None
        if function in _ASKED:
            return True
        x = arguments[0] if arguments else None
        name = NAMES.get(function, "")
        known = dual(x)
        if known is not None:
            if function == _TENSOR.data.__set__ and arguments[1] is x:  # what `h.data -= z` leaves
                return None
            if function == _TENSOR.data.__get__ or name == "detach":
                return x
            if name in _SLOPES:
                self._hear(function, options)
                value = function(known[0])
                return forward_ad.make_dual(value, known[1] * _SLOPES[name](known[0]))
        if any(dual(each) is not None for each in operands(arguments, options)):
            self._hear(function, options)
            if name in CASTS:
                return x
            arguments, options = _doubled(arguments), {key: _doubled(each) for key, each in options.items()}
        return super()._call(function, arguments, options)


def _doubled(operand: Any) -> Any:
    """An operand in float64, as balls take it."""
    if isinstance(operand, tuple | list):
        return type(operand)(map(_doubled, operand))
    if isinstance(operand, torch.dtype):
        return torch.float64 if operand.is_floating_point else operand
    coarse = isinstance(operand, Tensor) and operand.is_floating_point() and operand.dtype != torch.float64
    return operand.double() if coarse else operand


def compare_beside(
    transitions: TransitionBatch,
    balls: EnclosedTransitionBatch,
    state: Mapping[str, Array],
    latents: Array,
    columns: Sequence[NDArray[np.int64]] = (),
) -> None:
    """Do as `compare`, at points and at random ones beside them."""
    drawn = np.random.default_rng(secrets.randbits(63))
    beside = {
        name: entry + NEARBY * (1 + np.abs(entry)) * drawn.standard_normal(entry.shape)
        if entry.dtype.kind == "f"
        else entry
        for name, entry in {"": latents, **state}.items()
    }
    compare(transitions, balls, state, latents, columns)
    latents = beside.pop("")
    compare(transitions, balls, beside, latents, columns)


@torch.no_grad()
@np.errstate(all="ignore")
def compare(
    transitions: TransitionBatch,
    balls: EnclosedTransitionBatch,
    state: Mapping[str, Array],
    latents: Array,
    columns: Sequence[NDArray[np.int64]] = (),
    *,
    finite: bool = False,
) -> None:
    """Refuse code that is one function of tensors and another one of balls.

    Values are compared as the code computes them. A second evaluation is in float64 throughout, with
    gradients enabled. It has to call the same functions, and its values and derivatives are compared to the
    rounding of float64. In inference mode, which knows no derivatives, every result on the way has to be the
    same number. The derivatives are those that proofs take: by each entry of the latent, and by one
    of every layer's block. They show what a large constant or a coarse type hides in values. Code that is
    random or remembers gives each evaluation other numbers.

    Shapes: state ``[T, …]``, latents ``[T, d]``, columns ``[T]``. InputError where Φ or G differ by more
    than rounding, or what they are given is changed, or code that uses a type coarser than float32 works in
    place.
    """
    enclosed = balls.enclosed(state)
    on_balls = Heard(whole=frozenset(name for name, entry in state.items() if entry.dtype.kind != "f"))
    drawn = np.random.default_rng(secrets.randbits(63))
    along = [
        unit_vectors(enclosed[block].shape, columns[layer])
        if columns
        else drawn.standard_normal(enclosed[block].shape)
        for layer, block in enumerate(balls.blocks)
    ]
    with listening(on_balls):
        image, updates = balls.advance(
            Dual.variable(Ball.exact(latents), balls.latent_size + len(along)),
            enclosed,
            {block: Ball.exact(vectors) for block, vectors in zip(balls.blocks, along, strict=True)},
        )
    found = {"Φ": image} | {
        f"h' of {block}": update.following for block, update in zip(balls.blocks, updates, strict=True)
    }
    readings: list[_AsSmooth] = []
    for index, latent in enumerate(latents):
        z, transition = torch.from_numpy(latent), transitions[index]
        s = {name: torch.from_numpy(np.asarray(entry[index])) for name, entry in state.items()}
        watched, inferring = _Traced(), _Traced()
        image_there = called("self_map", watched.reading(transition.self_map), z, s)
        following = called("state_update", watched.reading(transition.state_update), z, s)
        with torch.inference_mode():
            called("self_map", inferring.reading(transition.self_map), z, s)
            called("state_update", inferring.reading(transition.state_update), z, s)
        if not watched.same_as(inferring):
            raise InputError(
                "Φ or G computes something else in inference mode; write one formula, without a condition on "
                "modes of PyTorch or what changes between calls"
            )
        if watched.writes and watched.coarsest > torch.finfo(torch.float32).eps:
            raise InputError(
                "Φ or G work in place beside numbers of a type coarser than float32, where tensors and balls "
                "are compared too roughly to trust that; write y = y + ... in place of y += ..."
            )
        values = [image_there, *(flatten(following, names) for names in balls.layer_states)]
        exact, slopes, smooth = _differentiated(transition, z, s, [vectors[index] for vectors in along])
        if smooth.calls != watched.calls:
            raise InputError(
                "Φ or G calls other functions of PyTorch where gradients are recorded or all is float64; "
                "write one formula, without a condition on types, gradients or what changes between calls"
            )
        for (name, numbers), *tensors in zip(found.items(), values, exact, slopes, strict=True):
            plain, precise, slope = (tensor.numpy() for tensor in tensors)
            value, tangent = numbers.value[index], numbers.tangent[index]
            known = np.isfinite(value.midpoint) & np.isfinite(value.radius)
            _same(name, plain, value, watched.coarsest, np.full(known.shape, finite))
            _same(name, precise, value, EPSILON, known | finite)
            known = known[:, None] & np.isfinite(tangent.midpoint) & np.isfinite(tangent.radius)
            _same(f"the derivative of {name}", slope, tangent, EPSILON, known)
        readings.append(smooth)
    for smooth in readings:  # each of Φ and G runs the whole code, which balls run once
        _check_heard(smooth, on_balls, "on tensors", "on balls", times=2)


@torch.no_grad()
@np.errstate(all="ignore")
def compare_orbit(
    transition: Transition, balls: EnclosedTransitionBatch, state: Mapping[str, Array], steps: int
) -> None:
    """Refuse a Φ that takes other values on tensors than on balls at one of the first steps from z = 0.

    The balls are at as many positions as steps, at least one; the state has no axis of positions.
    """
    s = {name: torch.from_numpy(np.asarray(entry)) for name, entry in state.items()}
    z, watched = torch.zeros(transition.latent_size, dtype=torch.float64), AsReal()
    latents, images = [], []
    for _ in range(steps):
        latents.append(z)
        images.append(watched.reading(transition.self_map)(z, s))
        z = z + transition.damping * (images[-1] - z)
    everywhere = {name: np.repeat(entry[None], steps, 0) for name, entry in state.items()}
    at = Dual.constant(Ball.exact(torch.stack(latents).numpy()), 0)
    image = balls.advance(at, balls.enclosed(everywhere), {})[0].value
    numbers = torch.stack(images).numpy()
    _same("Φ, from z = 0,", numbers.T, image.transpose(), watched.coarsest, np.full(numbers.T.shape, True))


@torch.no_grad()
def compare_in_batches(
    function: Callable[[State, Tensor], Any],
    state: Mapping[str, Tensor],
    inputs: Tensor,
    on_balls: Heard | None = None,
) -> None:
    """Refuse a function that does something else with a batch of states than with each of them alone.

    It is called with and without the leading axis of states and inputs. InputError if other functions are
    called, than on balls too where they were heard, or one without a form on balls, or if a batch of all
    states has other values than each of them alone.
    """

    def of(rows: int | slice) -> tuple[_AsSmooth, dict[str, Tensor]]:
        watched = _AsSmooth()
        with forward_ad.dual_level():
            taken = {name: part[rows] for name, part in state.items()}
            duals = {
                name: forward_ad.make_dual(part, torch.zeros_like(part)) if part.is_floating_point() else part
                for name, part in taken.items()
            }
            found = watched.reading(function)(duals, inputs[rows])
            parts = found if isinstance(found, Mapping) else {"what is read": found}
            return watched, {name: forward_ad.unpack_dual(part).primal for name, part in parts.items()}

    alone = [of(row) for row in range(len(inputs))]
    heard = alone[0][0].heard
    for reading, _ in alone:
        _check_heard(reading, heard if on_balls is None else on_balls, "on tensors", "on balls")
    for rows in (slice(None), slice(1)):
        batch, values = of(rows)
        _check_heard(batch, heard, "with a batch", "with one state")
        for name, value in values.items():
            expected = torch.stack([parts[name] for _, parts in alone[rows]])
            if value.shape != expected.shape or not torch.allclose(value, expected, rtol=1e-9, atol=1e-9):
                raise InputError(
                    f"{name} is another with a batch of states than with each alone; write a step that takes "
                    "each state for itself"
                )


def _check_heard(reading: _AsSmooth, other: Heard, there: str, here: str, times: int = 1) -> None:
    """Refuse code that calls what has no form on balls, or other operations than in another reading."""
    if reading.unknown:
        raise InputError(
            f"{there} the code gives latent or state to torch.{reading.unknown[0]}, which has no form on "
            "balls; write one formula for both"
        )
    if reading.heard.counts != {name: times * count for name, count in other.counts.items()}:
        raise InputError(
            f"the code calls other functions of PyTorch {there} than {here}; write one formula for both, "
            "without a condition on types or shapes, and without try"
        )


def _same(name: str, number: Array, ball: Ball, unit: float, known: NDArray[np.bool_]) -> None:
    """Refuse numbers that differ, and such as are not finite where they are known to be."""
    allowed = SAME * (unit * np.abs(number) + unit / EPSILON * ball.radius) + TINY
    excess = np.abs(ball.midpoint - number) - allowed
    excess = np.where(np.isnan(excess), np.where(known, np.inf, 0.0), excess)
    if excess.size and not excess.max() <= 0:
        worst = np.unravel_index(int(excess.argmax()), excess.shape)
        raise InputError(
            f"entry {worst[0]} of {name} is {number[worst]:.17g} on tensors, {ball.midpoint[worst]:.17g} on "
            "balls; write one formula for both, without isinstance, in float64, that is finite at the states"
        )


def _differentiated(
    transition: Transition, z: Tensor, s: State, along: Sequence[Array]
) -> tuple[list[Tensor], list[Tensor], _AsSmooth]:
    """Φ and h' of each layer in float64, derivatives with a last axis of columns, and what was called."""
    size, columns = len(z), len(z) + len(along)
    moving = {name: part for name, part in s.items() if part.is_floating_point()}
    tangents = {name: torch.zeros(columns, *part.shape, dtype=z.dtype) for name, part in moving.items()}
    for column, (layer, vector) in enumerate(zip(transition.layer_states, along, strict=True), start=size):
        moved = replace(s, layer, torch.from_numpy(vector))
        for name in layer:
            tangents[name][column] = moved[name]
    chunk = max(1, MAX_CHUNK_ENTRIES // sum(part.numel() for part in (z, *moving.values())))
    used: list[_AsSmooth] = []

    def evaluate(latent: Tensor, state: State) -> list[Tensor]:
        watched = _AsSmooth()
        image = watched.reading(transition.self_map)(latent, {**s, **state})
        following = watched.reading(transition.state_update)(latent, {**s, **state})
        used[:] = [watched]
        return [image, *(flatten(following, layer) for layer in transition.layer_states)]

    def along_one(*directions: Any) -> Any:
        return jvp(evaluate, (z, moving), directions)

    try:
        with torch.enable_grad():
            # Not out_dims=-1: vmap gives what no direction changes a shape of its own there.
            values, slopes = vmap(along_one, chunk_size=chunk)(
                torch.eye(columns, size, dtype=z.dtype), tangents
            )
    except RuntimeError as fault:
        if "data pointer" in str(fault):
            raise InputError("Φ or G calls NumPy or .numpy(); make constants before, as tensors") from fault
        raise InputError(f"Φ or G has no derivative: {' '.join(str(fault).split())}") from fault
    return [value[0] for value in values], [slope.movedim(0, -1) for slope in slopes], used[0]
