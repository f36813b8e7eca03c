"""The command that answers words: as the task does, of any length, and as one call of the model."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from analysis.certificates.claims.words import ANSWER_RTOL
from analysis.framework.visited_states import in_double_precision
from implicit.answer import RTOL, answers, main
from implicit.config.run import TrainConfig
from implicit.fixed_point import NotConvergedWarning, Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, initial_model, load_run
from tests.refusals import refusals


def test_the_tolerance_that_certificates_speak_of_is_that_of_the_command() -> None:
    assert ANSWER_RTOL == RTOL


def test_answers_are_those_of_one_call_in_float64() -> None:
    run = load_run("parity-small")
    tokens = torch.randint(0, 2, (1, 40), generator=torch.Generator().manual_seed(0))
    names = [run.task.token_names[token] for token in tokens[0].tolist()]
    model = in_double_precision(run.model)
    with torch.no_grad():
        output = model.run(tokens, solve=Solve("sequential", stopping=Stopping(rtol=RTOL)))
    expected = [run.task.target_names[answer] for answer in output.logits.argmax(-1)[0].tolist()]
    assert list(answers(run, names)) == expected
    parity = tokens[0].cumsum(0) % 2
    assert expected == [str(bit) for bit in parity.tolist()]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("1 0\n\n1 1\n"))
    main(["parity-small", "-"])
    assert capsys.readouterr().out == "1 1 0 1\n"
    main(["parity-small"])
    assert capsys.readouterr().out == "\n"


test_faults_are_told_in_one_sentence = refusals(
    (lambda: main(["parity-small", "2"]), "token '2' is unknown"),
    (lambda: main(["parity-small", "1", "--rtol", "small"]), "rtol is 'small'; give a number"),
    (lambda: main(["parity-small", "1", "--rtol", "-1"]), "rtol is -1"),
)


def test_a_token_without_a_fixed_point_is_told() -> None:
    run: Any = load_run("parity-small")
    run.model.config = run.model.config.model_copy(update={"max_iterations": 3})
    with pytest.warns(NotConvergedWarning, match="1 of 1 tokens"):
        assert len(list(answers(run, ["1"]))) == 1


def test_explicit_models_answer_too() -> None:
    config = TrainConfig.of(task="parity", model="lstm", seed=3)
    task = config.build_task()
    run = Run(Path("lstm"), config, initial_model(config, task), task, [])
    with torch.no_grad():
        expected = in_double_precision(run.model)(torch.tensor([[0, 1, 1]])).argmax(-1)[0].tolist()
    assert list(answers(run, "011")) == [str(answer) for answer in expected]
