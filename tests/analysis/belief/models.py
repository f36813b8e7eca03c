"""Models made by hand from the exact filter: what the analysis must find of them is known."""

import numpy as np
import torch
from torch import Tensor

from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.specification import task_from
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel
from implicit.runs.loading import Run
from theory.transition import State

TASK = "lazy-swaps-3-reveals"


def observed_task(name: str = TASK) -> PartiallyObserved:
    task = task_from(name)
    assert isinstance(task, PartiallyObserved)
    return task


class ExactFilter(StepModel):
    """The state is the exact belief, and the reveal that waits for its value; predictions are exact."""

    name = "exact-filter"

    def __init__(self, task: PartiallyObserved, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(ModelConfig(vocabulary_size=task.vocabulary_size, output_size=task.output_size))
        automaton = task.automaton
        actions, reveals, states = len(automaton.actions), len(automaton.reveals), len(automaton.states)
        self.dtype, self.initial = dtype, torch.tensor(automaton.initial, dtype=dtype)
        # operators of a token after each reveal, or after none; and what is asked after each token
        operators = np.tile(np.eye(states), (reveals + 1, task.vocabulary_size, 1, 1))
        operators[:, :actions] = automaton.matrices
        for reveal, reading in enumerate(automaton.readings):
            names = automaton.value_names[automaton.reveals[reveal]]
            for number, value in enumerate(task.value_names):
                shown = [names[entry] == value for entry in reading]
                operators[reveal + 1, actions + reveals + number] = np.diag(shown)
        self.operators = torch.tensor(operators, dtype=dtype)
        asked = np.zeros(task.vocabulary_size)
        asked[actions : actions + reveals] = np.arange(1, reveals + 1)
        self.asked = torch.tensor(asked, dtype=dtype)
        answers = [np.full((states, task.output_size), 1 / task.output_size)]
        answers += [task.answers(np.eye(states), question) for question in range(reveals)]
        self.answers = torch.tensor(np.stack(answers), dtype=dtype)

    def init_state(self, batch_size: int) -> State:
        return {
            "belief": self.initial.expand(batch_size, -1),
            "asked": torch.zeros(batch_size, 1, dtype=self.dtype),
        }

    @property
    def layer_states(self) -> tuple[tuple[str, ...], ...]:
        return (("belief",),)

    def embed(self, tokens: Tensor) -> Tensor:
        return tokens[..., None].to(self.dtype)

    def update(self, state: State, inputs: Tensor) -> State:
        token, asked = inputs[..., 0].long(), state["asked"][..., 0].long()
        moved = (self.operators[asked, token] @ state["belief"][..., None])[..., 0]
        return {"belief": self.divided(moved), "asked": self.asked[token][..., None]}

    def divided(self, moved: Tensor) -> Tensor:
        return moved / moved.sum(-1, keepdim=True)

    def read(self, state: State) -> Tensor:
        belief = state["belief"]
        mass = belief.sum(-1, keepdim=True)
        belief = torch.where(mass > 0, belief / torch.where(mass > 0, mass, 1), 1 / belief.shape[-1])
        answers = self.answers[state["asked"][..., 0].long()]
        return torch.log((belief[..., None, :] @ answers)[..., 0, :])


class LinearFilter(ExactFilter):
    """The same without the division: linear in its state, with an unchanged prediction."""

    linear_in_state = True

    def divided(self, moved: Tensor) -> Tensor:
        return moved


class Turning(ExactFilter):
    """The exact belief with a sign that turns at every token: exact predictions, and no linear probe."""

    def init_state(self, batch_size: int) -> State:
        return {**super().init_state(batch_size), "sign": torch.ones(batch_size, 1, dtype=self.dtype)}

    def update(self, state: State, inputs: Tensor) -> State:
        belief = {**state, "belief": state["sign"] * state["belief"]}
        after = super().update(belief, inputs)
        return {**after, "belief": -state["sign"] * after["belief"], "sign": -state["sign"]}

    def read(self, state: State) -> Tensor:
        return super().read({**state, "belief": state["sign"] * state["belief"]})


class Uniform(ExactFilter):
    """Every answer with the same probability, from a state that is always zero."""

    def divided(self, moved: Tensor) -> Tensor:
        return torch.zeros_like(moved)

    def read(self, state: State) -> Tensor:
        return torch.zeros_like(super().read(state))


def run_of(model: ExactFilter, task: PartiallyObserved, *, name: str = "by-hand", length: int = 16) -> Run:
    return Run.of(model, task, name=name, length=length)
