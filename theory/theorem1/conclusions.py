"""The two conclusions of Theorem 1 for one layer at one state: J is not diagonal, and not constant."""

import math
from dataclasses import dataclass

from theory.theorem1.conditions import Verdict, judge


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
        compared: how many other h̃ were compared.
        unvisited: whether only an h̃ that was not visited shows the non-linearity.
        contradicted: whether finite differences deny J by more than they leave open; then nothing is zero.

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
    change_rounding: float = 0.0
    secant_rounding: float = 0.0
    compared: int = 0
    unvisited: bool = False
    contradicted: bool = False

    @property
    def non_diagonal(self) -> Verdict:
        """Whether J is not diagonal; *fails* where rounding alone explains all that is off the diagonal."""
        return self._judged(self.off_diagonal_mass, self.off_diagonal_error, self.rounding)

    @property
    def non_linear(self) -> Verdict:
        """Whether J or a secant contradicts an affine map; *fails* where rounding explains all of both."""
        change = self._judged(self.nonlinearity, self.nonlinearity_error, self.change_rounding)
        if math.isnan(self.secant_defect):
            return change
        defect = self._judged(self.secant_defect, self.secant_error, self.secant_rounding)
        # Either of the two shows non-linearity; "linear" needs both.
        if Verdict.HOLDS in (change, defect):
            return Verdict.HOLDS
        return change if change is defect else Verdict.INCONCLUSIVE

    def _judged(self, value: float, error: float, rounding: float) -> Verdict:
        verdict = judge(value, error, rounding)
        return Verdict.INCONCLUSIVE if self.contradicted and verdict is Verdict.FAILS else verdict
