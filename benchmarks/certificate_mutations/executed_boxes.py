"""Is what a certificate of executed floats says true? The program is run, also with operations that err.

A claim is about all words and all ways of rounding; some words are read, in float32 as it is and in float64
in which every operation errs by all that the certificate allows: a false claim may pass, a true one never
fails, but for the rounding of float64 itself, some 1e-15 of a number.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from analysis.certificates.executed.document import Boxes
from benchmarks.certificate_mutations.misrounding import Misrounding
from benchmarks.certificate_mutations.mutations import Content
from implicit.cells import Mamba2Cell
from implicit.compiled.compile import machine_of
from implicit.compiled.wiring import Wiring
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run

LENGTH, RANDOM_WORDS = 12, 2
MODES: tuple[Mode, ...] = ("sequential", "windowed", "simultaneous")
LIMITS = (2, 4)
"""Iterations allowed: the least that the format speaks of, and more than a token takes with damping 1."""
LEAST_RTOL = 1e-4
"""Smaller ones are not tried: with them the iteration goes on and latents are nearer to where they belong."""
BOXES = tuple(Boxes.model_fields)


def _is_least(name: str) -> bool:
    """Whether a claim says that something is at least so much; the others say at most."""
    return name.startswith("least") or name in ("dominance", "margin")


@dataclass(frozen=True, eq=False)
class Executed:
    """What was seen of the claims over many executions: the boxes that hold all of it.

    Attributes:
        boxes: by the name of the claim, but for ``off``; a certificate may say no more than each.
        directions: of latents that are answered from: what the right outcome has of the unit vector, and the
            others together, ``[latents, 2]``.
        wrong: answers that are not those of the task, of tokens that the format speaks of.

    Example:
        `ExecutedJudge.executed` makes one.
    """

    boxes: dict[str, float]
    directions: Tensor
    wrong: int

    def off(self, leftover: float, outcomes: int) -> float:
        """Return how far, at least, they are from directions whose others are ``leftover`` of the right one.

        A direction within ζ of such a one has others of at most ρ times its own and ζ(√m + 1) more in sum.
        """
        own, others = self.directions.unbind(-1)
        return float((others - leftover * own).max()) / (outcomes**0.5 + 1)


class ExecutedJudge:
    """Says what is not true of certificates of executed floats.

    Args:
        run: a compiled one.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.compiled import compile_run
        >>> with TemporaryDirectory() as folder:
        ...     judge = ExecutedJudge(compile_run("parity", Path(folder) / "parity"))
        >>> seen = judge.executed(rtol=1e-3, ulps=4)
        >>> seen.wrong, 0.8 < seen.boxes["margin"] < 1
        (0, True)
    """

    def __init__(self, run: Run) -> None:
        assert isinstance(run.model, ImplicitModel)
        self.model = run.model
        self.machine, _ = machine_of(run.task)
        self.wiring = Wiring.one_hot(self.machine)
        self.executed = lru_cache(maxsize=None)(self._executed)

    def boxes(self, content: Content) -> Iterable[str]:
        """Return what is not true of a certificate."""
        claimed = {name: float.fromhex(content["boxes"][name]) for name in content["boxes"]}
        if set(claimed) != set(BOXES) or not all(math.isfinite(number) for number in claimed.values()):
            yield "boxes are not the known ones, or not finite"
            return
        rtol, ulps = float.fromhex(content["rtol"]), int(content["ulps"])
        if not (0 <= rtol < 1 and 4 <= ulps <= 1024):
            yield "rtol or ulps has no meaning"
            return
        seen = self.executed(max(rtol, LEAST_RTOL), ulps)
        if seen.wrong:
            yield f"{seen.wrong} answers are wrong"
        found = {**seen.boxes, "off": seen.off(claimed["leftover"], self.wiring.latent)}
        for name, number in claimed.items():
            if number > found[name] if _is_least(name) else number < found[name]:
                yield f"boxes.{name} is {number}, and {found[name]} was executed"

    @cached_property
    def words(self) -> Tensor:
        """Random ones, the same token again and again, and two in turn; ``[words, length]``."""
        tokens, generator = self.wiring.tokens, torch.Generator().manual_seed(0)
        drawn = torch.randint(tokens, (RANDOM_WORDS, LENGTH), generator=generator)
        constant = torch.arange(tokens)[:2, None].expand(-1, LENGTH)
        turns = (torch.arange(LENGTH) % 2 * (tokens - 1))[None]
        return torch.cat([drawn, constant, turns])

    @cached_property
    def _right(self) -> tuple[Tensor, Tensor, Tensor]:
        """The outcome, the state entered and the answer of every token of the words."""
        words = self.words.numpy()
        before = self.machine.states(words)[:, :-1]
        outcome = self.wiring.reads.argmax(0)[before, words]
        parts = outcome, self.wiring.writes.argmax(0)[outcome], self.wiring.answers.argmax(0)[outcome]
        one, two, three = (torch.from_numpy(part) for part in parts)
        return one, two, three

    @torch.no_grad()
    def _executed(self, rtol: float, ulps: int) -> Executed:
        """Execute the words in every mode, as float32 does and as the worst that is allowed does."""
        seen: dict[str, list[float]] = {}
        directions = []
        wrong = 0
        exact = deepcopy(self.model).double()
        ways: list[tuple[ImplicitModel, AbstractContextManager[object]]] = [(self.model, nullcontext())]
        ways += [(exact, Misrounding(sign, ulps=ulps)) for sign in (1.0, -1.0, None)]
        for model, arithmetic in ways:
            for mode in MODES:
                for limit in LIMITS if mode == "sequential" else LIMITS[1:]:
                    with arithmetic:
                        solve = Solve(mode, stopping=Stopping(rtol=rtol, max_iterations=limit))
                        output = model.run(self.words, solve=solve)
                    assert output.solution is not None
                    asked = torch.ones_like(self.words, dtype=torch.bool)
                    if mode == "simultaneous":
                        asked = output.solution.converged
                    answers = output.logits.argmax(-1)
                    wrong += int((answers != self._right[2])[asked].sum())
                    latents = output.solution.latents.double()
                    unit = latents[asked] / latents[asked].norm(dim=-1, keepdim=True)
                    own = unit.gather(-1, self._right[0][asked][:, None])[:, 0]
                    directions.append(torch.stack([own, unit.abs().sum(-1) - own], dim=-1))
                    for name, number in self._measured(exact, latents, asked):
                        seen.setdefault(name, []).append(number)
                    seen.setdefault("margin", []).append(self._margin(latents, output.logits, asked))
        boxes = {name: (min if _is_least(name) else max)(numbers) for name, numbers in seen.items()}
        return Executed(boxes, torch.cat(directions), wrong)

    def _margin(self, latents: Tensor, logits: Tensor, asked: Tensor) -> float:
        scores = logits.double() / latents.double().norm(dim=-1, keepdim=True)
        scores = scores / float(self.model.head.weight.max())
        answer = self._right[2][..., None]
        own, others = scores.gather(-1, answer)[..., 0], scores.scatter(-1, answer, -math.inf).amax(-1)
        return float((own - others)[asked].min())

    def _measured(self, model: ImplicitModel, z: Tensor, asked: Tensor) -> Iterator[tuple[str, float]]:
        """What is claimed of latents, of what they write, and of what the layer adds to them."""
        outcome, state, _ = self._right
        features = z.shape[-1]
        yield "length", float(z.norm(dim=-1).max()) / features**0.5
        cell, norm = model.cells[0], model.norms[0]
        assert isinstance(cell, Mamba2Cell)
        normed = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + norm.epsilon)
        injection = (
            model.transitions(self.words.flatten()).inputs["injection.0"].unflatten(0, self.words.shape)
        )
        gate, channels, dt = cell.project(normed, injection)
        x, B, C = cell.split(functional.silu(channels * cell.conv1d.weight[:, 0, 0] + cell.conv_bias))
        written = x.flatten(-2)[..., : self.wiring.memory * self.wiring.tokens]
        written = written.unflatten(-1, (self.wiring.memory, self.wiring.tokens))
        entered = state[..., None, None].expand(*state.shape, 1, self.wiring.tokens)
        on, off = written.gather(-2, entered)[asked], written.scatter(-2, entered, 0)[asked]
        yield "least_write", float(on.min())
        yield "most_write", float(on.max())
        yield "leaked", max(0.0, float(-off.min()))
        if float(off.max()) > 0:  # of what another state is written nothing is positive
            yield "leaked", math.inf
        before = model.states_at(self.words, z)["ssm.0"][:, :-1]
        decay = torch.exp(-dt * torch.exp(cell.A_log))[..., None, None]
        memory = before * decay + (dt[..., None] * x)[..., None] * B[..., None, :]
        y = ((memory * C[..., None, :]).sum(-1) + cell.D[:, None] * x).flatten(-2)
        read = (y * (gate != 0)) @ (cell.out_proj.weight != 0).to(y.dtype).T
        right = read.gather(-1, outcome[..., None])[..., 0]
        rest = read.scatter(-1, outcome[..., None], 0)
        # What a token reads is right if what was written before is: all tokens up to it are spoken of.
        whole = asked.cumprod(dim=1).bool()
        yield "least_first", float(right[:, 0].min())
        yield "least_read", float(right[:, 1:][whole[:, 1:]].min())
        yield "leftover", float((rest.abs().sum(-1) / right)[whole].max())
        yield "leak", float((rest.clamp(max=0).abs().sum(-1) / right)[whole].max())
        window = cell.init_state(self.words.numel())["conv"]  # of no token: the convolution has one tap
        given = {"ssm": before.flatten(0, 1), "conv": window}
        added, _ = cell.step(normed.flatten(0, 1), given, injection.flatten(0, 1))
        share = added.norm(dim=-1).unflatten(0, self.words.shape) / features**0.5
        yield "dominance", float(share[whole].min())
