"""The conditions C1 to C4 of Theorem 1 and its conclusions measured: value, threshold, margin, verdict.

Every threshold comes from a measured error. A quantity counts as positive when it exceeds ten times its
error, one decade, because the error is itself an estimate from a few random probes: an error of more than ten
times its estimate goes unseen with a probability of at most 5.3e-7 (:mod:`theory.theorem1.cross_checks`). It
counts as zero only where rounding alone explains it, and as undecided in between.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum

import torch
from torch import Tensor

from theory.blocks import BlockMap
from theory.fixed_point import EPSILON, ERROR_MARGIN, FixedPoint, solve_fixed_point
from theory.forward_mode import directional, jacobian
from theory.jacobian.factored import FactoredJacobian, latent_jacobian, layer_jacobians_with
from theory.theorem1.cross_checks import Probes, jacobian_errors, latent_jacobian_error
from theory.transition import State, Transition


class Verdict(StrEnum):
    """The verdict of a measurement on a statement; Theorem 1 does not apply where there is no fixed point.

    Example:
        >>> Verdict("holds") is judge(value=0.5, error=1e-9)
        True
    """

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    DOES_NOT_APPLY = "does not apply"


def judge(value: float, error: float, rounding: float = 0.0) -> Verdict:
    """Say whether a relative quantity is positive, given its measured error.

    It is positive if it exceeds ten times its error. It is zero only if it does not exceed ten times what
    rounding alone explains, and if a quantity of 1, as large as what it is relative to, would have been seen.
    A tiny value that is neither is undecided, for it cannot be told from zero, as is NaN: not measured.
    """
    if value > ERROR_MARGIN * error:
        return Verdict.HOLDS
    visible = ERROR_MARGIN * error < 1
    return Verdict.FAILS if visible and value <= ERROR_MARGIN * rounding else Verdict.INCONCLUSIVE


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of "all of them": fails if one fails, holds if every one holds."""
    for verdict in (Verdict.FAILS, Verdict.INCONCLUSIVE, Verdict.DOES_NOT_APPLY):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS if verdicts else Verdict.INCONCLUSIVE


STATEMENTS = {
    "C1": "z* is a fixed point of Φ, to rounding level",
    "C2": "I − ∂zΦ is invertible",
    "C3": "the damped iteration converges locally: the spectral radius of (1−τ)I + τ∂zΦ is below 1",
    "C4": "coupling: the second term of the Jacobian is not diagonal",
}
"""The conditions as statements, by name."""


@dataclass(frozen=True)
class Condition:
    """One condition of the theorem at one state.

    Attributes:
        name: C1, C2, C3 or C4.
        value: the measured quantity; NaN where it could not be measured.
        threshold: what the quantity is compared with, derived from its measured error.
        margin: how far the value is on the right side of the threshold; negative if it is not.
        verdict: holds, fails or inconclusive.
        reason: the verdict as a sentence with its numbers.

    Example:
        >>> Condition("C2", 0.5, 1e-9, 8.7, Verdict.HOLDS, "the least singular value is 0.5").statement
        'I − ∂zΦ is invertible'
    """

    name: str
    value: float
    threshold: float
    margin: float
    verdict: Verdict
    reason: str

    @property
    def statement(self) -> str:
        """The condition as a statement."""
        return STATEMENTS[self.name]

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the fields for JSON, with ``None`` for numbers that are not finite."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in (asdict(self) | {"statement": self.statement}).items()
        }


def vacuous(name: str, value: float) -> Condition:
    """Return the condition of a model without a latent, which holds since it demands nothing."""
    reason = "the model has no latent, so there is nothing to demand"
    return Condition(name, value, math.nan, math.nan, Verdict.HOLDS, reason)


def unmeasured(name: str, why: str) -> Condition:
    """Return the condition of a state at which it could not be measured."""
    return Condition(name, math.nan, math.nan, math.nan, Verdict.INCONCLUSIVE, f"not measured, since {why}")


def fixed_point_condition(fixed_point: FixedPoint) -> Condition:
    """Return C1: the residual is within one decade of the rounding level of Φ."""
    value, threshold = fixed_point.residual, fixed_point.threshold
    verdict = Verdict.HOLDS if fixed_point.converged else Verdict.FAILS
    count, sentence = fixed_point.iterations, fixed_point.status.sentence
    reason = f"after {count} iterations the residual is {value:.1e}: {sentence}"
    return Condition("C1", value, threshold, threshold - value, verdict, reason)


def invertibility_condition(slope: Tensor, error: float) -> Condition:
    """Return C2: the smallest singular value of I − A exceeds the error of A, which bounds its own (Weyl).

    It *fails* where that value is zero to within the rounding of a singular value decomposition.
    """
    matrix = torch.eye(len(slope), dtype=slope.dtype, device=slope.device) - slope
    singular_values = torch.linalg.svdvals(matrix)
    value, scale = singular_values[-1].item(), singular_values[0].item() or 1.0
    error = max(error, EPSILON * scale)
    threshold = ERROR_MARGIN * error
    reason = f"the smallest singular value of I − ∂zΦ is {value:.2e} with a measured error of {error:.1e}"
    verdict = judge(value / scale, error / scale, EPSILON)
    return Condition("C2", value, threshold, value - threshold, verdict, reason)


