"""From an automaton to an implicit Mamba-2 model that tracks it on words of every length."""

from typing import TypeAlias

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.mealy import MealyMachine
from automata.monoids.monoid import Monoid
from automata.tasks.interface import Task
from automata.tasks.word_problem import WordProblem
from implicit.compiled.bounds import LEAST_DAMPING, bounds_of
from implicit.compiled.gains import Gains
from implicit.compiled.weights import constants_for, model_of
from implicit.compiled.wiring import Wiring
from implicit.models.mamba2 import ImplicitMamba2

AnyMachine: TypeAlias = DFA | MealyMachine | Monoid | Task
"""Machines that can be compiled: all that have a table of transitions and answers."""


def compile_automaton(
    automaton: AnyMachine, gains: Gains | None = None, *, damping: float = 1.0
) -> ImplicitMamba2:
    """Return an implicit Mamba-2 model of one layer that answers as an automaton does, on every word.

    In exact arithmetic that is proved for the model that is returned: `bounds_of` encloses the inequalities
    of docs/compiled_automata_proofs.md for its very weights, and the model is refused if one of them fails.
    What floats make of it is proved by `executed_bounds_of`, under assumptions on the arithmetic.

    Args:
        automaton: a `DFA` (the answer is whether the word read so far is accepted), a `MealyMachine` (its
            answers), a `Monoid` (every element is a token, the answer is the product), or a task that knows
            its machine, such as a word problem (the state).
        gains: how strongly the parts act.
        damping: of the iteration, at least 0.1 and at most 1. With 1 two iterations per token are enough; the
            models that are trained have 0.8.

    Returns:
        The model in evaluation mode, float32; it computes by PyTorch's own operations, which
        `executed_bounds_of` speaks of (``model.sequential_backend = "auto"`` lets a kernel do so).

    Raises:
        InputError: for something else, a task without a machine, or gains for which the proof fails.

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
