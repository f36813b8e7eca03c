"""Theorem 1 measured at visited states: the conditions C1 to C4, then the two conclusions.

A proof with its assumptions stands in ``theory/README.md``; here is its numerical counterpart. The
conclusions are read off each layer's block J = ∂h'/∂h:

- *non-diagonal*: ‖J − diag J‖_F / ‖J‖_F is positive;
- *non-linear*: ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F is positive for another visited value h̃ of the same block, with
  the token and the rest of the state unchanged. (The map h ↦ h' is affine only if J is constant.)

Thresholds come from the error of J, measured at every state against finite differences of the actual map.
"""

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from automata.errors import InputError
from theory.blocks import BlockMap, flatten, validate
from theory.fixed_point import EPSILON, FixedPoint, solve_fixed_point
from theory.jacobian.factored import FactoredJacobian, latent_jacobian, layer_jacobians
from theory.theorem1.conditions import (
    Condition,
    Verdict,
    convergence_condition,
    coupling_condition,
    fixed_point_condition,
    invertibility_condition,
    unmeasured,
    vacuous,
)
from theory.theorem1.cross_checks import jacobian_error, latent_jacobian_error
from theory.theorem1.report import LayerConclusion, StateCheck, Theorem1Report
from theory.transition import State, Transition

MAX_CANDIDATES = 3
"""How many other visited states are tried until C1 to C3 hold at one."""


def check_theorem1(
    transition: Transition,
    states: Sequence[State],
    *,
    alternatives: Sequence[State] | None = None,
    start: Tensor | None = None,
    max_iterations: int = 4000,
    label: str = "",
) -> Theorem1Report:
    """Measure the conditions and conclusions of Theorem 1 at visited states of one token.

    Reports of several tokens are joined by :meth:`theory.Theorem1Report.merge`.

    Args:
        transition: the pair (Φ, G) of the token, in float64.
        states: the states at which the theorem is checked, without a batch axis.
        alternatives: states that give h̃ for the nonlinearity, ``states`` if not given; the one farthest
            from h is taken.
        start: the first latent of every solve, as the model takes it; zeros if not given.
        max_iterations: the largest number of damped iterations of a solve.
        label: names the token in messages.

    Raises:
        InputError: if there is no state, or one cannot be used.

    Example:
        An RNN in implicit form: h' = tanh(W h), with Φ(z) = h, is non-diagonal and non-linear; the linear
        h' = h / 2 is neither.

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
        >>> linear = Transition(lambda z, s: z, lambda z, s: {"h": s["h"] / 2}, 0, (("h",),))
        >>> check_theorem1(linear, states).reasons
        {'fails: the transition is diagonal and linear, to within the measured error': 2}
    """
    if not states:
        raise InputError("states is empty; give at least one visited state")
    others = states if alternatives is None else alternatives
    for state in (*states, *others):
        validate(transition, state)
    solver = _Solver(start, max_iterations)
    return Theorem1Report(
        tuple(
            _check_state(transition, state, others, solver, f"{label}[{index}]")
            for index, state in enumerate(states)
        )
    )


@dataclasses.dataclass(frozen=True)
class _Solver:
    start: Tensor | None
    max_iterations: int

    def solve(self, transition: Transition, state: State) -> FixedPoint:
        return solve_fixed_point(transition, state, self.start, max_iterations=self.max_iterations)


@dataclasses.dataclass(frozen=True)
class _MeasuredJacobian:
    jacobian: FactoredJacobian
    error: float


def _check_state(
    transition: Transition, state: State, others: Sequence[State], solver: _Solver, label: str
) -> StateCheck:
    fixed_point = solver.solve(transition, state)
    conditions = _conditions(transition, state, fixed_point)
    if any(condition.verdict is not Verdict.HOLDS for condition in conditions):
        conditions.append(unmeasured("C4", "an earlier condition is not established"))
        return StateCheck(fixed_point.status, tuple(conditions), (), label)
    measured = _measure_jacobians(transition, state, fixed_point.latent)
    conditions.append(coupling_condition([m.jacobian for m in measured], [m.error for m in measured]))
    layers, notes = [], []
    for names, here in zip(transition.layer_states, measured, strict=True):
        scale = here.jacobian.frobenius_norm() or 1.0
        mass_error = max(here.error / scale, EPSILON)
        there, note = _elsewhere(transition, state, names, others, solver)
        change, change_error = math.nan, math.nan
        if there is not None:
            change = (here.jacobian - there.jacobian).frobenius_norm() / scale
            change_error = max((here.error + there.error) / scale, EPSILON)
        mass = here.jacobian.off_diagonal_mass()
        layers.append(LayerConclusion(names, mass, mass_error, change, change_error))
        notes.append(note)
    return StateCheck(
        fixed_point.status, tuple(conditions), tuple(layers), label, next(filter(None, notes), "")
    )


def _conditions(transition: Transition, state: State, fixed_point: FixedPoint) -> list[Condition]:
    """Return C1, C2 and C3."""
    if transition.latent_size == 0:
        return [vacuous("C1", 0.0), vacuous("C2", math.inf), vacuous("C3", 0.0)]
    first = fixed_point_condition(fixed_point)
    if not fixed_point.converged:
        return [first, *(unmeasured(name, "no fixed point was reached") for name in ("C2", "C3"))]
    slope = latent_jacobian(transition, state, fixed_point.latent)
    block = BlockMap(transition, state, transition.layer_states[0])
    error = latent_jacobian_error(slope, block, fixed_point.latent)
    return [
        first,
        invertibility_condition(slope, error),
        convergence_condition(slope, transition.damping, error),
    ]


def _measure_jacobians(transition: Transition, state: State, latent: Tensor) -> list[_MeasuredJacobian]:
    return [
        _MeasuredJacobian(jacobian, jacobian_error(jacobian, BlockMap(transition, state, names), latent))
        for names, jacobian in zip(
            transition.layer_states, layer_jacobians(transition, state, latent), strict=True
        )
    ]


def _elsewhere(
    transition: Transition, state: State, names: tuple[str, ...], others: Sequence[State], solver: _Solver
) -> tuple[_MeasuredJacobian | None, str]:
    """Measure J with h replaced by the farthest other visited value at which C1 to C3 hold."""
    here = flatten(state, names)
    block = BlockMap(transition, state, names)
    single_layer = dataclasses.replace(transition, layer_states=(names,))
    distances = torch.stack([(flatten(other, names) - here).norm() for other in others])
    for index in distances.argsort(descending=True)[:MAX_CANDIDATES].tolist():
        if distances[index] == 0:
            break
        displaced = block.at(flatten(others[index], names))
        fixed_point = solver.solve(transition, displaced)
        conditions = _conditions(transition, displaced, fixed_point)
        if all(condition.verdict is Verdict.HOLDS for condition in conditions):
            return _measure_jacobians(single_layer, displaced, fixed_point.latent)[0], ""
    if not distances.any():
        return None, "no other visited state differs in this block, give more states"
    return None, "C1 to C3 are not established with the block of another visited state"
