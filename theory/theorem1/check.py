"""Theorem 1 measured at visited states: the conditions C1 to C4, then the two conclusions.

A proof with its assumptions stands in ``theory/README.md``; here is its numerical counterpart. The
conclusions are read off each layer's block J = ∂h'/∂h:

- *non-diagonal*: ‖J − diag J‖_F / ‖J‖_F is positive, or an entry of h' changes when only others of h move;
- *non-linear*: ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F, or the difference between h'(h̃) − h'(h) and J(h) (h̃ − h), is
  positive for another visited value h̃ of the same block, with the token and the rest of the state unchanged.
  (The map h ↦ h' is affine only if J is constant and every secant follows it.)

Thresholds come from the error of J, measured at every state against finite differences of the actual map.
Neither property depends on the units of the entries. Where norms do not show both, they are taken again in
units in which every entry has the typical size 1 (:mod:`theory.theorem1.units`). The same numbers give the
kind of the transition (:mod:`theory.theorem1.kinds`), for every model.
"""

import copy
import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from automata.checks import check_integer, check_type
from automata.errors import InputError
from theory.blocks import BlockMap, validate
from theory.fixed_point import EPSILON, ERROR_MARGIN, solve_fixed_point
from theory.pure_maps import called, validate_states
from theory.theorem1.conditions import (
    LayerConclusion,
    MeasuredJacobian,
    MeasuredState,
    Search,
    Verdict,
    coupling_condition,
    second_term_mass,
    unmeasured,
)
from theory.theorem1.cross_checks import Probes, is_contradicted, jacobian_rounding
from theory.theorem1.linearity import Comparison, compare, largest_row
from theory.theorem1.other_entries import look_at_other_entries
from theory.theorem1.report import StateCheck, Theorem1Report
from theory.theorem1.units import Units
from theory.transition import State, Transition

LARGEST = 1e150
"""The largest number of a state: norms add the squares of many, and of what is some way beyond."""


def check_theorem1(
    transition: Transition,
    states: Sequence[State],
    *,
    alternatives: Sequence[State] | None = None,
    start: Tensor | None = None,
    max_iterations: int = 4000,
    label: str = "",
    seed: int | None = None,
) -> Theorem1Report:
    """Measure the conditions and conclusions of Theorem 1 at visited states of one token.

    Reports of several tokens are joined by :meth:`theory.Theorem1Report.merge`.

    Limits: "diagonal" and "linear" speak of the evaluations that were made, which depend on the seed.
    :func:`theory.theorem1.other_entries.look_at_other_entries` says which couplings these find for certain.
    Differences step by about 1e-5 of an entry's size: where states differ by less, far from zero, a jump
    between them counts as rounding. Shift such entries to where they are small.
    InputError if there is no state, or one cannot be used, such as one beyond ±1e150.

    Args:
        transition: the pair (Φ, G) of the token, in float64.
        states: the states at which the theorem is checked, without a batch axis.
        alternatives: states that give h̃ for the nonlinearity, ``states`` if not given; the one farthest
            from h comes first, the others where it shows no nonlinearity.
        start: the first latent of every solve, as the model takes it; zeros if not given.
        max_iterations: the largest number of damped iterations of a solve.
        label: names the token in messages.
        seed: of the directions along which errors are measured and of the states in between. The operating
            system's, if not given, so that no transition can be made for them; ``StateCheck.seed`` holds it.

    Example:
        An RNN in implicit form, h' = tanh(W h) with Φ(z) = h:

        >>> import torch
        >>> W = torch.tensor([[0.5, 1.0], [-1.0, 0.5]], dtype=torch.float64)
        >>> rnn = Transition(
        ...     self_map=lambda z, s: s["h"],
        ...     state_update=lambda z, s: {"h": s["h"] / 2 + torch.tanh(W @ z) - z / 2},
        ...     latent_size=2,
        ...     layer_states=(("h",),),
        ... )
        >>> states = [{"h": torch.tensor([1.0, 0.5]).double()}, {"h": torch.zeros(2).double()}]
        >>> check_theorem1(rnn, states).reasons
        {'holds: the transition is non-diagonal and non-linear': 2}
    """
    validate_states(transition, states)
    if seed is not None:
        check_integer("seed", seed, 0)
    others = states if alternatives is None else alternatives
    for state in others:
        validate(transition, state)
    _check_sizes(transition, (*states, *others))
    probes = [Probes() if seed is None else Probes(seed + index) for index in range(len(states))]
    return Theorem1Report(
        tuple(
            _check_in_any_units(
                Search(start, max_iterations, probes[index]).measure(transition, state),
                others,
                f"{label}[{index}]",
            )
            for index, state in enumerate(states)
        )
    )


