"""Wrong input to runs and the analyses of them, in a Python shell."""

import math
from collections.abc import Callable, Sequence

import pytest
from pydantic import BaseModel, ValidationError

import analysis.agreement
import analysis.belief
import analysis.convergence
import analysis.error_control
import analysis.extraction
import analysis.jacobian
import analysis.length_generalization
import analysis.mechanism
from analysis.questions import QUESTIONS
from automata import make_task
from implicit import TrainConfig, evaluate, load_run, recipe, train
from implicit.config.curriculum import Curriculum
from implicit.config.run import EvaluationConfig, InitialWeights, OptimizerConfig
from tests.wrong_python_inputs.refused_calls import PARITY, Row, assert_refused, lstm, model, row_name, run

A = analysis
SETTINGS: set[type[BaseModel]] = {question.settings for question in QUESTIONS}
SETTINGS |= {TrainConfig, Curriculum, EvaluationConfig, InitialWeights, OptimizerConfig}

# Types are wrong on purpose all over this table.
RUNS: list[Row] = [
    (lambda: evaluate(run(), PARITY, 4), ["model is of type Run", "load_run(...).model"]),
    (lambda: evaluate(model(), "parity", 4), ["task is 'parity'", "task_from"]),
    (lambda: evaluate(lstm(), make_task("S3"), 4), ["S3", "6", "trained on"]),
    (lambda: evaluate(lstm(), PARITY, 2.5), ["length is 2.5", "whole number"]),
    (lambda: evaluate(lstm(), PARITY, 4, seed=-1), ["seed is -1", "at least 0"]),
    (lambda: evaluate(lstm(), PARITY, 4, stream="test"), ["'test'", "Stream.TEST"]),
    (lambda: evaluate(lstm(), PARITY, 10**10), ["10000000000", "GiB", "available"]),
    (lambda: recipe("parity", "lstm", seed=-1), ["seed is -1"]),
    (lambda: recipe("parity", "lstm", stepz=1), ["'stepz'", "'steps'"]),
    (lambda: recipe(None, "lstm"), ["task is None", "give a Task"]),
    (lambda: train("parity", "runs/x"), ["config is 'parity'", "recipe("]),
    (lambda: train(recipe("parity", "lstm"), None), ["out is None", "run folder"]),
    (lambda: train(recipe("parity", "lstm"), "runs/x", device="gpu"), ["device is 'gpu'", "cpu"]),
    (lambda: load_run(3), ["run is 3", "run folder"]),
    (lambda: load_run(run()), ["run is of type Run", "run folder"]),
    (lambda: load_run("9" * 400), ["unknown", "known:"]),
    (lambda: A.jacobian.analyse("parity"), ["run is 'parity'", "load_run"]),
    (lambda: A.jacobian.analyse(run(), {"length": 3}), ["{'length': 3}", "JacobianSettings"]),
    (lambda: A.convergence.analyse(model()), ["run is of type", "load_run"]),
    (lambda: A.agreement.analyse(run(), seuqences=2), ["'seuqences'", "'sequences'"]),
    (lambda: A.extraction.analyse(None), ["run is None", "load_run"]),
    (lambda: A.error_control.analyse(None), ["run is None", "load_run"]),
    (lambda: A.belief.analyse(None), ["run is None", "load_run"]),
    (lambda: A.belief.analyse([]), ["runs is empty", "at least one"]),
    (lambda: A.belief.measure_belief(model()), ["run is of type", "load_run"]),
    (lambda: A.belief.measure_belief(run(), multiplse=(1,)), ["'multiplse'", "'multiples'"]),
    (lambda: A.belief.measure_belief(run()), ["no hidden state", "lazy-swaps"]),
    (lambda: A.mechanism.compare(None), ["run is None", "load_run"]),
    (lambda: A.mechanism.compare([]), ["runs is empty", "at least one"]),
    (lambda: A.mechanism.compare([model()]), ["run is of type", "load_run"]),
    (lambda: A.length_generalization.analyse(None), ["run is None", "load_run"]),
    (lambda: A.length_generalization.analyse([]), ["runs is empty", "at least"]),
    (lambda: A.length_generalization.analyse(run(), lengths=(10**10,)), ["10000000000", "GiB", "available"]),
]


@pytest.mark.parametrize(("call", "words"), RUNS, ids=row_name)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    assert_refused(call, words)


@pytest.mark.parametrize("settings", sorted(SETTINGS, key=str))
def test_settings_take_known_fields_and_finite_numbers_only_and_stay(settings: type[BaseModel]) -> None:
    assert settings.model_config.get("frozen") is True
    floats = [name for name, field in settings.model_fields.items() if field.annotation is float]
    for name, value in [("unknown", 1.0), *((name, bad) for name in floats for bad in (math.nan, math.inf))]:
        with pytest.raises(ValidationError) as refused:
            settings.model_validate({name: value})
        assert (name,) in {error["loc"][:1] for error in refused.value.errors()}
