"""Which part of a state holds what is tracked: one part is exchanged, and the answers tell whose they are."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from analysis.error_control.pairs import Pairs
from analysis.framework.arrays import FloatArray
from automata.tasks.word_problem import WordProblem
from implicit.models.interface import SequenceModel
from theory import State


@dataclass(frozen=True, eq=False)
class Swap:
    """The answers after one kind of state part was taken from another run."""

    # the share of the answers that are right for the state that the part was taken from, token by token,
    # ``[tokens]``; NaN where no two states are told apart any more
    giver: FloatArray
    receiver: FloatArray  # the share that is right for the state that it was put into

    @property
    def first(self) -> float:
        """The share of the giver's answers at the first token after the swap."""
        return float(self.giver[0])

    @property
    def last(self) -> float:
        """The share of the giver's answers at the last token."""
        return float(self.giver[-1])


@torch.no_grad()
def swap_parts(model: SequenceModel, task: WordProblem, pairs: Pairs) -> dict[str, Swap]:
    """Exchange each kind of state part between the states after two words, and read on.

    The words end with the same tokens and lead to different automaton states. A kind that holds what is
    tracked takes the answers with it; one that does not leaves them. Returned by kind (``ssm``, ``conv``),
    those without entries left out.

    Example:
        Parity is kept in the window by the stored run:

        >>> from analysis.error_control.pairs import choose_pairs
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity")
        >>> pairs = choose_pairs(run.task, 16, length=16, follow=4, rng=np.random.default_rng(0))
        >>> found = swap_parts(run.model, run.task, pairs)
        >>> found["conv"].last > 0.9, found["ssm"].last < 0.1
        (True, True)
    """
    words = [torch.from_numpy(word) for word in (pairs.first, pairs.second)]
    mine, theirs = (model.run(word).state for word in words)
    after = torch.from_numpy(pairs.after)
    expected = []
    for word in (pairs.first, pairs.second):
        state, states = task.states(word)[:, -1], []
        for token in pairs.after.T:
            state = task.table[state, token]
            states.append(state)
        expected.append(np.stack(states, axis=1))
    receiver, giver = expected
    found = {}
    for kind in dict.fromkeys(name.partition(".")[0] for name in mine):
        if not sum(entry[0].numel() for name, entry in mine.items() if name.partition(".")[0] == kind):
            continue
        mixed: State = {
            name: theirs[name] if name.partition(".")[0] == kind else entry for name, entry in mine.items()
        }
        answers = model.run(after, mixed).logits.argmax(-1).numpy()
        found[kind] = Swap(*(_shares(answers == right, giver != receiver) for right in (giver, receiver)))
    return found


def _shares(right: NDArray[np.bool_], told_apart: NDArray[np.bool_]) -> FloatArray:
    """The share of the pairs with the right answer after every token, of those that are told apart there."""
    counts = told_apart.sum(axis=0)
    shares = np.full(right.shape[1], np.nan)
    np.divide((right & told_apart).sum(axis=0), counts, out=shares, where=counts > 0)
    return shares
