"""The states that a model has for every state of the automaton, after the same last tokens."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from analysis.error_control.pairs import common_ending
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.needs import word_problem_of
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.runs.loading import Run
from theory import State

LEAST_VISITS = 2  # visits that a class needs in each half of them; a class with fewer is left out
_TRIES = 200


@dataclass(frozen=True, eq=False)
class Visits:
    """States after words, each kind of state part by itself, in two independent halves."""

    classes: IntArray  # the automaton states that have enough visits, in order, ``[classes]``
    label: IntArray  # the place in ``classes`` of every visit, ``[visits]``
    half: IntArray  # 0 or 1 for every visit, ``[visits]``
    # by kind (``ssm``, ``conv``), the entries of all layers, ``[visits, entries]``; kinds without entries are
    # left out
    parts: dict[str, FloatArray]
    recurrent: tuple[str, ...]  # the kinds that Theorem 1 speaks of
    # of an implicit model, the part of the recurrent kinds that the last token wrote: G at the same latent
    # from a state without them, ``[visits, entries]``
    written: FloatArray | None
    iterations: float | None  # self-iterations per token, in the mean; None for an explicit model
    share_converged: float  # of the fixed points that were sought; 1 for an explicit model

    def of(self, kinds: tuple[str, ...]) -> FloatArray:
        """Return the entries of some kinds side by side."""
        return np.concatenate([self.parts[kind] for kind in kinds], axis=1)


@torch.no_grad()
def visit_classes(run: Run, visits: int, length: int, seed: int) -> Visits:
    """Read words that lead to every automaton state, as the model runs, and return where they lead.

    All words end with the same four tokens, so that a window holds the same tokens in all of them. Words have
    ``length`` tokens before the common end; ``visits`` is an even number.
    """
    task = word_problem_of(run)
    words, reached = _words(task, visits, length, seed)
    classes, label = np.unique(reached, return_inverse=True)
    before = run.model.run(words[:, :-1])
    after = run.model.run(words[:, -1:], before.state)
    layers = run.model.transitions(words[:1, :1]).layer_states
    names = [name for layer in layers for name in layer]
    kinds = defaultdict(list)
    for name in after.state:
        kinds[name.partition(".")[0]].append(name)
    recurrent = tuple(dict.fromkeys(name.partition(".")[0] for name in names))
    implicit, written = run.model.implicit, None
    solutions = [one.solution for one in (before, after) if one.solution is not None]
    if implicit is not None and after.solution is not None:
        empty = {name: entry * (name not in names) for name, entry in before.state.items()}
        following = implicit.states_at(words[:, -1:], after.solution.latents, empty)
        written = _entries({name: following[name][:, 1] for name in names}, names)
    return Visits(
        classes=classes,
        label=label.reshape(-1),
        half=np.arange(len(words)) % 2,
        parts={
            kind: _entries(after.state, members)
            for kind, members in kinds.items()
            if sum(after.state[name][0].numel() for name in members)
        },
        recurrent=recurrent,
        written=written,
        iterations=float(before.solution.iterations.double().mean()) if before.solution else None,
        share_converged=min([1.0, *(solution.share_converged for solution in solutions)]),
    )


def _words(task: WordProblem, visits: int, length: int, seed: int) -> tuple[Tensor, IntArray]:
    """Words with the common end, as many for each class, and the automaton states that they reach."""
    rng = np.random.default_rng(seed)
    ending, leads = common_ending(task)
    by_class: dict[int, list[IntArray]] = {int(state): [] for state in np.unique(leads[leads >= 0])}
    for _ in range(_TRIES):
        tokens, states = task.sample(4 * visits * len(by_class), length, rng)
        for word, reached in zip(tokens, leads[states[:, -1]].tolist(), strict=True):
            if reached >= 0 and len(by_class[reached]) < visits:
                by_class[reached].append(word)
        if all(len(words) == visits for words in by_class.values()):
            break
    kept = {state: words for state, words in by_class.items() if len(words) >= 2 * LEAST_VISITS}
    if len(kept) < 2:
        raise InputError(
            f"visits is {visits} and length {length}, with which fewer than two states of {task.name} are "
            f"reached {2 * LEAST_VISITS} times; give more visits, or another length"
        )
    words = np.stack([word for words in kept.values() for word in words[: len(words) // 2 * 2]])
    reached = np.concatenate([[state] * (len(words) // 2 * 2) for state, words in kept.items()])
    end = np.broadcast_to(ending, (len(words), len(ending)))
    return torch.from_numpy(np.concatenate([words, end], axis=1)), reached


def _entries(state: State, names: list[str]) -> FloatArray:
    return torch.cat([state[name].flatten(1) for name in names], dim=1).double().numpy()