def convergence_condition(
    slope: Tensor, damping: float, error: float, probes: Probes | None = None
) -> Condition:
    """Return C3: the spectral radius of M = (1 − τ) I + τ A is below 1 by more than its error.

    Eigenvalues of a non-normal matrix may move much more than the matrix does, so their error is measured:
    the largest change of the spectral radius under four Gaussian perturbations of M whose entries have the
    size of its whole error e. One of them moves an eigenvalue of condition κ by e κ |N(0, 1)| to first order,
    the true error by at most e κ: that all four move it less than a tenth of that has a probability below
    4.1e-5. It *fails* where the radius exceeds 1 by ten times its error.
    """
    matrix = damped_slope(slope, damping)
    value = spectral_radius(matrix)
    error = max(damping * error, EPSILON * matrix.norm().item())
    drawn = (probes or Probes()).gaussian(4, matrix.numel(), matrix, purpose=3)
    moved = [
        abs(spectral_radius(matrix + error * perturbation.reshape(matrix.shape)) - value)
        for perturbation in drawn
    ]
    error = max(error, *moved)
    threshold = 1 - ERROR_MARGIN * error
    reason = (
        f"the spectral radius of the damped iteration is {value:.6g} with a measured error of {error:.1e}"
    )
    verdict = Verdict.FAILS if judge(value - 1, error) is Verdict.HOLDS else Verdict.INCONCLUSIVE
    if judge(1 - value, error) is Verdict.HOLDS:
        verdict = Verdict.HOLDS
    return Condition("C3", value, threshold, threshold - value, verdict, reason)


def coupling_condition(jacobians: Sequence[FactoredJacobian], errors: Sequence[float]) -> Condition:
    """Return C4: in every layer the off-diagonal part of the second term exceeds the error of J."""
    measured = []
    for factors, error in zip(jacobians, errors, strict=True):
        scale = factors.frobenius_norm() or 1.0
        measured.append((second_term_mass(factors), error / scale))
    value, error = min(measured, key=lambda pair: pair[0] - ERROR_MARGIN * pair[1])
    threshold = ERROR_MARGIN * error
    verdict = combine([judge(*pair, EPSILON) for pair in measured])
    reason = f"the off-diagonal part of the second term is {value:.2e} of ‖J‖, with an error of {error:.1e}"
    return Condition("C4", value, threshold, value - threshold, verdict, reason)


def second_term_mass(factors: FactoredJacobian) -> float:
    """Return the norm of what the second term has off the diagonal, relative to ‖J‖_F."""
    # Beside a diagonal first term the second one has all that is off the diagonal of J.
    second = factors if factors.has_diagonal_direct_term else factors.coupling
    return second.off_diagonal_norm() / (factors.frobenius_norm() or 1.0)


def damped_slope(slope: Tensor, damping: float) -> Tensor:
    """Return (1 − τ) I + τ A, the derivative of the damped iteration."""
    identity = torch.eye(len(slope), dtype=slope.dtype, device=slope.device)
    return (1 - damping) * identity + damping * slope


def spectral_radius(matrix: Tensor) -> float:
    """Return the largest modulus of the eigenvalues; NaN for a matrix that is not finite."""
    return torch.linalg.eigvals(matrix).abs().max().item() if matrix.isfinite().all() else math.nan


