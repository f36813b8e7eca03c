"""The explicit control: the proof that its transition is diagonal, and the same at every h."""

from collections.abc import Sequence

import numpy as np
import torch

from analysis.certificates.parts import Interval
from analysis.certificates.theorem1.document import ControlPair
from analysis.framework.visited_states import VisitedState
from implicit.enclosed.mamba2 import EnclosedMamba2
from implicit.models.interface import SequenceModel
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.dual import Dual
from theory.rigorous.enclosure import independent_of_state


def certify_control(model: SequenceModel, visited: Sequence[VisitedState]) -> list[ControlPair]:
    """Prove at visited pairs that h' = decay ⊙ h + drive, with both the same for every real h.

    The block of each layer in turn is the ball of all real numbers; the windows and the blocks of the other
    layers are those of the pair.

    Args:
        model: in its working precision, whose weights are what is certified.
        visited: the pairs.

    Example:
        >>> from analysis.framework.visited_states import in_double_precision, visited_states
        >>> from implicit.models.mamba2 import Mamba2, Mamba2Config
        >>> model = Mamba2(Mamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2))
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> [len(pair.decay[0]) for pair in certify_control(model, visited)]
        [2, 2]
    """
    transitions = EnclosedMamba2(model, torch.tensor([pair.token for pair in visited]))
    state = {
        name: Ball.exact(np.stack([pair.state[name].numpy() for pair in visited]))
        for name in visited[0].state
    }
    proved = np.ones(len(visited), dtype=bool)
    decays: list[Ball] = []
    for layer, block in enumerate(transitions.blocks):
        everywhere = {**state, block: Ball.around(np.zeros(state[block].shape), np.inf)}
        proved &= independent_of_state(transitions, everywhere)[layer]
        nothing = Dual.constant(Ball.exact(np.zeros((len(visited), 0))), 0)
        decays.append(transitions.advance(nothing, state, {})[1][layer].decay.value)
    return [
        ControlPair(
            sequence=pair.sequence,
            position=pair.position,
            token=pair.token,
            state={name: entry.numpy().ravel() for name, entry in pair.state.items()},
            decay=[_intervals(decay[index]) for decay in decays] if proved[index] else None,
        )
        for index, pair in enumerate(visited)
    ]


def _intervals(balls: Ball) -> list[Interval]:
    return [(float(lower), float(upper)) for lower, upper in zip(balls.lower, balls.upper, strict=True)]
