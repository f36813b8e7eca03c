"""From an automaton to an implicit Mamba-2 model that tracks it on words of every length; its run folder."""

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from automata.checks import check_type
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.mealy import MealyMachine
from automata.monoids.monoid import Monoid
from automata.tasks.interface import Task
from automata.tasks.specification import TaskSource
from automata.tasks.word_problem import WordProblem
from implicit.compiled.bounds import LEAST_DAMPING, bounds_of
from implicit.compiled.weights import Gains, Wiring, constants_for, model_of
from implicit.config.run import TrainConfig
from implicit.models.registry import ImplicitMamba2
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, load_run

AnyMachine: TypeAlias = DFA | MealyMachine | Monoid | Task
"""Machines that can be compiled: all that have a table of transitions and answers."""


def compile_automaton(
    automaton: AnyMachine, gains: Gains | None = None, *, damping: float = 1.0
) -> ImplicitMamba2:
    """Return an implicit Mamba-2 model of one layer that answers as an automaton does, on every word.

    In exact arithmetic `bounds_of` proves that of the model that is returned; under assumptions on floats
    `executed_bounds_of` does. InputError for something else than an automaton, a task without a machine, or
    gains for which the proof fails.

    Args:
        automaton: a `DFA` (the answer is whether the word read so far is accepted), a `MealyMachine` (its
            answers), a `Monoid` (every element is a token, the answer is the product), or a task that knows
            its machine, such as a word problem (the state).
        gains: how strongly the parts act.
        damping: of the iteration, at least 0.1 and at most 1. With 1 two iterations per token are enough; the
            models that are trained have 0.8.

    Returns:
        The model in evaluation mode, float32, without kernels (``model.sequential_backend = "auto"`` lets
        one run).

    Example:
        >>> import torch
        >>> from automata.tasks import make_task
        >>> model = compile_automaton(make_task("parity"))
        >>> model(torch.tensor([[1, 0, 1, 1]])).argmax(-1).tolist()
        [[1, 1, 0, 1]]
    """
    if not LEAST_DAMPING <= damping <= 1:  # also refuses NaN
        raise InputError(f"damping is {damping}; give at least {LEAST_DAMPING} and at most 1")
    machine, classes = machine_of(automaton)
    wiring = Wiring.one_hot(machine, classes)
    model = model_of(wiring, constants_for(wiring, gains or Gains()), damping).without_kernels()
    bounds_of(model, wiring)
    return model


def machine_of(automaton: AnyMachine) -> tuple[MealyMachine, int]:
    """Return the machine with the answers that a compiled model gives, and the number of answers."""
    if isinstance(automaton, DFA):
        accepts = automaton.accepting_mask.astype(int)
        return MealyMachine(automaton.table, accepts[automaton.table], automaton.initial_number), 2
    if isinstance(automaton, MealyMachine):
        return automaton, int(automaton.answers.max()) + 1
    if isinstance(automaton, Monoid):
        automaton = WordProblem.from_monoid(automaton)
    if not isinstance(automaton, Task):
        raise InputError(
            f"automaton is of type {type(automaton).__name__}; give a DFA, a MealyMachine, a Monoid or a task"
        )
    machine = automaton.machine()
    if machine is None:
        raise InputError(f"task {automaton.name!r} has no machine that gives its answers; give one that has")
    return machine, automaton.output_size


def compile_run(
    task: TaskSource, out: str | PathLike[str], gains: Gains | None = None, *, damping: float = 1.0
) -> Run:
    """Compile the machine of a task and store the model as a finished run that was not trained.

    The task is as `automata.tasks.specification.task_from` takes it; that of automata that accept or reject
    is to tell the state. Metrics are empty, and ``compiled`` in the configuration holds the gains; steps,
    seed and optimiser there say nothing. InputError for a task without a machine, gains out of range, or a
    folder that is not empty; OSError if it cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = compile_run("parity", Path(folder) / "compiled-parity")
        >>> run.config.compiled["decay"], run.metrics, run.config.model
        (0.0625, [], 'implicit-mamba2')
    """
    check_type("out", out, (str, PathLike), "give the path of a run folder")
    folder, gains = RunFolder(Path(out)), gains or Gains()
    folder.check_free()
    described = TrainConfig.of(task=task, model="implicit-mamba2")
    model = compile_automaton(described.build_task(), gains, damping=damping)
    sizes = model.config.model_dump(exclude={"vocabulary_size", "output_size"})
    config = described.updated(sizes=sizes, compiled=asdict(gains))
    with folder.held():
        folder.begin(config)
        folder.finish(model)
    return load_run(folder.path, allow_code=True)