@dataclass(frozen=True)
class LayerConclusion:
    """The conclusions for one layer's block J = ∂h'/∂h at one state.

    Attributes:
        names: the state entries of the block.
        off_diagonal_mass: ‖J − diag J‖_F / ‖J‖_F.
        off_diagonal_error: its measured error.
        nonlinearity: ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F for another visited h̃; NaN without one.
        nonlinearity_error: its measured error.
        secant_defect: ‖h'(h̃) − h'(h) − J(h) (h̃ − h)‖ / (‖J(h)‖_F ‖h̃ − h‖), of the h̃ that were compared
            the one that speaks most clearly against an affine map, for which it is zero. NaN without any,
            infinite where an image is not finite.
        secant_error: the measured error of that defect.
        rounding: how far J moves, relative to ‖J‖_F, when state and latent move by one unit in the last
            place; 0 where it was not needed, or where a row of J shows more off the diagonal than that.
        change_rounding: the same for the change of J.
        secant_rounding: how large rounding alone may make the defect.
        other_defect: by how much an entry of h' changes, relative to its size, when only other entries of h
            move over a whole distance; NaN where it was not measured.
        other_error: the measured error of that.
        other_rounding: how large rounding alone may make it.
        compared: how many other h̃ were compared.
        unvisited: whether only an h̃ that was not visited shows the non-linearity.
        contradicted: whether finite differences deny J by more than they leave open; then nothing is zero.
        second_term_mass: what the second term has off the diagonal, relative to ‖J‖_F.
    """

    names: tuple[str, ...]
    off_diagonal_mass: float
    off_diagonal_error: float
    nonlinearity: float
    nonlinearity_error: float
    secant_defect: float = math.nan
    secant_error: float = math.nan
    rounding: float = 0.0
    change_rounding: float = 0.0
    secant_rounding: float = 0.0
    other_defect: float = math.nan
    other_error: float = math.nan
    other_rounding: float = 0.0
    compared: int = 0
    unvisited: bool = False
    contradicted: bool = False
    second_term_mass: float = math.nan

    @property
    def non_diagonal(self) -> Verdict:
        """Holds if h'_i changes with other entries; *fails* where rounding explains all of J and of moves."""
        mass = self._judged(self.off_diagonal_mass, self.off_diagonal_error, self.rounding)
        return self._either(mass, self.other_defect, self.other_error, self.other_rounding)

    @property
    def non_linear(self) -> Verdict:
        """Holds if J or a secant contradicts an affine map; *fails* where rounding explains all of both.

        Where J is diagonal and yet moves of other entries show in h'_i, no affine map is claimed.
        """
        change = self._judged(self.nonlinearity, self.nonlinearity_error, self.change_rounding)
        found = self._either(change, self.secant_defect, self.secant_error, self.secant_rounding)
        mass = self._judged(self.off_diagonal_mass, self.off_diagonal_error, self.rounding)
        jumps = mass is Verdict.FAILS and self.non_diagonal is Verdict.HOLDS
        return Verdict.INCONCLUSIVE if jumps and found is Verdict.FAILS else found

    def sharpened(self, other: "LayerConclusion", *, trusted: bool) -> "LayerConclusion":
        """Return these numbers, but those of another measurement where it decides otherwise.

        Args:
            other: the measurement in other units, with what it alone has measured.
            trusted: whether the units here suit all entries, so that what is decided here stays, also that
                finite differences deny J.
        """

        def stays(mine: Verdict, theirs: Verdict) -> bool:
            open_there = theirs is Verdict.INCONCLUSIVE or mine is Verdict.HOLDS
            return mine is theirs or (trusted and open_there)

        prefixes = ["other_"]
        if not stays(self.non_diagonal, other.non_diagonal):
            prefixes += ["off_diagonal", "rounding"]
        if not stays(self.non_linear, other.non_linear):
            prefixes += ["nonlinearity", "secant", "change_", "compared", "unvisited"]
        names = [field.name for field in fields(self) if field.name.startswith(tuple(prefixes))]
        denials = (self.contradicted, other.contradicted)
        contradicted = any(denials) if trusted else all(denials)
        return replace(self, **{name: getattr(other, name) for name in names}, contradicted=contradicted)

    def _either(self, at_a_point: Verdict, value: float, error: float, rounding: float) -> Verdict:
        """Either of derivative and distance shows the property; its opposite needs both."""
        if math.isnan(value):
            return at_a_point
        afar = self._judged(value, error, rounding)
        if Verdict.HOLDS in (at_a_point, afar):
            return Verdict.HOLDS
        return at_a_point if at_a_point is afar else Verdict.INCONCLUSIVE

    def _judged(self, value: float, error: float, rounding: float) -> Verdict:
        verdict = judge(value, error, rounding)
        return Verdict.INCONCLUSIVE if self.contradicted and verdict is Verdict.FAILS else verdict


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
        found, slope = self.solve(transition, state), None
        if transition.latent_size and found.converged:
            slope = latent_jacobian(transition, state, found.latent)
        conditions = _conditions(transition, state, found, slope, self.probes)
        return MeasuredState(transition, state, found, conditions, self, slope)


@dataclass(frozen=True)
class MeasuredState:
    """A state with its fixed point and the conditions under which the transition has a Jacobian there."""

    transition: Transition  # the pair (Φ, G)
    state: State  # the state s
    fixed_point: FixedPoint  # the outcome of the solve
    conditions: tuple[Condition, Condition, Condition]  # C1, C2 and C3
    search: Search  # how its fixed point was sought, and others near it are
    slope: Tensor | None = None  # ∂zΦ at the fixed point, where there is one

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
        formulas = layer_jacobians_with(self.slope, self.transition, self.state, self.fixed_point.latent)
        for names, formula in zip(self.transition.layer_states, formulas, strict=True):
            block = BlockMap(self.transition, self.state, names)
            settled = _with_whole_first_term(formula, block, self.fixed_point.latent, self.probes)
            errors = jacobian_errors(settled, block, self.fixed_point.latent, self.probes, slope=self.slope)
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
    transition: Transition, state: State, fixed_point: FixedPoint, slope: Tensor | None, probes: Probes
) -> tuple[Condition, Condition, Condition]:
    """Return C1, C2 and C3."""
    if transition.latent_size == 0:
        return vacuous("C1", 0.0), vacuous("C2", math.inf), vacuous("C3", 0.0)
    first = fixed_point_condition(fixed_point)
    if slope is None:
        why = "no fixed point was reached"
        return first, unmeasured("C2", why), unmeasured("C3", why)
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
