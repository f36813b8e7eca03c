"""The two conclusions of Theorem 1 for one layer at one state: J is not diagonal, and not constant."""

import math
from dataclasses import dataclass

from theory.fixed_point import ERROR_MARGIN
from theory.theorem1.conditions import Verdict, judge


def established(value: float, error: float, rounding: float = 0.0) -> Verdict:
    """Say whether a relative quantity is positive, and demand more for "it is zero" than :func:`judge` does.

    It is positive if it exceeds ten times its measured error. It is zero only if it does not exceed ten
    times what rounding alone explains, and if a quantity of 1, as large as J itself, would have been seen. A
    tiny value that is neither is undecided, while :func:`judge` calls it zero to within the error.

    Args:
        value: the measured quantity, relative to ‖J‖_F; NaN if it could not be measured.
        error: its measured error.
        rounding: how far J itself moves when its arguments move by one unit in the last place.

    Example:
        >>> [established(value, error=1e-10).value for value in (0.5, 0.0, 1e-12, math.nan)]
        ['holds', 'fails', 'inconclusive', 'inconclusive']
        >>> established(1e-15, error=1e-10, rounding=2e-16).value, established(0.0, error=0.5).value
        ('fails', 'inconclusive')
    """
    verdict = judge(value, error)
    if verdict is not Verdict.FAILS:
        return verdict
    visible = ERROR_MARGIN * error < 1
    return Verdict.FAILS if visible and value <= ERROR_MARGIN * rounding else Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class LayerConclusion:
    """The conclusions for one layer's block J = ∂h'/∂h at one state.

    Attributes:
        names: the state entries of the block.
        off_diagonal_mass: ‖J − diag J‖_F / ‖J‖_F.
        off_diagonal_error: its measured error.
        nonlinearity: ‖J(h) − J(h̃)‖_F / ‖J(h)‖_F for another visited h̃; NaN without one.
        nonlinearity_error: its measured error.
        secant_defect: ‖h'(h̃) − h'(h) − J(h) (h̃ − h)‖ / (‖J(h)‖_F ‖h̃ − h‖), the largest over the visited
            h̃ that were compared; zero for an affine map. NaN without any.
        secant_error: the measured error of that defect.
        rounding: how far J moves, relative to ‖J‖_F, when state and latent move by one unit in the last
            place; 0 where it was not needed.

    Example:
        >>> layer = LayerConclusion(("h",), 0.5, 1e-9, 0.0, 1e-9)
        >>> layer.non_diagonal.value, layer.non_linear.value
        ('holds', 'fails')

        J is the same at h and −h for the odd map tanh; the secant shows that it is not linear.

        >>> even = LayerConclusion(("h",), 0.5, 1e-9, 0.0, 1e-9, secant_defect=0.3, secant_error=1e-9)
        >>> even.non_linear.value
        'holds'
    """

    names: tuple[str, ...]
    off_diagonal_mass: float
    off_diagonal_error: float
    nonlinearity: float
    nonlinearity_error: float
    secant_defect: float = math.nan
    secant_error: float = math.nan
    rounding: float = 0.0

    @property
    def non_diagonal(self) -> Verdict:
        """Whether J is not diagonal; *fails* where it is diagonal to within the error."""
        return judge(self.off_diagonal_mass, self.off_diagonal_error)

    @property
    def non_linear(self) -> Verdict:
        """Whether J or the secant differs between states; *fails* where neither does to within its error."""
        change = judge(self.nonlinearity, self.nonlinearity_error)
        return _either(change, judge(self.secant_defect, self.secant_error), self)

    @property
    def established_non_diagonal(self) -> Verdict:
        """The same with the stricter "it is zero" of :func:`established`, which the kind is read from."""
        return established(self.off_diagonal_mass, self.off_diagonal_error, self.rounding)

    @property
    def established_non_linear(self) -> Verdict:
        """The same with the stricter "it is zero" of :func:`established`, which the kind is read from."""
        change = established(self.nonlinearity, self.nonlinearity_error, self.rounding)
        # The defect is a difference of images, whose rounding is part of the measured error.
        return _either(change, judge(self.secant_defect, self.secant_error), self)


def _either(change: Verdict, defect: Verdict, layer: LayerConclusion) -> Verdict:
    """Either of two measurements shows non-linearity; "linear" needs every one that was made."""
    if math.isnan(layer.secant_defect) or change is defect:
        return change
    if Verdict.HOLDS in (change, defect):
        return Verdict.HOLDS
    return Verdict.INCONCLUSIVE
