"""Small stories in the form of bAbI's files, and models made by hand that read them word by word."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
from implicit.modes import Solve
from theory.transition import State, TransitionBatch

TASKS = (1, 12)
PLACES = ("hall", "yard", "loft")
STORIES = 9
"""In every file; the last is left out by catbAbI."""


def write_stories(folder: Path) -> None:
    """People of other names in every story, some of whom move twice, with other sentences in between."""
    for part in ("train", "valid", "test"):
        for task in TASKS:
            lines = []
            for story in range(STORIES):
                person = f"person{story}of{task}{part}"
                sentences = [f"{person} went to {PLACES[(story * task) % 3]}."]
                sentences += ["It was a grey day."] * (story % 4)
                sentences += [f"Where is {person}?\t{PLACES[(story * task) % 3]}\t1"]
                if story % 3 == 1:
                    sentences += [f"{person} went to {PLACES[(story + 1) % 3]}.", "It rained."]
                    sentences += [f"Where is {person}?\t{PLACES[(story + 1) % 3]}\t1"]
                lines += [f"{number} {sentence}" for number, sentence in enumerate(sentences, 1)]
            (folder / f"qa{task}_{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def answers_in(folder: Path, task: int) -> list[str]:
    """The answers of a task's test stories, the last story left out, by the file alone."""
    text = (folder / f"qa{task}_test.txt").read_text(encoding="utf-8")
    last = text.rindex("\n1 ")
    return re.findall(r"\?\t(\S+)\t", text[:last])


class ByHand(SequenceModel):
    """A model without weights; it keeps what it was given."""

    name = "by-hand"

    def __init__(self, task: Any) -> None:
        super().__init__(ModelConfig(vocabulary_size=task.vocabulary_size, output_size=task.output_size))
        self.names = task.token_names
        self.read: list[Tensor] = []
        self.went_on: list[bool] = []

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        self.read.append(tokens)
        self.went_on.append(state is not None)
        state, said = self.init_state(len(tokens)) if state is None else state, []
        for token in tokens.unbind(1):
            state, logits = self.step(state, token)
            said.append(logits)
        return ModelOutput(torch.stack(said, dim=1), state)

    def init_state(self, batch_size: int) -> State:
        return {"held": torch.zeros(batch_size, 2)}

    @abstractmethod
    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]: ...

    def saying(self, tokens: Tensor) -> Tensor:
        """Logits that are largest at these tokens, ``[batch]``."""
        return torch.nn.functional.one_hot(tokens.long(), self.config.output_size).float()

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        raise NotImplementedError


class Sayer(ByHand):
    """Says always the same word."""

    def __init__(self, task: Any, word: str) -> None:
        super().__init__(task)
        self.word = self.names.index(word)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        return state, self.saying(torch.full_like(token, self.word))


class Follower(ByHand):
    """Says after every word to which place somebody went last; nothing but its state remembers it.

    Of the state the first number is that place, and the second tells whether the word before was "to".
    """

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        place, after_to = state["held"].unbind(1)
        place = torch.where(after_to == 1, token.float(), place)
        following = torch.stack([place, (token == self.names.index("to")).float()], dim=1)
        return {"held": following}, self.saying(place)
