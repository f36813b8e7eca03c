"""The measurements at one state: its fixed point, the conditions C1 to C3, and J of every layer."""

import dataclasses
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from theory.blocks import BlockMap
from theory.fixed_point import EPSILON, FixedPoint, solve_fixed_point
from theory.forward_mode import directional, jacobian
from theory.jacobian.factored import FactoredJacobian, latent_jacobian, layer_jacobians
from theory.theorem1.conditions import (
    Condition,
    Verdict,
    convergence_condition,
    fixed_point_condition,
    invertibility_condition,
    unmeasured,
    vacuous,
)
from theory.theorem1.cross_checks import Probes, jacobian_errors, latent_jacobian_error
from theory.transition import State, Transition


@dataclass(frozen=True)
class Search:
    """How fixed points are sought and errors are measured."""

    start: Tensor | None = None  # the first latent of every solve; zeros for None
    max_iterations: int = 4000  # the largest number of damped iterations of a solve
    # what the directions of the error estimates are drawn from
    probes: Probes = field(default_factory=Probes)

    def solve(self, transition: Transition, state: State) -> FixedPoint:
        """Solve for the fixed point at a state."""
        return solve_fixed_point(transition, state, self.start, max_iterations=self.max_iterations)

    def measure(self, transition: Transition, state: State) -> "MeasuredState":
        """Solve for the fixed point at a state and measure C1 to C3."""
        found = self.solve(transition, state)
        return MeasuredState(
            transition, state, found, _conditions(transition, state, found, self.probes), self
        )


@dataclass(frozen=True)
class MeasuredState:
    """A state with its fixed point and the conditions under which the transition has a Jacobian there."""

    transition: Transition  # the pair (Φ, G)
    state: State  # the state s
    fixed_point: FixedPoint  # the outcome of the solve
    conditions: tuple[Condition, Condition, Condition]  # C1, C2 and C3
    search: Search  # how its fixed point was sought, and others near it are

    @property
    def probes(self) -> Probes:
        """The source of the directions of the error estimates."""
        return self.search.probes

    @property
    def holds(self) -> bool:
        """Return whether C1, C2 and C3 hold."""
        return all(condition.verdict is Verdict.HOLDS for condition in self.conditions)

    def jacobians(self) -> tuple["MeasuredJacobian", ...]:
        """Return J of every layer with its measured error."""
        found = []
        formulas = layer_jacobians(self.transition, self.state, self.fixed_point.latent)
        for names, formula in zip(self.transition.layer_states, formulas, strict=True):
            block = BlockMap(self.transition, self.state, names)
            settled = _with_whole_first_term(formula, block, self.fixed_point.latent, self.probes)
            errors = jacobian_errors(settled, block, self.fixed_point.latent, self.probes)
            found.append(MeasuredJacobian(settled, *errors))
        return tuple(found)


@dataclass(frozen=True)
class MeasuredJacobian:
    """J of one layer at one state."""

    jacobian: FactoredJacobian  # J by the implicit function theorem
    error: float  # ‖J − J'‖_F, J' by finite differences of the actual map
    row_errors: Tensor  # the norms of the rows of J − J', shape [n]

    @property
    def scale(self) -> float:
        """‖J‖_F, which the other numbers are relative to; 1 where J is zero."""
        return self.jacobian.frobenius_norm() or 1.0


def _with_whole_first_term(
    formula: FactoredJacobian, block: BlockMap, latent: Tensor, probes: Probes
) -> FactoredJacobian:
    """Return J with ∂vG as a matrix, where it was taken for diagonal and unpredictable directions deny it."""
    if not formula.has_diagonal_direct_term:
        return formula
    vector = block.vector
    # Two Gaussian vectors: a row of ∂vG − D that is not zero is orthogonal to one with probability zero.
    drawn = probes.gaussian(2, vector.numel(), vector, purpose=4)
    products = directional(lambda v: block.state_update(latent, v), vector, drawn)
    deviation = (products - drawn * formula.direct).abs()
    # Products of a diagonal matrix differ in the last places only, of each entry by itself.
    if bool((deviation <= 100 * EPSILON * formula.direct.abs() * drawn.abs().max()).all()):
        return formula
    direct = jacobian(lambda v: block.state_update(latent, v), vector)
    return dataclasses.replace(formula, direct=direct, diagonality_error=0.0)


def _conditions(
    transition: Transition, state: State, fixed_point: FixedPoint, probes: Probes
) -> tuple[Condition, Condition, Condition]:
    """Return C1, C2 and C3."""
    if transition.latent_size == 0:
        return vacuous("C1", 0.0), vacuous("C2", math.inf), vacuous("C3", 0.0)
    first = fixed_point_condition(fixed_point)
    if not fixed_point.converged:
        why = "no fixed point was reached"
        return first, unmeasured("C2", why), unmeasured("C3", why)
    slope = latent_jacobian(transition, state, fixed_point.latent)
    if not bool(torch.isfinite(slope).all()):
        why = "∂zΦ is not finite at the fixed point"
        return first, unmeasured("C2", why), unmeasured("C3", why)
    block = BlockMap(transition, state, transition.layer_states[0])
    error = latent_jacobian_error(slope, block, fixed_point.latent, probes)
    return (
        first,
        invertibility_condition(slope, error),
        convergence_condition(slope, transition.damping, error, probes),
    )
