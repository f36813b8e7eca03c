"""A Mealy machine under the interface of models: the control that an analysis has to get exactly right."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from automata.machines.mealy import MealyMachine
from implicit.cells import keep_where
from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
from implicit.modes import Solve
from theory import State
from theory.transition import TransitionBatch


class StepwiseModel(SequenceModel):
    """A model that is given by its step alone: sequences are read token by token."""

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read sequences token by token; padding leaves the state as it is."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        logits = []
        for position, token in enumerate(tokens.T):
            following, answer = self.step(state, token)
            real = None if mask is None else mask[:, position]
            state = following if real is None else keep_where(real, following, state)
            logits.append(answer if real is None else answer.masked_fill(~real[:, None], 0))
        return ModelOutput(torch.stack(logits, dim=1), state)


class MachineModel(StepwiseModel):
    """The model whose state is the machine's as a one-hot vector, and whose logits are 1 at its answer.

    Args:
        machine: what the model does.
        answer_count: classes of the model; those that the machine gives if None.
    """

    name: ClassVar[str] = "machine"
    config_class: ClassVar[type[ModelConfig]] = ModelConfig

    def __init__(self, machine: MealyMachine, answer_count: int | None = None) -> None:
        answer_count = answer_count or int(machine.answers.max()) + 1
        super().__init__(ModelConfig(vocabulary_size=machine.token_count, output_size=answer_count))
        self.machine = machine
        targets = torch.as_tensor(machine.table.T.copy())
        self.register_buffer("steps", functional.one_hot(targets, machine.state_count).float())
        self.register_buffer("replies", torch.as_tensor(machine.answers.T.copy()))

    def init_state(self, batch_size: int) -> State:
        """Return the machine's initial state, one-hot, ``[batch, states]``."""
        states = torch.full((batch_size,), self.machine.initial)
        return {"state": functional.one_hot(states, self.machine.state_count).to(self.get_buffer("steps"))}

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token by the table."""
        self.check_step(state, token)
        steps, replies = self.get_buffer("steps")[token], self.get_buffer("replies")[token]
        following = torch.einsum("bs,bsr->br", state["state"], steps)
        answer = replies.gather(1, state["state"].argmax(dim=1, keepdim=True))[:, 0]
        return {"state": following}, functional.one_hot(answer, self.config.output_size).float()

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent: the state times the token's matrix."""
        self.check_positions(tokens)
        return TransitionBatch(
            advance=lambda latent, state, inputs: (latent, {"state": state["state"] @ inputs["steps"]}),
            inputs={"steps": self.get_buffer("steps")[tokens.flatten()]},
            latent_size=0,
            layer_states=(("state",),),
        )
