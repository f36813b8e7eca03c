"""The two conclusions of Theorem 1 for one layer at one state: J is not diagonal, and not constant."""

import math
from dataclasses import dataclass, fields, replace

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
        other_defect: by how much an entry of h' changes, relative to its size, when only other entries of h
            move over a whole distance; NaN where it was not measured.
        other_error: the measured error of that.
        other_rounding: how large rounding alone may make it.
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

        No affine map has a diagonal J and couples entries afar.

        >>> jump = LayerConclusion(("h",), 0.0, 1e-9, 0.0, 1e-9, other_defect=0.3, other_error=1e-9)
        >>> jump.non_diagonal.value, jump.non_linear.value
        ('holds', 'inconclusive')
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

    @property
    def non_diagonal(self) -> Verdict:
        """Whether h'_i changes with other entries; *fails* where rounding explains all of J and of moves."""
        mass = self._judged(self.off_diagonal_mass, self.off_diagonal_error, self.rounding)
        return self._either(mass, self.other_defect, self.other_error, self.other_rounding)

    @property
    def non_linear(self) -> Verdict:
        """Whether J or a secant contradicts an affine map; *fails* where rounding explains all of both.

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
