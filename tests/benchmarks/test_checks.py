"""The check in front of every benchmark lets right results through and notices wrong ones."""

import itertools

import pytest
import torch
from torch import Tensor

from analysis.framework.needs import as_implicit
from benchmarks import (
    cells,
    jacobians,
    mamba2_cell,
    solvers,
)
from benchmarks.frame import Case, Contender, IncorrectError, run_case
from implicit import ImplicitMamba2, ImplicitMamba2Config, load_run
from implicit.fixed_point import Stopping
from implicit.training.streams import Stream, draw_batch


@pytest.mark.parametrize("name", ["deltanet", "gated-deltanet", "gated-deltaproduct", "attention"])
def test_equal_forms_of_a_cell_pass_and_others_do_not(name: str) -> None:
    forms = cells.cells({"batch": 2, "length": 5, "d_model": 8, "heads": 2, "head_size": 4})[name]
    inputs = torch.randn(2, 5, 8)
    cells.check(forms, inputs)
    layer, _ = list(forms.values())[-1]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.01)
    with pytest.raises(IncorrectError, match="of the largest entry"):
        cells.check(forms, inputs)


def test_another_weight_than_that_of_transformers() -> None:
    cell, mixer, inputs = mamba2_cell.contenders(1, 5, d_model=8, expand=2, d_state=4, head_size=4)
    mamba2_cell.check(cell, mixer, inputs)
    with torch.no_grad():
        cell.D.add_(0.1)
    with pytest.raises(IncorrectError, match="outputs differs from that of transformers"):
        mamba2_cell.check(cell, mixer, inputs)


def test_a_wrong_matrix_of_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary_size": 2, "output_size": 2, "d_model": 4, "head_size": 4, "d_state": 2}
    model = ImplicitMamba2(ImplicitMamba2Config(**sizes, residual=False)).double().requires_grad_(False)
    # A self-map that depends little on z is a contraction.
    model.get_parameter("mixers.0.in_proj.weight").mul_(0.1)
    sequence = jacobians.VisitedSequence.of(model, torch.tensor([0, 1, 1, 0]))
    jacobians.check(sequence, [0, 3], [1, 2])
    right = jacobians.VisitedSequence.jacrevs

    def wrong(sequence: jacobians.VisitedSequence, positions: list[int]) -> list[Tensor]:
        matrices = right(sequence, positions)
        matrices[1][3, 5] += 1e-6
        return matrices

    monkeypatch.setattr(jacobians.VisitedSequence, "jacrevs", wrong)
    with pytest.raises(IncorrectError, match="jacrev differs from the batched Jacobian of token 2"):
        jacobians.check(sequence, [0, 3], [1, 2])


def test_the_tokens_lie_in_the_middle_of_equal_parts_which_stand_for_the_whole_by_proportion() -> None:
    assert jacobians.spread(4) == [32, 96, 160, 224]
    ticks = itertools.accumulate([0, 9, 0, 9, *([0, 2, 0, 3] * 3)])
    contenders = (Contender("all", lambda: None), Contender("quarter", lambda: None, share=0.25))
    record = run_case(Case({}, lambda: None, contenders, turns=3), clock=lambda: next(ticks))
    part = record["contenders"]["quarter"]
    assert part["seconds"] == [3, 3, 3]
    assert part["median_seconds"] == part["best_seconds"] == 12
    assert (part["ratio_to_first"], part["share"]) == (6, 0.25)


LONG = Stopping(rtol=1e-3, max_iterations=1000)


def test_other_answers_than_those_of_other_modes_and_tokens_not_converged() -> None:
    run = load_run("parity-small")
    model, tokens = as_implicit(run), draw_batch(run.task, 2, 6, 0, Stream.TEST, 6).tokens
    solutions = {mode: solvers.solve(model, tokens, mode, LONG) for mode in solvers.MODES}
    solvers.check(solutions)
    solution, decoded = solutions["windowed"]
    with pytest.raises(IncorrectError, match="decode 12 tokens differently"):
        solvers.check({**solutions, "windowed": (solution, 1 - decoded)})
    early = solvers.solve(model, tokens, "windowed", Stopping(rtol=1e-3, max_iterations=1))
    with pytest.raises(IncorrectError, match=r"windowed: only 0.00% of the tokens converged"):
        solvers.check({**solutions, "windowed": early})
