"""Is what a certificate of executed floats says true? The program is run, also with operations that err.

A claim is about all words and all ways of rounding; some words are read, in float32 as it is and in float64
in which every operation errs by all that the certificate allows: a false claim may pass, a true one never
fails, but for the rounding of float64 itself, some 1e-15 of a number.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from analysis.certificates.claims.executed import Boxes
from benchmarks.certificate_mutations.misrounding import Misrounding
from benchmarks.certificate_mutations.mutations import Content
from implicit.cells import Mamba2Cell
from implicit.compiled.compile import machine_of
from implicit.compiled.weights import Wiring
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run

LENGTH, RANDOM_WORDS = 12, 2
MODES: tuple[Mode, ...] = ("sequential", "windowed", "simultaneous")
LEAST_ITERATIONS, ENOUGH, ENOUGH_DAMPED = 2, 4, 60
"""Iterations allowed: the least that the format speaks of, and more than a token takes (with damping)."""
LEAST_RTOL = 1e-4
"""Smaller ones are not tried: with them the iteration goes on and latents are nearer to where they belong."""
BOXES = tuple(Boxes.model_fields)


def _is_least(name: str) -> bool:
    """Tell whether a claim is a bound from below; the others are bounds from above."""
    return name.startswith("least") or name in ("dominance", "margin")


@dataclass(frozen=True, eq=False)
class Seen:
    """Boxes that hold all numbers that were seen over many executions.

    Directions are those of the latents that are answered from, ``[latents, 2]``: the part of the unit vector
    in the right outcome, and that in the others together.
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


class Token(NamedTuple):
    """Numbers that the block computes at every token, ``[words, length, …]``."""

    gate: Tensor
    x: Tensor
    y: Tensor
    added: Tensor


class FloatingPointJudge:
    """Says what is not true of certificates of executed floats."""

    def __init__(self, run: Run) -> None:
        assert isinstance(run.model, ImplicitModel)
        self.model = run.model
        self.machine, _ = machine_of(run.task)
        self.wiring = Wiring.one_hot(self.machine)
        self.executed = lru_cache(maxsize=None)(self._executed)

    def boxes(self, content: Content) -> Iterable[str]:
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
    def _executed(self, rtol: float, ulps: int) -> Seen:
        """Execute the words in every mode, as float32 does and as the worst that is allowed does."""
        seen: dict[str, list[float]] = {}
        directions = []
        wrong = 0
        erring = deepcopy(self.model).double()
        enough = ENOUGH if self.model.config.damping == 1 else ENOUGH_DAMPED
        ways: list[tuple[ImplicitModel, AbstractContextManager[object]]] = [(self.model, nullcontext())]
        ways += [(erring, Misrounding(sign, ulps=ulps)) for sign in (1.0, -1.0, None)]
        for (model, arithmetic), mode in itertools.product(ways, MODES):
            for limit in (LEAST_ITERATIONS, enough) if mode == "sequential" else (enough,):
                with arithmetic:
                    solve = Solve(mode, stopping=Stopping(rtol=rtol, max_iterations=limit))
                    output = model.run(self.words, solve=solve)
                assert output.solution is not None
                latents = output.solution.latents
                answered = torch.ones_like(self.words, dtype=torch.bool)
                if mode == "simultaneous":
                    answered = output.solution.converged
                if not answered.any():
                    continue
                answers = output.logits.argmax(-1)
                wrong += int((answers != self._right[2])[answered].sum())
                unit = latents[answered].double()
                unit /= unit.norm(dim=-1, keepdim=True)
                own = unit.gather(-1, self._right[0][answered][:, None])[:, 0]
                directions.append(torch.stack([own, unit.abs().sum(-1) - own], dim=-1))
                with arithmetic:
                    token = self._token(model, latents)
                for name, number in self._measured(latents, token, answered):
                    seen.setdefault(name, []).append(number)
                seen.setdefault("margin", []).append(self._margin(latents, output.logits, answered))
        boxes = {name: (min if _is_least(name) else max)(numbers) for name, numbers in seen.items()}
        return Seen(boxes, torch.cat(directions), wrong)

    def _margin(self, latents: Tensor, logits: Tensor, answered: Tensor) -> float:
        scores = logits.double() / latents.double().norm(dim=-1, keepdim=True)
        scores = scores / float(self.model.head.weight.max())
        answer = self._right[2][..., None]
        own, others = scores.gather(-1, answer)[..., 0], scores.scatter(-1, answer, -math.inf).amax(-1)
        return float((own - others)[answered].min())

    def _token(self, model: ImplicitModel, z: Tensor) -> Token:
        """Execute the block of every token at its latent, in the arithmetic that holds here."""
        cell, norm = model.cells[0], model.norms[0]
        assert isinstance(cell, Mamba2Cell)
        normed = norm(z)
        injection = (
            model.transitions(self.words.flatten()).inputs["injection.0"].unflatten(0, self.words.shape)
        )
        before = model.states_at(self.words, z)["ssm.0"][:, :-1]
        _, channels, _ = cell.project(normed, injection)
        x, _, _ = cell.split(functional.silu(channels * cell.conv1d.weight[:, 0, 0] + cell.conv_bias))
        window = cell.init_state(self.words.numel())["conv"]  # of no token: the convolution has one tap
        state = {"ssm": before.flatten(0, 1), "conv": window}
        given: list[tuple[Tensor, Tensor]] = []  # to the gated norm: what is read, and the gate
        hook = cell.norm.register_forward_pre_hook(lambda _, arguments: given.append(arguments))
        with hook:
            added, _ = cell.step(normed.flatten(0, 1), state, injection.flatten(0, 1))
        ((y, gate),) = given
        y, gate, added = (part.unflatten(0, self.words.shape) for part in (y, gate, added))
        return Token(gate, x.flatten(-2), y, added)

    def _measured(self, z: Tensor, token: Token, answered: Tensor) -> Iterator[tuple[str, float]]:
        """Yield measured bounds of latents, their writes, and the sums that the layer adds to them."""
        outcome, state, _ = self._right
        features, coordinates = z.shape[-1], (self.wiring.memory, self.wiring.tokens)
        yield "length", float(z.double().norm(dim=-1).max()) / features**0.5
        written = token.x.double()[..., : math.prod(coordinates)].unflatten(-1, coordinates)
        entered = state[..., None, None].expand(*state.shape, 1, self.wiring.tokens)
        on, off = written.gather(-2, entered)[answered], written.scatter(-2, entered, 0)[answered]
        yield "least_write", float(on.min())
        yield "most_write", float(on.max())
        # Of what another state is written nothing is positive.
        yield "leaked", math.inf if float(off.max()) > 0 else float(-off.min())
        cell = self.model.cells[0]
        assert isinstance(cell, Mamba2Cell)
        leads = (cell.out_proj.weight != 0).double()
        read = (token.y.double() * (token.gate != 0)) @ leads.T
        right = read.gather(-1, outcome[..., None])[..., 0]
        rest = read.scatter(-1, outcome[..., None], 0)
        # What a token reads is right if what was written before is: all tokens up to it are spoken of.
        whole = answered.cumprod(dim=1).bool()
        later = whole[:, 1:]
        if later.any():
            yield "least_read", float(right[:, 1:][later].min())
        if whole.any():
            yield "least_first", float(right[whole[:, 0], 0].min())
            yield "leftover", float((rest.abs().sum(-1) / right)[whole].max())
            yield "leak", float((rest.clamp(max=0).abs().sum(-1) / right)[whole].max())
            yield "dominance", float(token.added.double().norm(dim=-1)[whole].min()) / features**0.5
