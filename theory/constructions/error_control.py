"""The growth of errors in affine recurrences, in exact rational arithmetic.

A token acts as h ↦ A h + b, with A and b that depend on the token alone: explicit SSMs, DeltaNet and its
products of reflections, in one layer. An error along the difference of two states is then kept as well as the
states are kept apart: if a word w returns codes to themselves, A_w is the identity on the span of their
differences (``kept_errors``), and small errors turn one run into another (``errors_that_confuse``).
``docs/error_control.md`` has the proofs, and what does not follow.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar

from flint import fmpq, fmpq_mat

from automata.errors import InputError

Token = TypeVar("Token", bound=Hashable)
Number: TypeAlias = int | Fraction
Vector: TypeAlias = tuple[Fraction, ...]


@dataclass(frozen=True)
class AffineMap:
    """h ↦ A h + b with rational numbers, the matrix A by rows.

    A complex factor a + bi is the block ((a, −b), (b, a)). InputError if the matrix is not square, or the
    offset has another size.

    Example:
        >>> turn = AffineMap.of([[0, -1], [1, 0]], [0, 1])
        >>> [str(entry) for entry in turn([Fraction(1, 2), 3])]
        ['-3', '3/2']
    """

    matrix: tuple[Vector, ...]
    offset: Vector

    def __post_init__(self) -> None:
        size = len(self.offset)
        if len(self.matrix) != size or any(len(row) != size for row in self.matrix) or not size:
            raise InputError(
                f"matrix has rows of {[len(row) for row in self.matrix]} entries and offset {size}; "
                "give a square matrix and an offset of its size"
            )

    @classmethod
    def of(cls, matrix: Sequence[Sequence[Number]], offset: Sequence[Number] | None = None) -> "AffineMap":
        """Return the map with these numbers; b is 0 if left out."""
        rows = tuple(tuple(Fraction(entry) for entry in row) for row in matrix)
        entries = [0] * len(rows) if offset is None else offset
        return cls(rows, tuple(Fraction(entry) for entry in entries))

    def linear(self, vector: Sequence[Number]) -> Vector:
        """Return A v."""
        return tuple(
            sum((a * Fraction(v) for a, v in zip(row, vector, strict=True)), Fraction(0))
            for row in self.matrix
        )

    def __call__(self, point: Sequence[Number]) -> Vector:
        """Return A p + b."""
        return tuple(a + b for a, b in zip(self.linear(point), self.offset, strict=True))

    def then(self, other: "AffineMap") -> "AffineMap":
        """Return the map of this token followed by another one."""
        columns = [other.linear(column) for column in zip(*self.matrix, strict=True)]
        return AffineMap(tuple(zip(*columns, strict=True)), other(self.offset))


def map_of_word(maps: Mapping[Token, AffineMap], word: Sequence[Token]) -> AffineMap:
    """Return h ↦ A_w h + b_w of a word that is not empty, read from left to right.

    InputError if the word is empty or holds a token without a map.

    Example:
        >>> halve, flip = AffineMap.of([[Fraction(1, 2)]]), AffineMap.of([[-1]], [1])
        >>> map_of_word({"h": halve, "f": flip}, "hf") == AffineMap.of([[Fraction(-1, 2)]], [1])
        True
    """
    missing = [token for token in word if token not in maps]
    if missing or not len(word):
        fault = f"holds {missing[0]!r}, which has no map" if missing else "is empty"
        raise InputError(f"word {fault}; give at least one of the tokens {list(maps)}")
    result = maps[word[0]]
    for token in word[1:]:
        result = result.then(maps[token])
    return result


@dataclass(frozen=True)
class KeptErrors:
    """The errors that a word keeps for ever because it returns codes to themselves.

    Attributes:
        basis: of the span of the differences of the codes; A_w v = v for all of it.
        fixed_dimension: of all v with A_w v = v, at least as large.
    """

    basis: tuple[Vector, ...]
    fixed_dimension: int

    @property
    def dimension(self) -> int:
        """The dimension of the span of the differences of the codes."""
        return len(self.basis)


def kept_errors(word_map: AffineMap, codes: Sequence[Sequence[Number]]) -> KeptErrors:
    """Return the span of the differences of codes that a word returns, on which its matrix is the identity.

    All of it is computed with rational numbers, and A v = v is checked for every vector of the basis.
    InputError if a code is not returned: then nothing follows from the others alone, so leave it out.

    Example:
        Two swaps of three objects, each a reflection; they return all six arrangements of 1, 2 and 4.

        >>> from itertools import permutations
        >>> swap = AffineMap.of([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
        >>> kept = kept_errors(swap.then(swap), list(permutations([1, 2, 4])))
        >>> kept.dimension, kept.fixed_dimension
        (2, 3)
    """
    points = [tuple(Fraction(entry) for entry in code) for code in codes]
    moved = next((number for number, point in enumerate(points) if word_map(point) != point), None)
    if moved is not None or not points:
        fault = "codes is empty" if moved is None else f"code {moved} is moved by the word"
        raise InputError(f"{fault}; give codes that it returns, and at least one")
    differences = [tuple(a - b for a, b in zip(point, points[0], strict=True)) for point in points]
    reduced, rank = _exact(differences).rref()
    rows = reduced.tolist()[:rank]
    basis = tuple(tuple(Fraction(int(entry.p), int(entry.q)) for entry in row) for row in rows)
    for vector in basis:
        assert word_map.linear(vector) == vector, "a theorem: A_w is the identity on differences of codes"
    moving = [
        tuple(entry - (number == column) for column, entry in enumerate(row))
        for number, row in enumerate(word_map.matrix)
    ]
    return KeptErrors(basis, len(moving) - int(_exact(moving).rank()))


def errors_that_confuse(
    maps: Mapping[Token, AffineMap], word: Sequence[Token], start: Sequence[Number], other: Sequence[Number]
) -> list[Vector]:
    """Return the errors, one after every token, that turn the run from one state into that from another.

    After token t of K the error is (h'_t − h_t)/K, with h and h' the runs without errors. The run with errors
    is then at h_t + (t/K)(h'_t − h_t), and after the last token at h'_K: no decoder can tell them apart.

    Example:
        Parity, λ = −1: eight errors of 1/8 turn the run from 0 into that from 1.

        >>> flip = {"1": AffineMap.of([[-1]], [1])}
        >>> errors = errors_that_confuse(flip, "1" * 8, [0], [1])
        >>> [str(error[0]) for error in errors[:3]], len(errors)
        (['-1/8', '1/8', '-1/8'], 8)
    """
    map_of_word(maps, word)  # refuses what is no word
    here, there = (tuple(Fraction(entry) for entry in state) for state in (start, other))
    errors = []
    for token in word:
        here, there = maps[token](here), maps[token](there)
        errors.append(tuple((b - a) / len(word) for a, b in zip(here, there, strict=True)))
    return errors


def _exact(rows: Sequence[Vector]) -> fmpq_mat:
    return fmpq_mat([[fmpq(entry.numerator, entry.denominator) for entry in row] for row in rows])
