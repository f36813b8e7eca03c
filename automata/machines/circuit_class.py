"""How hard it is to track the state of an automaton: the circuit class of its transition monoid."""

from dataclasses import dataclass, field
from typing import Literal

from automata.checks import checked
from automata.machines.dfa import DFA
from automata.machines.equivalence import transition_monoid
from automata.monoids.monoid import Monoid

Kind = Literal["aperiodic", "solvable", "non-solvable"]

_STATEMENTS: dict[Kind, str] = {
    "aperiodic": (
        "every subgroup is trivial: the word problem is in AC0, and every language that the monoid "
        "recognises is star-free"
    ),
    "solvable": (
        "every subgroup is solvable and one is not trivial: the word problem is in ACC0 and not in AC0"
    ),
    "non-solvable": "a subgroup is not solvable: the word problem is NC1-complete",
}


@dataclass(frozen=True)
class CircuitClass:
    """The class of the word problem of a finite monoid, with the subgroup that decides it.

    The word problem takes a sequence of elements to their product. It is

    - in AC0 if the monoid is aperiodic (Schützenberger 1965; McNaughton and Papert 1971; Chandra, Fortune
      and Lipton 1985); the languages it recognises are then exactly star-free, a proper subclass of AC0;
    - in ACC0 if all its subgroups are solvable (Barrington and Thérien 1988), and not in AC0 if one of them
      is not trivial, since that one computes a sum modulo a prime (Furst, Saxe and Sipser 1984);
    - NC1-complete under AC0 reductions if one of them is not solvable (Barrington 1989), so outside ACC0
      unless ACC0 = NC1, which is not known to be false.

    For an automaton the class is that of its transition monoid with *every* element as a token. With fewer
    tokens the first two are upper bounds: with the single token 1, parity only asks for the length of the
    word modulo 2, which is in AC0.

    Attributes:
        kind: which of the three.
        monoid: the monoid that was classified.
        witness: the numbers of the elements of a smallest maximal subgroup that decides the kind, empty for
            an aperiodic monoid.
        derived_series: the orders of the derived series of the witness; it ends above 1 exactly if the
            witness is not solvable.

    Example:
        >>> from automata.monoids.groups import alternating_group, reset_monoid
        >>> from automata.monoids.monoid import direct_product
        >>> hard = circuit_class(direct_product(alternating_group(5), reset_monoid()))
        >>> hard.kind, len(hard.witness), hard.derived_series
        ('non-solvable', 60, (60,))
    """

    kind: Kind
    monoid: Monoid = field(repr=False)  # whose table is long
    witness: tuple[int, ...]
    derived_series: tuple[int, ...]

    @property
    def statement(self) -> str:
        """The class in one sentence."""
        return _STATEMENTS[self.kind]


@checked
def circuit_class(subject: Monoid | DFA) -> CircuitClass:
    """Return the circuit class of a monoid, or of an automaton by its transition monoid.

    All states of an automaton count. For the class of its language, give ``minimise(dfa)``, whose transition
    monoid is the syntactic monoid. InputError if the transition monoid is too large to be written out.

    Example:
        >>> from automata.machines.named_dfas import parity_dfa
        >>> parity = circuit_class(parity_dfa())
        >>> parity.kind, parity.witness
        ('solvable', (0, 1))
    """
    monoid = transition_monoid(subject) if isinstance(subject, DFA) else subject
    kind: Kind = "aperiodic" if monoid.is_aperiodic else "solvable" if monoid.is_solvable else "non-solvable"
    if kind == "aperiodic":
        return CircuitClass(kind, monoid, (), ())
    every_series = map(monoid.derived_series, monoid.maximal_subgroups)
    deciding = [terms for terms in every_series if len(terms[0 if kind == "solvable" else -1]) > 1]
    witness = min(deciding, key=lambda terms: len(terms[0]))
    return CircuitClass(kind, monoid, witness[0], tuple(len(term) for term in witness))
