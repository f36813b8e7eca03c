"""The states that a model visits, whose answers follow an exchanged part of them, and what one token does.

States are visited for every state of the automaton, after the same last tokens. One part of a state is
exchanged, and the answers tell which part holds what is tracked. From one token to the next a model writes
anew, forgets, and passes on through z.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.error_control.following import Pairs, common_ending, follow_errors, median
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.needs import word_problem_of
from analysis.framework.visited_states import entries, finite, in_double_precision, visited_states
from analysis.mechanism.codes import centred_means
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run
from theory import State, latent_jacobian, layer_jacobians, solve_fixed_point

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
        parts={kind: _entries(after.state, members) for kind, members in _by_kind(after.state).items()},
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


def _by_kind(state: State) -> dict[str, list[str]]:
    """The names of the parts of a state that have entries, by their kind: ``ssm``, ``conv``."""
    kinds = defaultdict(list)
    for name, entry in state.items():
        if entry[0].numel():
            kinds[name.partition(".")[0]].append(name)
    return kinds


def _entries(state: State, names: list[str]) -> FloatArray:
    return finite(entries(state, names)).double().numpy()


@dataclass(frozen=True, eq=False)
class Swap:
    """The answers after one kind of state part was taken from another run."""

    # the share of the answers that are right for the state that the part was taken from, token by token,
    # ``[tokens]``; NaN where of fewer than a quarter of the pairs the states are told apart
    giver: FloatArray
    receiver: FloatArray  # the share that is right for the state that it was put into

    @property
    def first(self) -> float:
        """The share of the giver's answers at the first token after the swap."""
        return float(self.giver[0])

    @property
    def last(self) -> float:
        """The share of the giver's answers at the last token that has one."""
        told = self.giver[np.isfinite(self.giver)]
        return float(told[-1]) if len(told) else float("nan")

    @property
    def told(self) -> int:
        """The number of tokens that have a share."""
        return int(np.isfinite(self.giver).sum())


@torch.no_grad()
def swap_parts(model: SequenceModel, task: WordProblem, pairs: Pairs) -> dict[str, Swap]:
    """Exchange each kind of state part between the states after two words, and read on.

    The words end with the same tokens and lead to different automaton states. A kind that holds what is
    tracked takes the answers with it; one that does not leaves them. Returned by kind (``ssm``, ``conv``),
    those without entries left out.

    Example:
        Parity is kept in the window by the stored run:

        >>> from analysis.error_control.following import choose_pairs
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
    receiver, giver = (
        task.states(np.concatenate([word, pairs.after], axis=1))[:, word.shape[1] :]
        for word in (pairs.first, pairs.second)
    )
    found = {}
    for kind, members in _by_kind(mine).items():
        mixed = {**mine, **{name: theirs[name] for name in members}}
        answers = model.run(after, mixed).answers.numpy()
        found[kind] = Swap(*(_shares(answers == right, giver != receiver) for right in (giver, receiver)))
    return found


def _shares(right: NDArray[np.bool_], told_apart: NDArray[np.bool_]) -> FloatArray:
    """The share of the pairs with the right answer after every token, of those that are told apart there.

    NaN where these are fewer than a quarter.
    """
    counts = told_apart.sum(axis=0)
    shares = np.full(right.shape[1], np.nan)
    np.divide((right & told_apart).sum(axis=0), counts, out=shares, where=counts >= max(1, len(right) // 4))
    return shares


FOUND = 1e-9
"""The relative residual below which a latent counts as a fixed point; its last digits do not matter here."""
SMALLEST_ERROR = 0.01  # the smallest error that is followed, as a share of the way to another state


@dataclass(frozen=True)
class Dynamics:
    """One token's work, in numbers that no change of basis within the recurrent state alters."""

    # the share of the difference between codes that the last token has written, the rest having been kept by
    # the decay; None for an explicit model
    written: float | None
    left_after_one: float  # what is left of a small error along the difference of two states after one token
    left_after_all: float  # after all tokens that were read
    # the spectral norm of ∂zΦ at fixed points, in the median; None for an explicit model
    contraction: float | None
    second_term: float | None  # ‖∂zG (I − ∂zΦ)⁻¹ ∂sΦ‖ over ‖∂sG‖, Frobenius norms, in the median; likewise
    # how many directions that term acts in: (Σσ²)²/Σσ⁴ of its singular values; likewise
    second_rank: float | None
    # the diagonal entries of the direct term: their 5%, 50% and 95% quantiles; likewise
    decay: tuple[float, float, float] | None


