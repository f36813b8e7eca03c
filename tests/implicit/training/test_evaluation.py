"""Evaluation against models whose answers are known."""

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.tasks.registry import make_task
from implicit.fixed_point import NotConvergedWarning, Solution, Status, Stopping
from implicit.gradients import Unrolled
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
from implicit.models.registry import build_model
from implicit.modes import Solve
from implicit.training.evaluation import Convergence, evaluate
from implicit.training.streams import Stream, draw_batch
from tests.solving import solved
from theory.transition import State
from theory.transition_batch import TransitionBatch


class ExactParity(SequenceModel):
    """Right on the first ``right`` tokens, wrong on all others."""

    name = "exact-parity"
    config_class = ModelConfig

    def __init__(self, right: int) -> None:
        super().__init__(ModelConfig(vocabulary_size=2, output_size=2))
        self.right = right

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        wrong = torch.arange(tokens.shape[1]) >= self.right
        labels = (tokens.cumsum(dim=1) + wrong) % 2
        return ModelOutput(torch.nn.functional.one_hot(labels, 2).float(), {})

    def init_state(self, batch_size: int) -> State:
        raise NotImplementedError

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        raise NotImplementedError

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        raise NotImplementedError


def test_accuracy_of_a_model_that_is_right_on_the_first_tokens() -> None:
    evaluation = evaluate(ExactParity(right=17), make_task("parity"), length=20, sequences=10, batch_size=4)
    assert evaluation.correct.shape == (10, 20)
    assert evaluation.per_position.tolist() == [1.0] * 17 + [0.0] * 3
    assert evaluation.accuracy == 0.7  # of the last ten tokens
    assert evaluation.token_accuracy == 0.85
    assert evaluation.convergence is None


def test_short_sequences_count_whole() -> None:
    assert evaluate(ExactParity(right=2), make_task("parity"), length=4).accuracy == 0.5


def test_evaluation_of_an_implicit_model_is_that_of_its_own_solve() -> None:
    task = make_task("parity")
    torch.manual_seed(0)
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8}, task)
    assert isinstance(model, ImplicitModel)
    stopping = Stopping(rtol=1e-3, max_iterations=30)
    solve = Solve("simultaneous", stopping=stopping)
    part = {"sequences": 3, "batch_size": 2, "seed": 4, "stream": Stream.VALIDATION}
    with pytest.warns(NotConvergedWarning, match=r"batch 0 of 2: .* \(mode simultaneous, first at") as caught:
        evaluation = evaluate(model, task, length=6, **part, solve=solve)  # type: ignore[arg-type]
    assert caught[0].filename == __file__
    solutions, correct = [], []
    for index, size in enumerate((2, 1)):
        tokens, labels = draw_batch(task, size, 6, 4, Stream.VALIDATION, 6, index)[:2]
        solutions.append(solved(model, tokens, stopping=stopping))
        correct.append((solutions[-1].logits.argmax(-1) == labels).numpy())
    assert np.array_equal(evaluation.correct, np.concatenate(correct))
    iterations = torch.cat([solution.iterations for solution in solutions]).double()
    assert evaluation.convergence is not None
    assert evaluation.convergence.mean_iterations == float(iterations.mean())


def test_unrolled_rule_fixes_the_iterations() -> None:
    task = make_task("parity")
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8}, task)
    evaluation = evaluate(model, task, length=6, sequences=2, solve=Solve(gradient=Unrolled(3)), warn=False)
    assert evaluation.convergence is not None
    assert evaluation.convergence.mean_iterations == 3


@pytest.mark.parametrize("training", [True, False])
def test_model_keeps_its_mode_and_gets_no_gradient(training: bool) -> None:
    task = make_task("parity")
    model = build_model("lstm", {"d_model": 4}, task).train(training)
    evaluate(model, task, length=4, sequences=2)
    assert model.training is training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_convergence_is_a_mean_over_tokens_not_over_batches() -> None:
    """Three tokens in one batch and one in another, with figures that show the weights."""

    def solution(tokens: int, iterations: int, status: Status) -> Solution:
        value = torch.ones(1, tokens, 4)  # of norm 2
        everywhere = torch.ones(1, tokens)
        return Solution(value, iterations * everywhere.long(), 0.5 * everywhere, int(status) * everywhere)

    convergence = Convergence.of([solution(3, 4, Status.CONVERGED), solution(1, 8, Status.MAX_ITERATIONS)])
    assert convergence == Convergence(0.75, 5.0, 0.25)
