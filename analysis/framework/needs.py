"""The needs of a question: without them commands refuse a run, and reports leave the question out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from automata.checks import check_type
from automata.errors import InputError
from automata.tasks.observed import ObservedTask
from automata.tasks.sequence_file import SequenceFile
from automata.tasks.word_problem import WordProblem
from implicit.enclosed.any_loop import is_mamba2
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.models.stack import CellStack
from implicit.runs.loading import Run
from theory.theorem1.check import layer_remedy


@dataclass(frozen=True)
class Need:
    """Something that a model must have for a question to make sense.

    Attributes:
        met_by: whether a model has it.
        lack: what is said of a model without it, after "the model is <model>, ".
        remedy: what to give instead.
        of_layers: whether a layer within a model may have it, which `theory.check` takes.
    """

    met_by: Callable[[SequenceModel], bool]
    lack: str
    remedy: str
    of_layers: bool = False

    def require(self, run: Run) -> None:
        """Refuse a run whose model lacks it.

        Example:
            >>> from implicit.runs.loading import load_run
            >>> run = load_run("lazy-swaps-gated-deltanet")
            >>> FIXED_POINTS.require(run)
            Traceback (most recent call last):
            automata.errors.InputError: the model of run ... is gated-deltanet, which has no fixed points; ...
        """
        check_type("run", run, Run, "give a loaded one, implicit.load_run(...)")
        if not self.met_by(run.model):
            remedy = f"{layer_remedy(run.model) if self.of_layers else ''}{self.remedy}"
            raise InputError(f"the model of run {run.name} is {run.config.model}, {self.lack}; {remedy}")


ANY_MODEL = Need(lambda _model: True, "", "")
FIXED_POINTS = Need(
    lambda model: model.implicit is not None,
    "which has no fixed points",
    "give the run of an implicit model",
    of_layers=True,
)
CONSTANT_STATE = Need(
    lambda model: not model.state_grows,
    "whose state grows with every token",
    "give the run of a model whose state has a constant size",
)
BALL_ARITHMETIC = Need(
    # an explicit model needs a form written by hand; of an implicit one, what its cell calls decides
    lambda model: is_mamba2(model) or (isinstance(model, CellStack) and model.implicit is not None),
    "of which there is no ball-arithmetic form",
    "give the run of an implicit model of a cell, or of a mamba2; elman, gru, lstm and a StepModel take "
    "--claim lengths",
)


def as_implicit(run: Run) -> FixedPointModel:
    """Return the model of a run as one with fixed points."""
    FIXED_POINTS.require(run)
    model = run.model.implicit
    assert model is not None
    return model


def word_problem_of(run: Run) -> WordProblem:
    """Return the task of a run as a word problem: a finite machine whose states are the answers.

    For a file of stored words it is the word problem that its words come from. InputError also for a subclass
    of a user's whose batches have other answers than its table.
    """
    if isinstance(run.task, SequenceFile):
        return run.task.word_problem
    if not isinstance(run.task, WordProblem):
        raise InputError(
            f"run {run.name} was trained on the task {run.task.name}, which is no word problem; "
            "give the run of one, such as parity, S3 or S5"
        )
    if type(run.task) is not WordProblem:
        batch = run.task.batch(64, 32, np.random.default_rng(0))
        if ((batch.targets != run.task.states(batch.tokens)) & (batch.counted > 0)).any():
            raise InputError(
                f"task {run.task.name} gives other answers than its table; write a Task with answers of its "
                "own, not a WordProblem"
            )
    return run.task


def observed_task_of(run: Run) -> ObservedTask:
    """Return the task of a run as one about a hidden state of which there is an exact belief."""
    check_type("run", run, Run, "give a loaded one, implicit.load_run(...)")
    if not isinstance(run.task, ObservedTask):
        raise InputError(
            f"run {run.name} was trained on the task {run.task.name}, which has no hidden state with an "
            "exact belief; give the run of a task such as lazy-swaps-3-reveals"
        )
    return run.task
