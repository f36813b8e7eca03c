from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from automata.errors import InputError
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
from theory.constructions import SolvableCascade
from theory.constructions.solvable import characters

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


@pytest.mark.parametrize("factors", [(1,), (2,), (12,), (2, 2), (4, 6), (3, 3, 2)])
def test_characters_are_orthogonal_homomorphisms(factors: tuple[int, ...]) -> None:
    group = direct_product(*map(cyclic_group, factors))
    table = characters(group.table, group.identity)
    assert len({tuple(row) for row in table}) == group.order
    for row in table:
        phases = np.array(row, dtype=object)
        sums = (phases[:, None] + phases[None, :] - phases[group.table]) % 1
        assert (sums == Fraction(0)).all()


@pytest.mark.parametrize(
    "group", [alternating_group(5), reset_monoid(2), cyclic_group(1)], ids=lambda g: g.name
)
def test_other_monoids_are_refused(group: Monoid) -> None:
    with pytest.raises(InputError, match=f"group is {group.name}, which is trivial or no solvable group"):
        SolvableCascade(group)
