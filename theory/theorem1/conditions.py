"""The conditions C1 to C4 of Theorem 1 as measurements: a value, its threshold, the margin and a verdict.

Every threshold comes from a measured error. A quantity counts as positive when it exceeds ten times its
error, as zero when it does not exceed the error, and as undecided in between: one decade, because the error
is itself an estimate from a few random probes.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import torch
from torch import Tensor

from theory.blocks import random_signs
from theory.fixed_point import EPSILON, ERROR_MARGIN, FixedPoint
from theory.jacobian.factored import FactoredJacobian


class Verdict(StrEnum):
    """What a measurement says of a statement.

    Example:
        >>> print(Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE)
        holds fails inconclusive
    """

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"


def judge(value: float, error: float) -> Verdict:
    """Say whether a quantity is positive, given its measured error.

    Args:
        value: the measured quantity; NaN if it could not be measured.
        error: the measured error of that value; NaN if it could not be measured.

    Example:
        >>> [judge(value, error=0.01).value for value in (0.2, 0.05, 0.01, float("nan"))]
        ['holds', 'inconclusive', 'fails', 'inconclusive']
    """
    if value > ERROR_MARGIN * error:
        return Verdict.HOLDS
    return Verdict.FAILS if value <= error else Verdict.INCONCLUSIVE


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of "all of them": fails if one fails, holds if every one holds.

    Example:
        >>> combine([Verdict.HOLDS, Verdict.INCONCLUSIVE]).value, combine([]).value
        ('inconclusive', 'inconclusive')
    """
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    if not verdicts or Verdict.INCONCLUSIVE in verdicts:
        return Verdict.INCONCLUSIVE
    return Verdict.HOLDS


