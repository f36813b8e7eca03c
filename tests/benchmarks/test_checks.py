"""The check in front of every benchmark lets right results through and notices wrong ones."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from analysis.framework.needs import as_implicit
from benchmarks import (
    cells,
    gradient_memory,
    jacobians,
    mamba2_cell,
    solvers,
)
from benchmarks.frame import Case, Contender, IncorrectError, run_case
from benchmarks.torchdeq_solvers import STOPPING, Setting, ours, theirs
from implicit import ImplicitMamba2, ImplicitMamba2Config, load_run
from implicit.fixed_point import DampedPicard, FixedPointProblem, Stopping
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


def test_a_gradient_of_too_few_terms_and_one_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_memory, "SEQUENCES", 2)
    monkeypatch.setattr(gradient_memory, "LENGTH", 8)
    case = next(iter(gradient_memory.cases()))
    assert case.parameters["iterations"] == 4
    case.check()
    works: dict[str, Any] = {contender.name: contender.work for contender in case.contenders}
    exact = works["implicit"]().double()
    # Four terms of the series are not the whole of it.
    with pytest.raises(IncorrectError, match="unrolled: the gradient is off by"):
        gradient_memory.check({"unrolled": works["unrolled"]}, {"unrolled": exact})
    with pytest.raises(IncorrectError, match="unrolled: the gradient is off by nan"):
        gradient_memory.check({"unrolled": partial(torch.mul, exact, torch.nan)}, {"unrolled": exact})


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


RATES = torch.tensor([0.5, 0.9]).view(1, 2, 1)


@pytest.fixture
def setting() -> Setting:
    """z = a z + 1 for two tokens of one feature, of which the second is slow; fixed points 2 and 10."""
    problem, start = FixedPointProblem(lambda z: RATES * z + 1), torch.zeros(1, 2, 1)
    return Setting(problem, start, lambda z: torch.cat([z, 10 - z], -1), torch.tensor([[1, 0]]))


def test_tokens_outside_of_the_tolerance_or_decoded_differently(setting: Setting) -> None:
    right, off = torch.tensor([[[2.0], [10.0]]]), torch.tensor([[[2.0], [9.0]]])
    assert setting.wrong(right) == (0, 0)
    assert setting.wrong(off) == (0.5, 0)
    assert setting.wrong(torch.tensor([[[9.0], [9.0]]])) == (1, 0.5)
    assert setting.wrong(right * torch.nan)[0] == 1
    setting.check(lambda: right)
    with pytest.raises(IncorrectError, match=r"wrong on 50.0% of the tokens by the residual and on 0.0%"):
        setting.check(lambda: off)


def test_both_packages_reach_the_tolerance_in_the_sweeps_that_they_report(setting: Setting) -> None:
    # Undamped from 0, the slow token has residual 0.9^k and latent 10 (1 - 0.9^k) after k sweeps.
    k = next(k for k in range(1000) if 0.9**k <= STOPPING.rtol * 10 * (1 - 0.9**k))
    mine = ours("ours", setting, DampedPicard(1.0))
    assert mine.counts["sweeps"] == k + 1  # the last sweep only measures
    rival = theirs("theirs", setting, "fixed_point_iter", tau=1.0)
    assert abs(rival.counts["sweeps"] - k) <= 8  # a halved tolerance takes ln 2 / ln(1 / 0.9) = 7 more
    for contender in (mine, rival):
        assert contender.check is not None
        contender.check()


def test_torchdeq_gets_the_loosest_tolerance_that_will_do(setting: Setting) -> None:
    tolerance = setting.tolerance("fixed_point_iter", tau=0.1)
    # Its norm is of the damped step, a tenth of ours: a tenth of the tolerance is needed, so four halvings.
    assert tolerance == STOPPING.rtol / 16
    assert setting.wrong(setting.torchdeq("fixed_point_iter", 2 * tolerance, tau=0.1))[0] > 0
