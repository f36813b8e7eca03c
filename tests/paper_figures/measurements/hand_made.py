"""Models without weights that read the text of a task and answer by their own means, not by the package's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from automata.tasks.interface import Task
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.models.interface import ModelConfig, ModelOutput
from implicit.models.step_model import StepModel
from implicit.runs.loading import Run, initial_model
from theory.transition import State

Answer = Callable[[str], str | None]
"""The continuation of a text; None where it has none."""


class Sayer(StepModel):
    """Says always the same word; it keeps what it has read, and whether it went on from a state."""

    name = "by-hand"

    def __init__(self, task: Task, word: str) -> None:
        super().__init__(ModelConfig(vocabulary_size=task.vocabulary_size, output_size=task.output_size))
        self.names, self.word = task.token_names, task.token_names.index(word)
        self.seen: list[Tensor] = []
        self.went_on: list[bool] = []

    def check_made(self) -> None:
        """Let it pass: readers have no steps, and nothing is kept of what a check reads."""

    def run(self, tokens: Tensor, state: Any = None, *solve: Any, **options: Any) -> ModelOutput:
        self.seen.append(tokens)
        self.went_on.append(state is not None)
        return super().run(tokens, state, *solve, **options)

    def init_state(self, batch_size: int) -> State:
        return {"held": torch.zeros(batch_size, 2)}

    def embed(self, tokens: Tensor) -> Tensor:
        return tokens[..., None].float()

    def update(self, state: State, inputs: Tensor) -> State:
        return state

    def read(self, state: State) -> Tensor:
        return self.saying(torch.full(state["held"].shape[:-1], self.word))

    def saying(self, words: Tensor) -> Tensor:
        """Logits that are largest at these tokens."""
        return one_hot(words.long(), self.config.output_size).float()


class Reader(Sayer):
    """Says at every place what a function says of the text up to there."""

    def __init__(self, task: Task, answer: Answer) -> None:
        super().__init__(task, task.token_names[0])
        self.answer = answer

    def run(self, tokens: Tensor, *state: Any, lengths: Tensor | None = None, **solve: Any) -> ModelOutput:
        self.seen.append(tokens)
        logits = torch.zeros(*tokens.shape, self.config.output_size)
        for row, numbers in enumerate(tokens.tolist()):
            text = ""
            for place, number in enumerate(numbers):
                text += self.names[number] if number else ""
                if (said := self.answer(text)) is not None:
                    logits[row, place, self.names.index(said)] = 1
        return ModelOutput(logits, {})


def run_of(model: Sayer, task: Task, *steps: int, **settings: Any) -> Run:
    """A run of the model whose metrics name these updates."""
    config = recipe(task, "lstm", d_model=4, **settings)
    return Run(Path("runs/by-hand"), config, model, task, [{"step": step, "length": 9} for step in steps])


def untrained_run(config: TrainConfig) -> Run:
    task = config.build_task()
    return Run(Path("runs") / config.model, config, initial_model(config, task).eval(), task)
