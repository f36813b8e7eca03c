from itertools import permutations

import numpy as np
import pytest
import torch
from sympy.combinatorics import Permutation

from automata.errors import InputError
from automata.monoids.groups import symmetric_group
from automata.tasks.word_problem import WordProblem
from theory.constructions import householder_product, householder_vectors, reflections_needed


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


def test_no_permutation_is_refused() -> None:
    with pytest.raises(InputError, match="images is"):
        householder_vectors([0, 0, 1])