STATEMENTS = {
    "C1": "z* is a fixed point of Φ, to rounding level",
    "C2": "I − ∂zΦ is invertible",
    "C3": "the damped iteration converges locally: the spectral radius of (1−τ)I + τ∂zΦ is below 1",
    "C4": "coupling: the second term of the Jacobian is not diagonal",
}
"""What each condition demands."""


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
        >>> condition = unmeasured("C2", "no fixed point was reached")
        >>> condition.verdict.value, condition.statement
        ('inconclusive', 'I − ∂zΦ is invertible')
        >>> condition.as_dict()["value"] is None
        True
    """

    name: str
    value: float
    threshold: float
    margin: float
    verdict: Verdict
    reason: str

    @property
    def statement(self) -> str:
        """What the condition demands."""
        return STATEMENTS[self.name]

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the fields for JSON, with ``None`` for numbers that are not finite."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in (asdict(self) | {"statement": self.statement}).items()
        }


def vacuous(name: str, value: float) -> Condition:
    """Return the condition of a model without a latent, which holds since it demands nothing.

    Example:
        >>> vacuous("C1", 0.0).reason
        'the model has no latent, so there is nothing to demand'
    """
    reason = "the model has no latent, so there is nothing to demand"
    return Condition(name, value, math.nan, math.nan, Verdict.HOLDS, reason)


def unmeasured(name: str, why: str) -> Condition:
    """Return the condition of a state at which it could not be measured.

    Example:
        >>> unmeasured("C3", "no fixed point was reached").reason
        'not measured, since no fixed point was reached'
    """
    return Condition(name, math.nan, math.nan, math.nan, Verdict.INCONCLUSIVE, f"not measured, since {why}")


def fixed_point_condition(fixed_point: FixedPoint) -> Condition:
    """Return C1: the residual is within one decade of the rounding level of Φ.

    Example:
        >>> from theory.status import Status
        >>> fixed_point = FixedPoint(torch.zeros(1), 2e-16, 1e-16, 9, 0.0, Status.CONVERGED)
        >>> fixed_point_condition(fixed_point).verdict.value
        'holds'
    """
    value, threshold = fixed_point.residual, fixed_point.threshold
    verdict = Verdict.HOLDS if fixed_point.converged else Verdict.FAILS
    count, sentence = fixed_point.iterations, fixed_point.status.sentence
    reason = f"after {count} iterations the residual is {value:.1e}: {sentence}"
    return Condition("C1", value, threshold, threshold - value, verdict, reason)


def invertibility_condition(slope: Tensor, error: float) -> Condition:
    """Return C2: the smallest singular value of I − A exceeds the error of A, which bounds its own (Weyl).

    Args:
        slope: A = ∂zΦ, shape ``[d, d]``.
        error: the measured ‖error of A‖_F.

    Example:
        >>> invertibility_condition(torch.diag(torch.tensor([0.5, 0.25])), error=1e-9).value
        0.5
        >>> invertibility_condition(torch.eye(2), error=1e-9).verdict.value
        'fails'
    """
    matrix = torch.eye(len(slope), dtype=slope.dtype, device=slope.device) - slope
    singular_values = torch.linalg.svdvals(matrix)
    value = singular_values[-1].item()
    error = max(error, EPSILON * singular_values[0].item())
    threshold = ERROR_MARGIN * error
    reason = f"the smallest singular value of I − ∂zΦ is {value:.2e} with a measured error of {error:.1e}"
    return Condition("C2", value, threshold, value - threshold, judge(value, error), reason)


def convergence_condition(slope: Tensor, damping: float, error: float) -> Condition:
    """Return C3: the spectral radius of M = (1 − τ) I + τ A is below 1 by more than its error.

    Eigenvalues of a non-normal matrix may move much more than the matrix does, so their error is measured:
    the largest change of the spectral radius under random perturbations of M of the size of its error.

    Args:
        slope: A = ∂zΦ, shape ``[d, d]``.
        damping: τ.
        error: the measured ‖error of A‖_F.

    Example:
        >>> condition = convergence_condition(torch.diag(torch.tensor([-2.0, 0.5])), damping=0.5, error=1e-9)
        >>> condition.value, condition.verdict.value
        (0.75, 'holds')
    """
    matrix = damped_slope(slope, damping)
    value = spectral_radius(matrix)
    error = max(damping * error, EPSILON * matrix.norm().item())
    perturbations = random_signs(4, matrix.numel(), matrix, seed=4).reshape(4, *matrix.shape)
    moved = [
        abs(spectral_radius(matrix + error * perturbation / perturbation.norm()) - value)
        for perturbation in perturbations
    ]
    error = max(error, *moved)
    threshold = 1 - ERROR_MARGIN * error
    reason = (
        f"the spectral radius of the damped iteration is {value:.6g} with a measured error of {error:.1e}"
    )
    return Condition("C3", value, threshold, threshold - value, judge(1 - value, error), reason)


def coupling_condition(jacobians: Sequence[FactoredJacobian], errors: Sequence[float]) -> Condition:
    """Return C4: in every layer the off-diagonal part of the second term exceeds the error of J.

    Args:
        jacobians: J of each layer.
        errors: the measured error ‖J − J'‖_F of each; the value is that of the layer with the least margin,
            both relative to ‖J‖_F.

    Example:
        >>> J = FactoredJacobian(torch.zeros(2), torch.eye(2)[:, :1], torch.tensor([[0.0, 1.0]]))
        >>> coupling_condition([J], [1e-9]).value
        1.0
        >>> coupling_condition([J - J], [0.0]).verdict.value
        'fails'
    """
    measured = []
    for jacobian, error in zip(jacobians, errors, strict=True):
        scale = jacobian.frobenius_norm() or 1.0
        measured.append((jacobian.coupling.off_diagonal_norm() / scale, error / scale))
    value, error = min(measured, key=lambda pair: pair[0] - ERROR_MARGIN * pair[1])
    threshold = ERROR_MARGIN * error
    verdict = combine([judge(*pair) for pair in measured])
    reason = f"the off-diagonal part of the second term is {value:.2e} of ‖J‖, with an error of {error:.1e}"
    return Condition("C4", value, threshold, value - threshold, verdict, reason)


def damped_slope(slope: Tensor, damping: float) -> Tensor:
    """Return (1 − τ) I + τ A, the derivative of the damped iteration.

    Example:
        >>> damped_slope(torch.tensor([[-1.0]]), damping=0.5)
        tensor([[0.]])
    """
    identity = torch.eye(len(slope), dtype=slope.dtype, device=slope.device)
    return (1 - damping) * identity + damping * slope


def spectral_radius(matrix: Tensor) -> float:
    """Return the largest modulus of the eigenvalues.

    Example:
        >>> round(spectral_radius(torch.tensor([[0.0, 2.0], [-2.0, 0.0]])), 6)
        2.0
    """
    return torch.linalg.eigvals(matrix).abs().max().item()
