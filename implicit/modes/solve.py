"""How fixed points are sought: one object of options, the choice of a mode, and what comes out."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from automata.checks import by_known_names, check_type, shown
from automata.errors import InputError, unknown_name
from implicit.fixed_point import Solution, Solver, Stopping
from implicit.gradients import GradientRule, Unrolled
from implicit.modes.plain import solve_sequentially, solve_simultaneously
from implicit.modes.recurrence import ModeResult, Recurrence
from implicit.modes.windowed import Windowed, solve_windowed
from theory.status import Status

Mode: TypeAlias = Literal["auto", "simultaneous", "sequential", "windowed"]

MODES: tuple[Mode, ...] = ("auto", "simultaneous", "sequential", "windowed")


@by_known_names
@dataclass(frozen=True, eq=False)
class Solve:
    """The options of the search for fixed points; explicit models ignore them.

    InputError for an unknown mode, or an option of another kind.

    Attributes:
        mode: in which order the fixed points of the tokens are sought. ``"simultaneous"`` iterates all tokens
            together, ``"sequential"`` one after the other; ``"windowed"``, or a `Windowed` with its options,
            finds the answer of the latter with windows that follow the front of convergence; ``"auto"``
            chooses one whose answer, where tokens converge, is that of the sequential mode.
        stopping: tolerance and limit; those that the model is configured with if None.
        solver: how the next iterate is made; damped Picard with the configured damping if None.
        gradient: how the solution is differentiated; exactly if None. No rule changes a value.
        start: z₀, ``[batch, length, features]``; zero if None.
        windows: options of the windowed mode, which ``"auto"`` then takes wherever no kernel runs.
        state_after: whether the state after the last token is wanted; the output's is empty otherwise. Modes
            that solve several tokens together take one more evaluation for it.

    Example:
        >>> Solve("sequential", stopping=Stopping(rtol=1e-6)).mode
        'sequential'
        >>> Solve("parallel")
        Traceback (most recent call last):
        automata.errors.InputError: mode 'parallel' is unknown; known: auto, sequential, ...
    """

    mode: Mode | Windowed = "auto"
    stopping: Stopping | None = None
    solver: Solver | None = None
    gradient: GradientRule | None = None
    start: Tensor | None = None
    windows: Windowed | None = None
    state_after: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.mode, Windowed) and not (isinstance(self.mode, str) and self.mode in MODES):
            raise unknown_name("mode", self.mode, MODES)
        if self.stopping is not None:
            check_type("stopping", self.stopping, Stopping, "give Stopping(rtol=..., max_iterations=...)")
        if self.solver is not None and not _offers(self.solver, "start", "step"):
            raise InputError(f"solver is {shown(self.solver)}; give one such as DampedPicard(0.8)")
        if self.gradient is not None and not _offers(self.gradient, "attach"):
            raise InputError(f"gradient is {shown(self.gradient)}; give one such as Phantom(4)")
        if self.start is not None:
            check_type("start", self.start, Tensor, "give a tensor, [batch, length, features]")
        if self.windows is not None:
            check_type("windows", self.windows, Windowed, "give Windowed(...), or None")
        check_type("state_after", self.state_after, bool, "give True or False")


def checked_solve(solve: Solve | None) -> Solve:
    """Return the options that a model was given, the default ones for None.

    InputError for anything else, such as the name of a mode.
    """
    if solve is None:
        return Solve()
    check_type("solve", solve, Solve, 'give Solve(...), such as Solve("sequential")')
    return solve


def _offers(value: object, *methods: str) -> bool:
    """Return whether a value is an object, no class, that has these methods."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)


@dataclass(frozen=True, repr=False)
class SequenceSolution(Solution):
    """The fixed points of a batch of sequences, and what they took.

    Attributes:
        evaluations: passes of each token through the layers, for itself or beside others, ``[batch,
            length]``, int64; those of gradients are not counted.
        mode: the mode that found them.
        mask: which tokens are real, ``[batch, length]``, bool; None where all are. Padding has the latent 0
            and is counted nowhere.
        resting: which tokens only lack a fixed point as one that was read before, in another call, has none.

    Example:
        >>> import torch
        >>> from implicit import load_run
        >>> with torch.no_grad():
        ...     solution = load_run("parity").model.run(torch.tensor([[0, 1, 1]])).solution
        >>> solution.latents.shape, solution.share_converged, solution.mode
        (torch.Size([1, 3, 32]), 1.0, 'sequential')
    """

    evaluations: Tensor
    mode: str
    mask: Tensor | None = None
    resting: Tensor | None = None

    @property
    def latents(self) -> Tensor:
        """The latents z*, ``[batch, length, features]``: the value of the solution under its name here."""
        return self.value

    @property
    def counted(self) -> Tensor | None:
        """Which tokens statistics are taken over: the real ones."""
        return self.mask

    def message(self) -> str:
        """Say for the worst status how many real tokens ended with it, in which mode, and the remedy."""
        status = self.status if self.mask is None else self.status.masked_fill(~self.mask, 0)
        worst = Status(int(status.max()))
        there = status == worst
        total = self.status.numel() if self.mask is None else int(self.mask.sum())
        if worst is Status.CONVERGED:
            return f"{total} of {total} tokens: {worst.sentence}"
        first = int(there.any(dim=0).nonzero()[0])
        where = f"{int(there.sum())} of {total} tokens (mode {self.mode}, first at position {first})"
        if worst is not Status.MAX_ITERATIONS:
            return f"{where}: {worst.sentence}"
        here = there if self.resting is None else there & ~self.resting
        behind = int(there.sum()) - int(here.sum())
        before = (
            "a token that was read before and has no fixed point; give more iterations or a looser rtol there"
        )
        if not bool(here.any()):
            return f"{where}: they rest on {before}"
        own = int((here & (self.iterations == self.iterations[here].max())).sum())
        share = "" if own == int(there.sum()) else f" at {own} of them"
        remedy = _REMEDIES.get(self.mode, _PER_TOKEN) + (f"; {behind} rest on {before}" if behind else "")
        return f"{where}: the iteration limit was reached first{share}{remedy}"


