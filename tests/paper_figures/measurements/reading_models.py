"""Models made by hand that read the text of a task and answer by their own means, not by the package's."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from automata.tasks.interface import Task
from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
from implicit.modes import Solve
from theory.transition import State, TransitionBatch

Answer = Callable[[str], str | None]
"""What follows upon a text; None where nothing is known of it."""


class Reader(SequenceModel):
    """Says at every place what a function says of the text up to there; it keeps what it has read."""

    name = "reader"

    def __init__(self, task: Any, answer: Answer) -> None:
        super().__init__(ModelConfig(vocabulary_size=task.vocabulary_size, output_size=task.output_size))
        self.names, self.answer = task.token_names, answer
        self.read: list[Tensor] = []

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        self.read.append(tokens)
        logits = torch.zeros(*tokens.shape, self.config.output_size)
        for row, numbers in enumerate(tokens.tolist()):
            text = ""
            for place, number in enumerate(numbers):
                text += self.names[number] if number else ""
                said = self.answer(text)
                if said is not None:
                    logits[row, place, self.names.index(said)] = 1
        return ModelOutput(logits, {})

    def init_state(self, batch_size: int) -> State:
        raise NotImplementedError

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        raise NotImplementedError

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        raise NotImplementedError


def reader(task: Task, answer: Answer) -> Reader:
    return Reader(task, answer)


ASKED = re.compile(r">>> print\('(\w)', \1\)\n\1 $")


def executed(text: str) -> str | None:
    """Run the commands of a session in Python's own interpreter, and say what the variable holds."""
    asked = ASKED.search(text[-40:])
    if asked is None:
        return None
    names: dict[str, int] = {}
    exec("\n".join(re.findall(r">>> (\w[^(\n]*)\n", text)), {}, names)
    return str(names[asked[1]])


def wrong_after(commands: int) -> Answer:
    """What holds as long as there are at most so many swaps; then another value."""

    def answer(text: str) -> str | None:
        right = executed(text)
        return (
            right if right is None or len(re.findall(r"\w, \w = ", text)) <= commands else f"{4 - int(right)}"
        )

    return answer


def ends_up(text: str) -> str | None:
    """Follow all balls of a puzzle from its first swap to the last, and look at the one asked for."""
    if not text.endswith(" end up? "):
        return None
    place = {ball: ball for ball in "123"}
    for one, other in re.findall(r"swap ball (\d) and (\d)", text):
        place[one], place[other] = place[other], place[one]
    return place[text[text.index("Where does ball ") + len("Where does ball ")]]


def printed(text: str) -> str | None:
    """Run a small program, and say what the variable of the last line holds."""
    asked = re.search(r"Final (\w): $", text[-12:])
    if asked is None or 'print("Final z:", z)\n' not in text:
        return None
    names: dict[str, int] = {}
    exec(text[: text.index("print(")], {}, names)
    return str(names[asked[1]])


def always(said: str) -> Answer:
    """The same answer to every question."""
    return lambda text: said