def _check_sizes(transition: Transition, states: Sequence[State]) -> None:
    """Refuse numbers whose squares, which norms are made of, are no floats."""
    for name in dict.fromkeys(name for names in transition.layer_states for name in names):
        largest = max((s[name].abs().max().item() for s in states if s[name].numel()), default=0.0)
        if largest > LARGEST:
            raise InputError(
                f"state entry {name!r} holds a number of size {largest:.2g}, whose square is too large for a "
                f"float; give the transition in larger units, with states up to {LARGEST:.0e}"
            )


def _check_in_any_units(measured: MeasuredState, others: Sequence[State], label: str) -> StateCheck:
    """Check a state in its own units; where these do not show both properties, in those of typical size."""
    own = _check_state(measured, others, label)
    if not measured.fixed_point.converged:
        return own
    latent = measured.fixed_point.latent
    units = Units.of(measured.transition, measured.state, others, latent, measured.slope)
    if own.conclusions is Verdict.HOLDS and units.are_similar:
        return own
    search = measured.search
    if search.start is not None:
        search = dataclasses.replace(search, start=search.start / units.latent)
    scaled = search.measure(units.of_transition(), units.shrunk(measured.state))
    found = _check_state(scaled, [units.shrunk(other) for other in others], label, moves=True)
    if not (own.layers and found.layers):
        return own if own.layers else found
    pairs = zip(own.layers, found.layers, strict=True)
    fourth = max(own.conditions[3], found.conditions[3], key=lambda each: each.verdict is Verdict.HOLDS)
    return dataclasses.replace(
        own,
        conditions=(*own.conditions[:3], fourth),
        layers=tuple(here.sharpened(each, trusted=units.are_similar) for here, each in pairs),
        note=own.note and found.note,
    )


def _check_state(
    measured: MeasuredState, others: Sequence[State], label: str, *, moves: bool = False
) -> StateCheck:
    status, seed = measured.fixed_point.status, measured.probes.seed
    if not measured.holds:
        fourth = unmeasured("C4", "an earlier condition is not established")
        return StateCheck(status, (*measured.conditions, fourth), (), label, seed=seed)
    jacobians = measured.jacobians()
    fourth = coupling_condition([each.jacobian for each in jacobians], [each.error for each in jacobians])
    layers, note = [], ""
    for index, here in enumerate(jacobians):
        layer = _Layer(measured, index, here)
        found = compare(measured, index, here, others)
        conclusion = layer.conclusion(found)
        if moves and conclusion.non_diagonal is not Verdict.HOLDS:
            change, secant = look_at_other_entries(measured, index, here, others, found.place)
            shown = found.contradicts
            found = found.with_sight(secant)
            found = dataclasses.replace(found, unvisited=found.unvisited or (found.contradicts and not shown))
            conclusion = dataclasses.replace(
                layer.conclusion(found),
                other_defect=change.defect,
                other_error=change.error,
                other_rounding=change.rounding,
            )
        layers.append(conclusion)
        note = note or found.note
    return StateCheck(status, (*measured.conditions, fourth), tuple(layers), label, note, seed)