_PER_TOKEN = (
    ", and later tokens rest on these; give solve=Solve(stopping=Stopping(...)) more iterations or a looser "
    "rtol, or Solve(solver=DampedPicard(...)) a smaller damping"
)
_REMEDIES = {
    "simultaneous": (
        '; all tokens together need more iterations the longer they are; solve in the default mode "auto" or '
        "give a Stopping with more iterations"
    )
}
"""The remedy where the limit was reached, by mode."""


MOST_IN_WINDOWS = 16
"""Windows pay for up to this many sequences: more of them fill a processor in the sequential mode, whose
evaluations per token are half as many (docs/solvers.md)."""

SHORTEST_IN_WINDOWS = 9
"""Sequences of at least this many tokens pay for windows."""


def chosen_mode(
    solve: Solve,
    solver: Solver,
    start: Tensor,
    *,
    one_launch: bool,
    state_grows: bool = False,
    stopping: Stopping | None = None,
) -> Mode | Windowed:
    """Return the mode that ``"auto"`` stands for; any other as it is.

    Unrolled iterations and solvers with a memory choose the simultaneous mode. Otherwise the answer is that
    of the sequential mode: by that mode itself, above all where one launch of a kernel runs it, or by the
    windowed one, whichever took less time on the stored runs (docs/solvers.md). At tolerances too loose to
    tell fixed points apart it is by the sequential mode. From a token without a fixed point on, the two may
    differ. Options of the windows choose windows wherever no kernel runs. No other gradient changes the
    choice. InputError if windows are asked for, and the state grows.

    Example:
        >>> import torch
        >>> from implicit.fixed_point import DampedPicard
        >>> for shape in ((1, 64, 4), (64, 64, 4)):
        ...     chosen_mode(Solve(), DampedPicard(), torch.zeros(shape), one_launch=False)
        'windowed'
        'sequential'
        >>> z = torch.zeros(1, 64, 4)
        >>> chosen_mode(Solve(gradient=Unrolled(4)), DampedPicard(), z, one_launch=False)
        'simultaneous'
    """
    if state_grows and (isinstance(solve.mode, Windowed) or solve.mode == "windowed"):
        raise InputError(
            "mode is windowed, which needs a state of constant size; give 'sequential' or 'simultaneous' to "
            "a model whose state grows"
        )
    if solve.mode != "auto":
        return solve.mode
    if isinstance(solve.gradient, Unrolled) or solver.start(start) is not None:
        return "simultaneous"
    batch, length = start.shape[:2]
    if one_launch or state_grows or length == 1:
        return "sequential"
    if solve.windows is not None:
        return solve.windows
    pays = batch <= MOST_IN_WINDOWS and length >= SHORTEST_IN_WINDOWS
    exact = Windowed().tells_apart(stopping or Stopping(), start)
    return "windowed" if pays and exact else "sequential"


def solve_by(
    mode: Mode | Windowed,
    recurrence: Recurrence,
    solver: Solver,
    stopping: Stopping,
    gradient: GradientRule,
    start: Tensor,
    *,
    chained: bool = True,
    state_after: bool = True,
) -> ModeResult:
    """Solve by a mode in plain PyTorch; the arguments are those of the modes themselves.

    InputError for ``"auto"``, which has to be chosen before.

    Example:
        >>> import torch
        >>> from implicit.fixed_point import DampedPicard
        >>> from implicit.gradients import Phantom
        >>> x = torch.tensor([[[1.0], [2.0]]])
        >>> recurrence = Recurrence(
        ...     [x], {}, lambda z, x, s: (x[0], s), lambda z, x, s: (x[0], s), lambda z, x, s: s
        ... )
        >>> arguments = recurrence, DampedPicard(1.0), Stopping(), Phantom(), torch.zeros(1, 2, 1)
        >>> solve_by("sequential", *arguments).solution.value.flatten().tolist()
        [1.0, 2.0]
    """
    if mode == "auto":
        raise InputError("mode is 'auto'; choose one with chosen_mode first")
    stopping = stopping.resolved_by(start)
    if mode == "simultaneous":
        return solve_simultaneously(recurrence, solver, stopping, gradient, start, state_after=state_after)
    if mode == "sequential":
        return solve_sequentially(
            recurrence, solver, stopping, gradient, start, chained=chained, state_after=state_after
        )
    options = mode if isinstance(mode, Windowed) else Windowed()
    return solve_windowed(recurrence, solver, stopping, gradient, start, options, state_after=state_after)
