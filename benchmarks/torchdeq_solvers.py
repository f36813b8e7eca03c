"""Our loop and solvers against those of `torchdeq` on the same self-map: all tokens of a sequence together.

torchdeq takes one norm over all of a sample and its damped step, ours one over each token; so torchdeq's
tolerance is set to the loosest of rtol, rtol/2, rtol/4, … with which every token is within ours, or to the
smallest of them if none will do. A user has no such oracle: the figures flatter torchdeq.

Solvers that leave some token outside of the tolerance, or decode it differently from the sequential mode, are
shown as wrong, ours included.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from analysis.framework.needs import as_implicit
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError
from implicit import load_run
from implicit.fixed_point import Anderson, FixedPointProblem, Solver, Stopping, solve
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.training.streams import Stream, draw_batch

RUN, SEQUENCES = "parity", 8
LENGTHS = (32, 128)
STOPPING = Stopping(rtol=1e-3, max_iterations=1000)
HALVINGS = 10
Latents = Callable[[], Tensor]  # work that ends with latents, ``[batch, length, features]``


@dataclass(frozen=True, eq=False)
class Setting:
    """A sequence problem, Φ of all tokens together from ``start`` ``[batch, length, features]``, with what
    the sequential mode decodes by ``head``, ``[batch, length]``.
    """

    problem: FixedPointProblem
    start: Tensor
    head: Callable[[Tensor], Tensor]
    decoded: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: FixedPointModel, tokens: Tensor) -> "Setting":
        sequential = model.run(tokens, solve=Solve("sequential", stopping=STOPPING))
        assert sequential.solution is not None
        sequential.solution.require_converged()
        start = torch.zeros_like(sequential.solution.latents)
        head = model.get_submodule("head")
        return cls(model.problem(tokens), start, head, sequential.logits.argmax(-1))

    @torch.no_grad()
    def ours(self, solver: Solver) -> Tensor:
        return solve(self.problem, solver, STOPPING, self.start).value

    @torch.no_grad()
    def torchdeq(self, name: str, tolerance: float, **options: float) -> Tensor:
        # Imported where it is used: the other benchmarks do without.
        from torchdeq.solver import get_solver

        solver = get_solver(name)
        value: Tensor = solver(
            self.problem.function,
            self.start,
            max_iter=STOPPING.max_iterations,
            tol=tolerance,
            stop_mode="rel",
            **options,
        )[0]
        return value

    def sweeps(self, solve: Callable[["Setting"], Tensor]) -> int:
        """How often a solve evaluates Φ."""
        count = itertools.count()

        def counted(latent: Tensor) -> Tensor:
            next(count)
            return self.problem.function(latent)

        solve(replace(self, problem=replace(self.problem, function=counted)))
        return next(count)

    @torch.no_grad()
    def wrong(self, latent: Tensor) -> tuple[float, float]:
        """The shares of tokens outside of the tolerance, and decoded differently."""
        residual = (self.problem.function(latent) - latent).norm(dim=-1)
        outside = ~STOPPING.is_met(latent, residual)  # also where it is not a number
        differs = self.head(latent).argmax(-1) != self.decoded
        return outside.double().mean().item(), differs.double().mean().item()

    def check(self, work: Latents) -> None:
        outside, differs = self.wrong(work())
        if outside or differs:
            raise IncorrectError(
                f"wrong on {outside:.1%} of the tokens by the residual and on {differs:.1%} by the answer"
            )

    def tolerance(self, name: str, **options: float) -> float:
        """The loosest of torchdeq's tolerances with which every token is within ours."""
        for halvings in range(HALVINGS):
            tolerance = STOPPING.rtol / 2**halvings
            if not self.wrong(self.torchdeq(name, tolerance, **options))[0]:
                break
        return tolerance


def cases() -> Iterator[Case]:
    run = load_run(RUN)
    model = as_implicit(run)
    for length in LENGTHS:
        setting = Setting.of(model, draw_batch(run.task, SEQUENCES, length, 0, Stream.TEST, length)[0])
        damping = {"tau": model.solver.damping}
        yield Case(
            parameters={"run": RUN, "sequences": SEQUENCES, "length": length, "rtol": STOPPING.rtol},
            check=lambda: None,  # every contender is checked by itself
            contenders=(
                ours("ours, damped", setting, model.solver),
                theirs("torchdeq, damped", setting, "fixed_point_iter", **damping),
                ours("ours, Anderson", setting, Anderson()),
                theirs("torchdeq, Anderson", setting, "anderson"),
            ),
            turns=15,
        )


def ours(name: str, setting: Setting, solver: Solver) -> Contender:
    work = partial(setting.ours, solver)
    sweeps = setting.sweeps(lambda counting: counting.ours(solver))
    return Contender(name, work, {"sweeps": sweeps}, check=partial(setting.check, work))


def theirs(name: str, setting: Setting, solver: str, **options: float) -> Contender:
    tolerance = setting.tolerance(solver, **options)
    work = partial(setting.torchdeq, solver, tolerance, **options)
    sweeps = setting.sweeps(lambda counting: counting.torchdeq(solver, tolerance, **options))
    return Contender(
        name, work, {"sweeps": sweeps, "tolerance": tolerance}, check=partial(setting.check, work)
    )


BENCHMARK = Benchmark(
    "torchdeq_solvers",
    "Solvers of torchdeq and ours on the same self-map",
    cases,
    checked="residual of every token within 1e-3, decoded as by the sequential mode",
    headlines=tuple(
        Headline(
            f"Self-map of parity, 8 x {length} tokens",
            rival,
            "ours, damped",
            {"length": length},
            aim="at least 1" if per else "",
            per=per,
        )
        for length in LENGTHS
        for rival, per in (
            ("torchdeq, damped", "sweeps"),
            ("torchdeq, damped", ""),
            ("torchdeq, Anderson", ""),
        )
    ),
)