@dataclasses.dataclass(frozen=True)
class _Layer:
    """One layer at a state. A conclusion may be drawn twice, from costly numbers that are found once."""

    measured: MeasuredState
    index: int
    here: MeasuredJacobian

    @property
    def names(self) -> tuple[str, ...]:
        return self.measured.transition.layer_states[self.index]

    @cached_property
    def rounding(self) -> float:
        """How far J moves by rounding, relative to its norm."""
        transition, state, latent = self._place
        moved = jacobian_rounding(transition, state, latent, self.index, self.here.jacobian)
        # In coarser arithmetic than float64 the finite differences show what rounding does to h'.
        return (moved + EPSILON ** (1 / 3) * self.here.error) / self.here.scale

    @cached_property
    def is_contradicted(self) -> bool:
        """True if finite differences deny J."""
        transition, state, latent = self._place
        block, probes = BlockMap(transition, state, self.names), self.measured.probes
        here, slope = self.here, self.measured.slope
        return is_contradicted(here.jacobian, here.error, block, latent, probes, slope)

    @property
    def _place(self) -> tuple[Transition, State, Tensor]:
        return self.measured.transition, self.measured.state, self.measured.fixed_point.latent

    def conclusion(self, found: Comparison) -> LayerConclusion:
        here, sight = self.here, found.sight
        mass, mass_error = here.jacobian.off_diagonal_mass(), max(here.error / here.scale, EPSILON)
        measurements = (
            (mass, mass_error, 0.0),
            (found.change, found.change_error, 0.0),
            (sight.defect, sight.error, sight.rounding),
        )
        # Where a number is neither zero nor established, it may be what rounding leaves of a zero.
        tiny = [ERROR_MARGIN * known < value <= ERROR_MARGIN * error for value, error, known in measurements]
        rounding = self.rounding if any(tiny) else 0.0
        # Next to rows that are many times larger, what a small one shows looks like their rounding.
        widest = math.sqrt(here.jacobian.size) * ERROR_MARGIN * rounding
        mass_row = largest_row(here.jacobian, here.jacobian, diagonal=False) if tiny[0] else 0.0
        conclusion = LayerConclusion(
            self.names,
            mass,
            mass_error,
            found.change,
            found.change_error,
            sight.defect,
            sight.error,
            rounding=rounding if mass_row <= widest else 0.0,
            change_rounding=rounding if found.row_change <= widest else 0.0,
            secant_rounding=rounding + sight.rounding,
            compared=found.compared,
            unvisited=found.unvisited,
            second_term_mass=second_term_mass(here.jacobian),
        )
        denied = Verdict.FAILS in (conclusion.non_diagonal, conclusion.non_linear) and self.is_contradicted
        return dataclasses.replace(conclusion, contradicted=True) if denied else conclusion