def share_written(visits: Visits) -> float | None:
    """Return the share of the variance between codes that the last token wrote.

    With codes m = k + w, k kept and w written, it is Σ⟨w, m⟩/Σ⟨m, m⟩ over the centred codes; w of one half of
    the visits and m of the other, so that noise adds nothing in the mean.

    Example:
        Two classes at −1 and 1, of which 0.75 is written anew:

        >>> code = np.array([[-1.0], [-1.0], [1.0], [1.0]])
        >>> sides = np.array([0, 1, 0, 1])
        >>> label = np.array([0, 0, 1, 1])
        >>> share_written(Visits(np.arange(2), label, sides, {"h": code}, ("h",), 0.75 * code, 2.0, 1.0))
        0.75
    """
    if visits.written is None:
        return None
    states = np.concatenate([visits.parts[kind] for kind in visits.recurrent], axis=1)
    one, other = centred_means(states, visits.label, visits.half)
    wrote, wrote_other = centred_means(visits.written, visits.label, visits.half)
    whole = 2 * float((one * other).sum())
    return float((wrote * other).sum() + (wrote_other * one).sum()) / whole if whole > 0 else float("nan")


def measure_dynamics(
    model: SequenceModel, visits: Visits, pairs: Pairs, states: int, max_iterations: int, seed: int
) -> Dynamics:
    """Measure what happens from one token to the next, derivatives and errors in float64.

    Errors are followed at the pairs of words; derivatives are taken at the states after them.
    """
    exact = in_double_precision(model)
    followed = follow_errors(exact, pairs, (SMALLEST_ERROR,), max_iterations, seed)
    left = [median(followed.shares[SMALLEST_ERROR][:, place]) / SMALLEST_ERROR for place in (1, -1)]
    found = _derivatives(exact, pairs, states, max_iterations) if model.implicit is not None else []
    written = share_written(visits)
    if not found:
        return Dynamics(written, left[0], left[1], None, None, None, None)
    *sizes, diagonals = zip(*found, strict=True)
    low, middle, high = np.quantile(np.concatenate(diagonals), [0.05, 0.5, 0.95])
    contraction, second_term, second_rank = (float(np.median(size)) for size in sizes)
    decay = float(low), float(middle), float(high)
    return Dynamics(written, left[0], left[1], contraction, second_term, second_rank, decay)


def _derivatives(
    model: SequenceModel, pairs: Pairs, states: int, max_iterations: int
) -> list[tuple[float, float, float, FloatArray]]:
    """Return ‖∂zΦ‖, size and rank of the second term, and the diagonal of the first, at visited states."""
    found = []
    for visited in visited_states(model, torch.from_numpy(pairs.first), states):
        transition = model.transition(visited.token)
        solved = solve_fixed_point(transition, visited.state, max_iterations=max_iterations)
        if not solved.residual < FOUND * float(solved.latent.norm()):
            continue
        slope = latent_jacobian(transition, visited.state, solved.latent)
        blocks = layer_jacobians(transition, visited.state, solved.latent)
        left = torch.cat([block.left for block in blocks])
        right = torch.cat([block.right for block in blocks], dim=1)
        # singular values of the product from those of a small matrix
        if not all(bool(part.isfinite().all()) for part in (slope, left, right)):
            continue
        factors = torch.linalg.qr(left).R @ torch.linalg.qr(right.mT).R.mT
        squares = torch.linalg.svdvals(factors) ** 2
        direct = torch.cat([block.direct.flatten() for block in blocks])
        diagonal = torch.cat(
            [block.direct if block.direct.ndim == 1 else block.direct.diagonal() for block in blocks]
        )
        size, rank = squares.sum().sqrt() / direct.norm(), squares.sum() ** 2 / (squares**2).sum()
        norm = float(torch.linalg.matrix_norm(slope, 2))
        found.append((norm, float(size), float(rank), diagonal.numpy()))
    return found
