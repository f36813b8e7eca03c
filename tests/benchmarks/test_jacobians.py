"""What the comparison of Jacobians rests on: its check, its spread of tokens, and times by proportion."""

import itertools

import pytest
import torch
from torch import Tensor

from benchmarks import jacobians
from benchmarks.frame import Case, Contender, IncorrectError, run_case
from implicit import ImplicitMamba2, ImplicitMamba2Config


@pytest.fixture
def sequence() -> jacobians.VisitedSequence:
    torch.manual_seed(0)
    config = ImplicitMamba2Config(
        vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2, residual=False
    )
    model = ImplicitMamba2(config).double().requires_grad_(False)
    # A self-map that depends little on z is a contraction.
    model.get_parameter("mixers.0.in_proj.weight").mul_(0.1)
    return jacobians.VisitedSequence.of(model, torch.tensor([0, 1, 1, 0]))


def test_the_check_notices_a_wrong_matrix(
    sequence: jacobians.VisitedSequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    jacobians.check(sequence, [0, 3], [1, 2])
    right = jacobians.VisitedSequence.jacrevs

    def wrong(sequence: jacobians.VisitedSequence, positions: list[int]) -> list[Tensor]:
        matrices = right(sequence, positions)
        matrices[1][3, 5] += 1e-6
        return matrices

    monkeypatch.setattr(jacobians.VisitedSequence, "jacrevs", wrong)
    with pytest.raises(IncorrectError, match="jacrev differs from the batched Jacobian of token 2"):
        jacobians.check(sequence, [0, 3], [1, 2])


def test_the_tokens_lie_in_the_middle_of_equal_parts() -> None:
    assert jacobians.spread(4) == [32, 96, 160, 224]


def test_the_times_of_a_part_stand_for_the_whole_by_proportion() -> None:
    ticks = itertools.accumulate([0, 9, 0, 9, *([0, 2, 0, 3] * 3)])
    contenders = (Contender("all", lambda: None), Contender("quarter", lambda: None, share=0.25))
    record = run_case(Case({}, lambda: None, contenders, turns=3), clock=lambda: next(ticks))
    part = record["contenders"]["quarter"]
    assert part["seconds"] == [3, 3, 3]
    assert part["median_seconds"] == part["best_seconds"] == 12
    assert part["ratio_to_first"] == 6
    assert part["share"] == 0.25