@runtime_checkable
class HasTransition(Protocol):
    """A model to check: it gives its initial state and (Φ, G) of a token."""

    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token, with a leading batch axis."""
        ...

    def transition(self, token: Any) -> Transition:
        """Return (Φ, G) at a token, a whole number; of a layer, at the features of one."""
        ...


def check(
    model: HasTransition,
    tokens: Tensor | Sequence[int] | Sequence[Sequence[int]],
    *,
    states: int = 16,
    max_iterations: int = 4000,
    seed: int | None = None,
) -> Theorem1Report:
    """Say whether a model's state transition is non-diagonal and non-linear, and whether Theorem 1 says so.

    The model is checked in float64, at states that the tokens lead to, each with the token that is read next.
    Printing the report shows the answer in words; ``headline`` is its first part. InputError for a model
    or tokens of another kind.

    Args:
        model: a module with ``init_state(batch_size)`` and ``transition(token)``. A copy of it is used. Also
            an `implicit.ImplicitLayer` or `implicit.ExplicitLayer`, within whatever network.
        tokens: one sequence or several, ``[length]`` or ``[sequences, length]``. For a layer the features
            that it reads, with an axis more.
        states: how many states are checked at most, spread over the sequences. The state before a first
            token is not among them, unless that token is read nowhere else.
        max_iterations: the most damped iterations of a solve.
        seed: as for `check_theorem1`.

    Example:
        >>> class Halved(nn.Module):
        ...     '''h' = h/2 + token: linear, and without a fixed point.'''
        ...     def init_state(self, batch_size):
        ...         return {"h": torch.zeros(batch_size, 2)}
        ...     def transition(self, token):
        ...         return Transition(lambda z, s: z, lambda z, s: {"h": s["h"] / 2 + token}, 0, (("h",),))
        >>> check(Halved(), [0, 1, 1])
        Diagonal and linear; Theorem 1 does not apply (no fixed point); measured at 3 visited states.
        The transition is diagonal and linear: as in Mamba-2, ...
    """
    remedy = (
        "give a layer or a model of implicit; of another module make one by "
        "implicit.wrap(module, step, state, vocabulary_size=...)"
    )
    check_type("model", model, HasTransition, f"{layer_remedy(model)}{remedy}")
    check_integer("states", states, 1)
    rows, features = _rows(tokens)
    if isinstance(model, nn.Module):
        model = copy.deepcopy(model).double().eval()
    transitions: dict[int, Transition] = {}
    visited: dict[int, list[State]] = defaultdict(list)
    later = {token for row in rows for token in row[1:]}
    places = [
        (number, at)
        for number, row in enumerate(rows)
        for at, token in enumerate(row)
        if at > 0 or not later or (features is None and token not in later)
    ]
    chosen = np.linspace(0, len(places) - 1, min(states, len(places))).round().astype(int)
    wanted, behind = {places[place] for place in chosen}, 0
    for number, row in enumerate(rows):
        last = max((at for of, at in wanted if of == number), default=-1)
        state = {  # of one sequence, in float64
            name: part[0].double() if part.is_floating_point() else part[0]
            for name, part in model.init_state(1).items()
        }
        reached = True
        for at, token in enumerate(row[: last + 1]):
            if token not in transitions:
                transitions[token] = model.transition(token if features is None else features[token])
            if (number, at) in wanted:
                visited[token].append(state)
                behind += not reached
            if at < last:
                transition = transitions[token]
                solution = solve_fixed_point(transition, state, max_iterations=max_iterations)
                reached = reached and solution.converged
                with torch.no_grad():
                    state = called("state_update", transition.state_update, solution.latent, state)
    everywhere = [state for several in visited.values() for state in several]
    merged = Theorem1Report.merge(
        check_theorem1(
            transitions[token],
            several,
            alternatives=everywhere,
            max_iterations=max_iterations,
            label=f"token {token}",
            seed=seed,
        )
        for token, several in visited.items()
    )
    return dataclasses.replace(merged, within=layer_within(model), behind=behind)


def layer_within(model: object) -> str:
    """Return the name of a layer in a module that seeks fixed points by itself; empty if there is none."""
    parts = model.named_modules() if isinstance(model, nn.Module) else ()
    return next((name for name, part in parts if name and _seeks_fixed_points(part)), "")


def layer_remedy(model: object) -> str:
    """Return how to ask about a layer that seeks fixed points, before other remedies; empty if none does."""
    if _seeks_fixed_points(model):
        return "ask theory.check(layer, features), or "
    if isinstance(getattr(model, "model", None), HasTransition):
        return "give its model, such as run.model, or "
    within = layer_within(model)
    return f"ask about its layer, theory.check(model.{within}, features), or " if within else ""


def _seeks_fixed_points(part: object) -> bool:
    return bool(getattr(part, "latent_size", 0)) and isinstance(part, HasTransition)


def _rows(tokens: object) -> tuple[list[list[int]], Tensor | None]:
    """The sequences as lists of whole numbers; for features, the numbers of rows of the tensor beside."""
    try:
        found = torch.as_tensor(tokens)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"tokens is {type(tokens).__name__} of what is no number, or of sequences of several lengths; "
            "give whole numbers, such as [0, 1, 1], or sequences of one length"
        ) from None
    if found.is_floating_point() and found.ndim in (2, 3) and found.numel():
        rows_of = found.detach().double().flatten(0, -2)
        features, numbers = rows_of.unique(dim=0, return_inverse=True)
        return numbers.reshape(-1, found.shape[-2]).tolist(), features
    if found.is_floating_point() or found.is_complex() or found.ndim not in (1, 2) or not found.numel():
        given = f"{found.dtype} of shape {[*found.shape]}" if found.numel() else "empty"
        features = ", or of a layer features, with an axis more" if found.is_floating_point() else ""
        raise InputError(f"tokens is {given}; give whole numbers, [length] or [sequences, length]{features}")
    rows: list[list[int]] = found.reshape(-1, found.shape[-1]).tolist()
    return rows, None
