"""The windowed mode: windows that follow the front of convergence, verified against the sequential mode.

| code           | meaning                                                                                  |
|----------------|------------------------------------------------------------------------------------------|
| ``front``      | where a sequence's window begins: all tokens before it have a candidate fixed point      |
| ``verified``   | all tokens before it have the fixed point that the sequential mode finds                 |
| stuck          | the token at the front does not converge: it is solved anew, on its own                  |

A token that began on a wrong state may converge to another fixed point than with the right state. So
candidates are verified (`verify`), and where one fails, its sequence goes on from there. No sequence depends
on the others.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from automata.checks import check_integer, check_number
from automata.errors import InputError
from implicit.fixed_point import Dependence, Solution, Solver, Status, Stopping
from implicit.fixed_point.loop import IterationState, change_of, with_all_it_depends_on
from implicit.gradients import GradientRule
from implicit.modes.adjoint import differentiated
from implicit.modes.recurrence import Inputs, ModeResult, Recurrence
from theory.transition import State


@dataclass(frozen=True)
class Candidates:
    """Consecutive tokens of some sequences, ``[sequences, tokens, …]``, with the candidates to verify."""

    latents: Tensor  # the candidates
    starts: Tensor  # z₀
    inputs: Inputs
    states: State  # before the tokens, as the candidates before them make them
    claimed: Tensor  # which tokens have a candidate; a prefix of each sequence
    asked: Tensor  # these, and one more where a token without a candidate has to be solved on its own


@dataclass(frozen=True)
class Verdict:
    """How far the candidates of each sequence are what the sequential mode finds, ``[sequences]`` each.

    ``last`` is the first token that was solved to something else than its candidate, or the last one asked
    for; ``replaced`` tells which; the next four are what was found there, ``evaluations`` those of every
    token.
    """

    last: Tensor
    replaced: Tensor
    latent: Tensor
    iterations: Tensor
    residual: Tensor
    status: Tensor
    evaluations: Tensor


def _image(recurrence: Recurrence, inputs: Inputs, states: State, latent: Tensor) -> Tensor:
    """Φ of latents ``[items, 1, features]``, each a token of its own."""
    return recurrence.advance(latent[:, 0], inputs, states)[0][:, None]


def verify(
    recurrence: Recurrence,
    candidates: Candidates,
    solver: Solver,
    stopping: Stopping,
    agreement: float,
    burst: int,
) -> Verdict:
    """Solve the tokens anew, all at the same time, and find the first whose solution is not the candidate.

    By induction the candidates before it are the answer of the sequential mode, and so is its own solution.
    Tokens that are done, and those behind a token that was solved to something else, are not evaluated again;
    ``burst`` evaluations lie between two looks at what is done. A solution is the candidate if ‖z −
    candidate‖ ≤ agreement · (atol + rtol · ‖candidate‖). The solver must have no memory.
    """
    sequence, token = candidates.asked.nonzero(as_tuple=True)
    inputs = [tensor[sequence, token] for tensor in candidates.inputs]
    states = {name: tensor[sequence, token] for name, tensor in candidates.states.items()}
    candidate, claimed = candidates.latents[sequence, token], candidates.claimed[sequence, token]
    tolerance = agreement * (stopping.atol + stopping.rtol * candidate.norm(dim=-1))

    latent = candidates.starts[sequence, token][:, None]  # [items, 1, features]
    progress = IterationState.opened(latent)
    evaluations = torch.zeros_like(candidates.asked, dtype=torch.long)
    last = candidates.asked.sum(dim=1) - 1
    active = torch.arange(len(sequence), device=latent.device)
    for done in range(0, stopping.max_iterations, burst):
        z, part = latent[active], progress.select(active)
        there = [tensor[active] for tensor in inputs], {n: tensor[active] for n, tensor in states.items()}
        image = partial(_image, recurrence, *there)
        count = min(burst, stopping.max_iterations - done)
        for evaluation in range(done + 1, done + count + 1):
            change = change_of(z, image)
            part = part.after(z, change, stopping, Dependence.OWN)
            if evaluation == stopping.max_iterations:  # the residual is to belong to the value
                break
            following, _ = solver.step(z, change, part.active, None)
            z = part.advance(z, following)
        # Out of place: nothing that the caller holds is written to.
        latent, progress = latent.index_copy(0, active, z), progress.with_rows(active, part)
        evaluations[sequence[active], token[active]] += count
        agrees = claimed & progress.converged[:, 0] & ((latent[:, 0] - candidate).norm(dim=-1) <= tolerance)
        running = progress.active[:, 0] & (done + count < stopping.max_iterations)
        differs = ~running & ~agrees
        last = last.scatter_reduce(0, sequence[differs], token[differs], "amin")
        active = (running & (token <= last[sequence])).nonzero()[:, 0]
        if not len(active):
            break
    known = token == last[sequence]  # one item a sequence, in their order
    return Verdict(
        last,
        ~agrees[known],
        latent[known, 0],
        progress.iterations[known, 0],
        progress.residual[known, 0],
        progress.status[known, 0],
        evaluations,
    )


FAR = 0.02
"""Share of ‖z‖ that solutions of a token may differ by. A looser one takes one fixed point for another."""
_SMALLEST_RTOL = 64
"""Tolerances below this many times the rounding unit may never be met."""


@dataclass(frozen=True)
class Windowed:
    """Options of the windowed mode. None but `block` changes the answer, only what it costs.

    That supposes a tolerance which `tells_apart` fixed points. At a looser one a token may end at another
    fixed point than in the sequential mode.

    InputError for a value outside of its range.

    Attributes:
        width: tokens of a sequence that are iterated together.
        sweeps: evaluations of a window between two moves.
        block: candidates per sequence that are collected before they are verified; None to trust them
            unverified, which is safe only where the fixed points are known to be unique.
        precision: candidates are iterated to the tolerance divided by this.
        agreement: a candidate passes if it is within this many tolerances of the solution from the start.
        patience: evaluations after which the token at the front is solved on its own.

    Example:
        >>> from implicit import Solve, load_run
        >>> model, tokens = load_run("parity").model, torch.ones(1, 64, dtype=torch.long)
        >>> with torch.no_grad():
        ...     plain = model.run(tokens, solve=Solve("simultaneous"))
        ...     windowed = model.run(tokens, solve=Solve(Windowed(width=12)))
        >>> bool((windowed.logits.argmax(-1) == plain.logits.argmax(-1)).all())
        True
        >>> bool(windowed.solution.evaluations.sum() < plain.solution.evaluations.sum())
        True
    """

    width: int = 16
    sweeps: int = 4
    block: int | None = 64
    precision: float = 10.0
    agreement: float = 20.0
    patience: int = 96

    def tells_apart(self, stopping: Stopping, latent: Tensor) -> bool:
        """Return whether candidates that pass, in the type of a latent, are too near for two fixed points."""
        # what an absolute tolerance allows is a share of ‖z‖ that nobody knows before
        return stopping.atol == 0 and self.agreement * stopping.rtol_for(latent) <= FAR

    def __post_init__(self) -> None:
        for name in ("width", "sweeps", "block", "patience"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        for name in ("precision", "agreement"):
            value = getattr(self, name)
            if not check_number(name, value) >= 1:  # also refuses NaN
                raise InputError(f"{name} is {value}; give a number of at least 1")


def solve_windowed(
    recurrence: Recurrence,
    solver: Solver,
    stopping: Stopping,
    gradient: GradientRule,
    start: Tensor,
    options: Windowed,
    *,
    state_after: bool = True,
) -> ModeResult:
    """Find the fixed points of the sequential mode with windows, then attach the gradient over all tokens.

    Iterations are those of the token's last solve; a token that reached the limit has the value that the
    sequential mode gives it, and the tokens after it do not count as converged. Solvers that keep a memory of
    past iterates, and `Unrolled`, are refused. The state after the last token takes one more evaluation with
    a gradient; without ``state_after`` that of the result is empty.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import Phantom
        >>> x = torch.tensor([[[1.0], [2.0]]])
        >>> recurrence = Recurrence(
        ...     [x], {}, lambda z, x, s: (x[0], s), lambda z, x, s: (x[0], s), lambda z, x, s: s
        ... )
        >>> arguments = DampedPicard(1.0), Stopping(), Phantom(), torch.zeros(1, 2, 1), Windowed(sweeps=2)
        >>> result = solve_windowed(recurrence, *arguments)  # sweeps, verification, states
        >>> result.solution.value.flatten().tolist(), result.evaluations.tolist()
        ([1.0, 2.0], [[7, 8]])
    """
    if solver.start(start) is not None:
        raise InputError(
            f"solver is {solver}; windows need one without memory of past iterates, give DampedPicard"
        )
    with torch.no_grad():
        search = _Search(recurrence, solver, stopping, start, options)
        found = search.run()
    result = ModeResult(found, search.front.state, search.evaluations)
    return differentiated(recurrence, solver, stopping, gradient, result, state_after=state_after)


class _Search:
    """The search so far, for all sequences of the batch."""

    def __init__(
        self, recurrence: Recurrence, solver: Solver, stopping: Stopping, start: Tensor, options: Windowed
    ) -> None:
        self.recurrence, self.solver, self.stopping, self.options = recurrence, solver, stopping, options
        attainable = _SMALLEST_RTOL * torch.finfo(start.dtype).eps
        rtol = max(stopping.rtol / options.precision, min(stopping.rtol, attainable))
        self.stopping_in_windows = replace(stopping, rtol=rtol, atol=stopping.atol / options.precision)
        self.patience = min(options.patience, stopping.max_iterations)
        self.start, self.latents, self.length = start, start.clone(), start.shape[1]
        progress = IterationState.opened(start)
        self.iterations, self.residual, self.status = progress.iterations, progress.residual, progress.status
        self.evaluations = torch.zeros_like(self.iterations)
        self.front = Place.beginning(recurrence.state, start)
        self.verified = Place.beginning(recurrence.state, start)
        self.waited = torch.zeros_like(self.front.token)
        self.stuck = torch.zeros_like(self.waited, dtype=torch.bool)

    def run(self) -> Solution:
        """Alternate between moving windows and verifying what they leave, until every sequence is through."""
        unfinished = torch.arange(len(self.waited), device=self.start.device)
        while len(unfinished):
            moving = unfinished
            while len(moving):
                self._sweep(moving)
                ready = self.stuck | (self.front.token == self.length)
                if self.options.block is not None:
                    ready |= self.front.token - self.verified.token >= self.options.block
                moving = moving[~ready[moving]]
            self._settle(unfinished)
            unfinished = unfinished[self.front.token[unfinished] < self.length]
        found = Solution(self.latents, self.iterations, self.residual, self.status)
        return found.after(with_all_it_depends_on(found.converged, Dependence.CAUSAL))

    def _sweep(self, sequences: Tensor) -> None:
        """Iterate the windows of some sequences a few times, then move them past what has converged."""
        first, state = self.front.of(sequences)
        window = Window(sequences, first, first + self.options.width, self.length)
        inputs = [window.take(tensor) for tensor in self.recurrence.inputs]
        latent = window.take(self.latents)
        progress = IterationState.opened(latent)
        for _ in range(self.options.sweeps):
            change = change_of(latent, lambda z: self.recurrence.sweep(z, inputs, state)[0])
            progress = progress.after(latent, change, self.stopping_in_windows, Dependence.CAUSAL)
            following, _ = self.solver.step(latent, change, progress.active, None)
            latent = progress.advance(latent, following)
        done = progress.converged & window.inside
        window.put(self.latents, latent, window.inside)
        window.put(self.residual, progress.residual, done)
        window.put(self.status, progress.status, done)
        window.put(self.iterations, window.take(self.iterations) + progress.iterations, window.inside)
        window.put(self.evaluations, window.take(self.evaluations) + self.options.sweeps, window.inside)

        count = done.sum(dim=1)
        most = int(count.max())
        if most > 0:
            states = self.recurrence.states(latent[:, :most], [tensor[:, :most] for tensor in inputs], state)
            window.put(self.evaluations, window.take(self.evaluations) + 1, done)
            rows = torch.arange(len(sequences), device=count.device)
            after = {name: tensor[rows, count] for name, tensor in states.items()}
            self.front.move(sequences, first + count, after)
        waited = torch.where(count > 0, 0, self.waited[sequences] + self.options.sweeps)
        self.waited[sequences] = waited
        not_finite = progress.status[:, 0] == Status.NON_FINITE
        self.stuck[sequences] = (waited >= self.patience) | not_finite

    def _settle(self, sequences: Tensor) -> None:
        """Verify candidates of some sequences and solve the stuck tokens; go on from what is then known."""
        if self.options.block is None:
            self.verified.move(sequences, *self.front.of(sequences))
        sequences = sequences[(self.front.token + self.stuck > self.verified.token)[sequences]]
        if not len(sequences):
            return
        first, state = self.verified.of(sequences)
        front = self.front.token[sequences]
        window = Window(sequences, first, front + self.stuck[sequences], self.length)
        inputs, latents = [window.take(t) for t in self.recurrence.inputs], window.take(self.latents)
        states = self.recurrence.states(latents, inputs, state)
        candidates = Candidates(
            latents,
            window.take(self.start),
            inputs,
            states={name: tensor[:, :-1] for name, tensor in states.items()},
            claimed=window.tokens < front[:, None],
            asked=window.inside,
        )
        options = self.options
        verdict = verify(
            self.recurrence, candidates, self.solver, self.stopping, options.agreement, options.sweeps
        )
        window.put(self.evaluations, window.take(self.evaluations) + verdict.evaluations + 1, window.inside)
        rows, last = torch.arange(len(sequences), device=first.device), first + verdict.last
        fresh = verdict.replaced.nonzero()[:, 0]
        redone, token = sequences[fresh], last[fresh]
        # What was iterated behind a token that is replaced began on a wrong state: it begins again.
        behind = torch.arange(self.length, device=token.device) > token[:, None]
        self.latents[redone] = torch.where(behind[..., None], self.start[redone], self.latents[redone])
        self.status[redone] = self.status[redone].masked_fill(behind, int(Status.MAX_ITERATIONS))
        self.iterations[redone] = self.iterations[redone].masked_fill(behind, 0)
        self.latents[redone, token] = verdict.latent[fresh]
        self.iterations[redone, token] = verdict.iterations[fresh]
        self.residual[redone, token] = verdict.residual[fresh]
        self.status[redone, token] = verdict.status[fresh]

        there = (
            [tensor[rows, verdict.last] for tensor in inputs],
            {n: t[rows, verdict.last] for n, t in states.items()},
        )
        after = self.recurrence.advance(self.latents[sequences, last], *there)[1]
        self.evaluations[sequences, last] += 1
        for place in (self.front, self.verified):
            place.move(sequences, last + 1, after)
        self.waited[sequences] = 0
        self.stuck[sequences] = False


@dataclass(frozen=True)
class Place:
    """A token of every sequence, ``[batch]``, with the state before it; moved in place."""

    token: Tensor
    state: State

    @staticmethod
    def beginning(state: State, latents: Tensor) -> "Place":
        """Return the place before the first token of all sequences of ``[batch, tokens, features]``."""
        token = torch.zeros(len(latents), dtype=torch.long, device=latents.device)
        return Place(token, {name: tensor.clone() for name, tensor in state.items()})

    def of(self, sequences: Tensor) -> tuple[Tensor, State]:
        """Return token and state of some sequences, given by their numbers."""
        return self.token[sequences], {name: tensor[sequences] for name, tensor in self.state.items()}

    def move(self, sequences: Tensor, token: Tensor, state: State) -> None:
        """Move some sequences to a token with the state before it."""
        self.token[sequences] = token
        for name, tensor in state.items():
            self.state[name][sequences] = tensor.to(self.state[name].dtype)  # autocast may have rounded it


class Window:
    """Tokens first … last − 1 of some sequences, each from a place of its own, as one rectangle.

    Sequences are given by their numbers; windows end at ``length``, the tokens of all of them. Places not
    ``inside``, all at the end of their row, repeat the last token of the sequence.
    """

    def __init__(self, sequences: Tensor, first: Tensor, last: Tensor, length: int) -> None:
        last = last.clamp(max=length)
        self.tokens = first[:, None] + torch.arange(int((last - first).max()), device=first.device)
        self.inside = self.tokens < last[:, None]
        self._sequences = sequences[:, None].expand_as(self.tokens)
        self._tokens = self.tokens.clamp(max=length - 1)

    def take(self, tensor: Tensor) -> Tensor:
        """Return what a tensor ``[batch, tokens, …]`` holds at the window, ``[sequences, width, …]``."""
        return tensor[self._sequences, self._tokens]

    def put(self, tensor: Tensor, values: Tensor, where: Tensor) -> None:
        """Write values ``[sequences, width, …]`` into a tensor, at those tokens of the window."""
        tensor[self._sequences[where], self._tokens[where]] = values[where]
