from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from sympy.combinatorics import Permutation

from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from automata.monoids.monoid import Monoid, direct_product
from automata.tasks.word_problem import WordProblem
from tests.refusals import refusals
from theory.constructions import SolvableCascade, householder_product, householder_vectors, reflections_needed

# with the derived length that textbooks give
GROUPS: dict[str, tuple[Callable[[], Monoid], int]] = {
    "Z12": (lambda: cyclic_group(12), 1),
    "Z2 x Z4": (lambda: direct_product(cyclic_group(2), cyclic_group(4)), 1),
    "S3": (lambda: symmetric_group(3), 2),
    "D7": (lambda: dihedral_group(7), 2),
    "Q8": (quaternion_group, 2),
    "A4": (lambda: alternating_group(4), 2),
    "S4": (lambda: symmetric_group(4), 3),
    "S4 x Z3": (lambda: direct_product(symmetric_group(4), cyclic_group(3)), 3),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("length", [2, 100])
def test_sweeps_are_the_derived_length_whatever_the_length(name: str, length: int) -> None:
    make, derived_length = GROUPS[name]
    group = make()
    cascade = SolvableCascade(group)
    assert cascade.depth == derived_length
    tokens, states = WordProblem.from_monoid(group).sample(10, length, np.random.default_rng(0))
    ssm, given = cascade.ssm(), torch.from_numpy(tokens)
    latents = ssm.initial.expand(10, length, -1)
    wrong = []
    for _ in range(derived_length):
        latents, reached = ssm.sweep(latents, given)
        wrong.append(int((cascade.decode(reached).numpy() != states).sum()))
    assert wrong[-1] == 0
    if length >= 100:
        assert all(wrong[:-1])
    # one sweep more changes nothing beyond rounding, so the fixed point is reached
    again, _ = ssm.sweep(latents, given)
    assert (again - latents).abs().max() < 1e-12


def test_sequential_mode_over_1000_tokens() -> None:
    group = symmetric_group(4)
    cascade = SolvableCascade(group)
    tokens, states = WordProblem.from_monoid(group).sample(8, 1000, np.random.default_rng(1))
    found = cascade.ssm().run(torch.from_numpy(tokens))
    assert (cascade.decode(found).numpy() == states).all()
    # the bound 20 t ε of the docstring
    assert (found.abs() - 1).abs().max() < 20 * 1000 * 2.0**-53


@pytest.mark.parametrize("factors", [(2,), (12,), (2, 2), (4, 6), (3, 3, 2)])
def test_characters_of_a_factor_are_orthogonal_homomorphisms(factors: tuple[int, ...]) -> None:
    group = direct_product(*map(cyclic_group, factors))
    cascade = SolvableCascade(group)
    table = cascade._characters[0][cascade._cosets[0][1]].T  # [characters, elements]
    products = table[:, :, None] * table[:, None, :]
    assert (products - table[:, torch.tensor(group.table)]).abs().max() < 15 * 2.0**-53
    unit = torch.eye(group.order, dtype=table.dtype)
    assert (table @ table.conj().T / group.order - unit).abs().max() < 1e-14


def test_every_permutation_of_five_takes_five_minus_its_number_of_cycles() -> None:
    for images in permutations(range(5)):
        vectors = householder_vectors(images)
        cycles = Permutation(list(images)).cycles
        matrix = householder_product(vectors)
        assert len(vectors) == reflections_needed(matrix) == 5 - cycles
        assert (matrix @ torch.arange(5)).tolist() == list(images)


@pytest.mark.parametrize("factors", [1, 4])
def test_products_of_reflections_track_s5_exactly(factors: int) -> None:
    """One reflection a token for swaps as tokens, four for all 120 elements; int64, so every length."""
    group = symmetric_group(5)
    images = [[int(digit) - 1 for digit in name] for name in group.element_names]
    elements = [e for e in range(120) if len(householder_vectors(images[e])) <= factors]
    assert len(elements) == (11 if factors == 1 else 120)
    tokens, states = WordProblem.from_monoid(group, elements).sample(50, 1000, np.random.default_rng(0))
    matrices = torch.stack([householder_product(householder_vectors(images[e])) for e in elements])
    arrangement = torch.arange(5).expand(50, 5)
    for position in range(1000):
        arrangement = (matrices[tokens[:, position]] @ arrangement[..., None])[..., 0]
        assert (arrangement.numpy() == np.array(images)[states[:, position]]).all()


def test_all_of_s4_takes_two_reflections_in_three_dimensions() -> None:
    """S4 is the group of rotations of the cube: 24 integer matrices, each a product of two reflections."""
    rotations = [
        matrix
        for order in permutations(range(3))
        for signs in np.ndindex(2, 2, 2)
        for matrix in [torch.diag(1.0 - 2 * torch.tensor(signs, dtype=torch.float64))[list(order)]]
        if matrix.det() > 0
    ]
    assert len(rotations) == 24
    assert sorted(reflections_needed(matrix) for matrix in rotations) == [0] + 23 * [2]
    # the four diagonals of the cube are permuted faithfully, by all 24 permutations
    diagonals = torch.tensor([[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]], dtype=torch.float64)
    actions = {
        tuple(int((diagonals @ (matrix @ diagonal)).abs().argmax()) for diagonal in diagonals)
        for matrix in rotations
    }
    assert actions == set(permutations(range(4)))


NOT_SOLVABLE = "which is trivial or no solvable group"
test_bad_input_is_refused = refusals(
    (lambda: SolvableCascade(alternating_group(5)), f"group is A5, {NOT_SOLVABLE}"),
    (lambda: SolvableCascade(reset_monoid(2)), f"group is U2, {NOT_SOLVABLE}"),
    (lambda: SolvableCascade(cyclic_group(1)), f"group is Z1, {NOT_SOLVABLE}"),
    (lambda: householder_vectors([0, 0, 1]), "images is"),
)
