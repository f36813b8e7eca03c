"""Evaluation against models whose answers are known."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.specification import task_from
from implicit.fixed_point import NotConvergedWarning, Solution, Status, Stopping
from implicit.models.interface import ModelOutput
from implicit.models.registry import build_model
from implicit.models.torch_rnn import LSTM, LSTMConfig
from implicit.modes import Solve
from implicit.training.evaluation import Convergence, Evaluation, evaluate
from implicit.training.streams import Stream, draw_batch
from tests.solving import solved

PARITY = make_task("parity")


def test_logits_that_are_nan_are_no_answer() -> None:
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=1))
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)
    with pytest.warns(RuntimeWarning, match="logits of some tokens are NaN, which is no answer"):
        assert evaluate(model, PARITY, length=8, sequences=40).accuracy == 0


class ExactParity(LSTM):
    """Right on the first ``right`` tokens, wrong on all others."""

    def __init__(self, right: int) -> None:
        super().__init__(LSTMConfig(vocabulary_size=2, output_size=2, d_model=1))
        self.right = right
        self.seen: list[Tensor] = []

    def check_made(self) -> None:
        """Let it pass: it has no steps."""

    def run(self, tokens: Tensor, *_: Any, **__: Any) -> ModelOutput:
        self.seen.append(tokens)
        wrong = torch.arange(tokens.shape[1]) >= self.right
        labels = (tokens.cumsum(dim=1) + wrong) % 2
        return ModelOutput(torch.nn.functional.one_hot(labels, 2).float(), {})


def test_accuracy_of_a_model_that_is_right_on_the_first_tokens() -> None:
    evaluation = evaluate(ExactParity(right=17), PARITY, length=20, sequences=10, batch_size=4)
    assert evaluation.correct.shape == (10, 20)
    assert evaluation.per_position.tolist() == [1.0] * 17 + [0.0] * 3
    assert evaluation.accuracy == 0.7  # of the last ten tokens
    assert evaluation.token_accuracy == 0.85
    assert evaluation.sequence_accuracy == 0
    assert evaluation.convergence is None
    assert evaluate(ExactParity(right=2), PARITY, length=4).accuracy == 0.5  # short ones count whole


def test_evaluation_of_an_implicit_model_is_that_of_its_own_solve() -> None:
    task = PARITY
    torch.manual_seed(0)
    model = build_model("implicit-mamba2", {"d_model": 8, "head_size": 8}, task)
    stopping = Stopping(rtol=1e-3, max_iterations=30)
    solve = Solve("simultaneous", stopping=stopping)
    part: Any = {"sequences": 3, "batch_size": 2, "seed": 4, "stream": Stream.VALIDATION}
    with pytest.warns(NotConvergedWarning, match=r"batch 0 of 2: .* \(mode simultaneous, first at") as caught:
        evaluation: Any = evaluate(model, task, length=6, **part, solve=solve)
    assert caught[0].filename == __file__
    solutions, correct = [], []
    for index, size in enumerate((2, 1)):
        tokens, labels = draw_batch(task, size, 6, 4, Stream.VALIDATION, 6, index)[:2]
        solutions.append(solved(model, tokens, stopping=stopping))
        correct.append((solutions[-1].logits.argmax(-1) == labels).numpy())
    assert np.array_equal(evaluation.correct, np.concatenate(correct))
    iterations = torch.cat([solution.iterations for solution in solutions]).double()
    assert evaluation.convergence.mean_iterations == float(iterations.mean())


def test_convergence_is_a_mean_over_tokens_not_over_batches() -> None:
    def solution(tokens: int, iterations: int, status: Status) -> Solution:
        value = torch.ones(1, tokens, 4)  # of norm 2
        everywhere = torch.ones(1, tokens)
        return Solution(value, iterations * everywhere.long(), 0.5 * everywhere, int(status) * everywhere)

    convergence = Convergence.of([solution(3, 4, Status.CONVERGED), solution(1, 8, Status.MAX_ITERATIONS)])
    assert convergence == Convergence(0.75, 5.0, 0.25)


def test_reports_draw_from_the_test_stream_unless_told_otherwise() -> None:
    every: list[dict[str, Any]] = [{}, *({"stream": stream} for stream in Stream)]
    for options in every:
        model, stream = ExactParity(right=0), options.get("stream", Stream.TEST)
        evaluate(model, PARITY, 40, sequences=130, seed=3, **options)
        for index, (size, seen) in enumerate(zip((64, 64, 2), model.seen, strict=True)):
            assert torch.equal(seen, draw_batch(PARITY, size, 40, 3, stream, 40, index).tokens)


@pytest.mark.parametrize("field", ["length", "sequences", "batch_size"])
def test_one_is_enough_and_nothing_is_refused(field: str) -> None:
    plain: dict[str, Any] = {"length": 3, "sequences": 2, "batch_size": 2}
    evaluate(ExactParity(right=0), PARITY, **{**plain, field: 1})
    with pytest.raises(InputError, match=f"^{field} is 0; give at least 1$"):
        evaluate(ExactParity(right=0), PARITY, **{**plain, field: 0})


def test_answers_that_are_not_asked_for_do_not_count() -> None:
    counted = np.zeros((2, 30), bool)
    counted[0, [*range(10), 20, 22, 24, 26, 28]] = True  # 15 answers
    counted[1, 3:7] = True  # 4, fewer than ten
    correct = np.zeros((2, 30), bool)
    correct[0, [0, 2, 6, 28]] = True  # of the last ten answers, which begin at 5, two
    correct[1, [3, 4, 5, 20]] = True  # of its four answers, three
    evaluation = Evaluation(correct, None, counted)
    assert evaluation.accuracy == (2 + 3) / (10 + 4)
    assert evaluation.token_accuracy == (4 + 3) / (15 + 4)
    assert evaluation.sequence_accuracy == 0
    correct[1, 6] = True  # now all four
    assert evaluation.sequence_accuracy == 0.5
    correct[1, 6] = False
    expected = np.full(30, np.nan)
    expected[:10] = [1, 0, 1, 0.5, 0.5, 0.5, 0.5, 0, 0, 0]
    expected[20:30:2] = [0, 0, 0, 0, 1]
    np.testing.assert_array_equal(evaluation.per_position, expected)


def test_an_evaluation_counts_what_the_task_asks_for() -> None:
    task = task_from("noisy-parity-reveals")
    torch.manual_seed(0)
    model = build_model("lstm", {"d_model": 4}, task)
    evaluation: Any = evaluate(model, task, 40, sequences=6, batch_size=4, seed=2)
    batches = [draw_batch(task, size, 40, 2, Stream.TEST, 40, index) for index, size in enumerate((4, 2))]
    asked = torch.cat([batch.counted for batch in batches]).numpy()
    assert not asked.all()
    np.testing.assert_array_equal(evaluation.counted, asked)
    assert evaluation.token_accuracy == evaluation.correct[asked].mean()
    assert evaluate(model, PARITY, 3, sequences=2).counted is None


def test_every_part_of_a_model_keeps_its_own_mode() -> None:
    model = ExactParity(right=20).train()
    model.frozen = torch.nn.Dropout(0.5).eval()
    evaluate(model, PARITY, length=5, sequences=4)
    assert model.training
    assert not model.frozen.training
