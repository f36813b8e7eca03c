"""The Newton map of a fixed point over a box, in FLINT's balls: every checker's proof begins with it.

With A enclosing ∂zΦ over a box and P an approximate inverse of I − A, the map z ↦ z + P (Φ(z) − z) has the
derivative I − P (I − A) there. If its row sums are below 1 the map contracts over the box, and Φ has at most
one fixed point in it; `theory.rigorous.enclosure` has the theorem.
"""

from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, arb_mat

from analysis.certificates.arb.linear import identity, row_sum
from analysis.certificates.parts import RefusedError


@dataclass(frozen=True)
class NewtonMap:
    """A Newton map that contracts over a box.

    Attributes:
        inverse: P, the midpoint of an inverse of I − A's midpoint.
        defect: an enclosure of I − P (I − A), the derivative of the map.
        kappa: an upper bound of ‖I − P (I − A)‖_∞, below 1.

    Example:
        `contracting_newton_map` returns one.
    """

    inverse: arb_mat
    defect: arb_mat
    kappa: arb


def contracting_newton_map(slopes: arb_mat, refuse: Callable[[str], RefusedError]) -> NewtonMap:
    """Return the Newton map of a box over which it is proved to contract.

    Args:
        slopes: A, an enclosure of ∂zΦ over the box.
        refuse: makes the refusal of the claimed box from the reason.

    Raises:
        RefusedError: if I − A cannot be inverted, or the map is not proved to contract.

    Example:
        >>> found = contracting_newton_map(arb_mat([[0.5]]), lambda why: RefusedError("radius", why))
        >>> found.inverse[0, 0] == 2, found.kappa == 0
        (True, True)
        >>> wide = arb_mat([[arb(0.5, 0.6)]])
        >>> contracting_newton_map(wide, lambda why: RefusedError("radius", why))
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: radius: the Newton map does not contract over it
    """
    one = identity(slopes.nrows())
    system = one - slopes
    try:
        inverse = system.mid().inv().mid()
    except ZeroDivisionError:
        raise refuse("the derivative over it cannot be inverted") from None
    defect = one - inverse * system
    kappa = row_sum(defect)
    if not kappa < 1:
        raise refuse("the Newton map does not contract over it")
    return NewtonMap(inverse, defect, kappa)
