"""Executions of compiled models lie in the boxes that are proved of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.machines.mealy import MealyMachine
from automata.tasks.registry import make_task
from benchmarks.certificate_mutations.misrounding import Misrounding
from implicit.compiled import Wiring, compile_automaton
from implicit.compiled.executed import ExecutedBounds, executed_bounds_of
from implicit.fixed_point import Stopping
from implicit.models import ImplicitMamba2
from implicit.modes import Mode
from tests.implicit.compiled.test_compile import ALL_TO_ONE, random_machine
from tests.solving import solved


@dataclass
class Case:
    machine: MealyMachine
    wiring: Wiring
    model: ImplicitMamba2
    bounds: ExecutedBounds

    @classmethod
    def of(cls, machine: MealyMachine, *, damping: float = 1.0) -> "Case":
        wiring = Wiring.one_hot(machine)
        model = compile_automaton(machine, damping=damping)
        return cls(machine, wiring, model, executed_bounds_of(model, wiring))

    def words(self) -> Tensor:
        """Random ones, the same token again and again, two in turn, and one token after many others."""
        tokens, generator = self.wiring.tokens, torch.Generator().manual_seed(0)
        drawn = torch.randint(tokens, (2, 24), generator=generator)
        constant = torch.arange(tokens)[:2, None].expand(-1, 24)
        turns = (torch.arange(24) % 2 * (tokens - 1))[None]
        late = (torch.arange(24) // 12 * (tokens - 1))[None]
        return torch.cat([drawn, constant, turns, late])

    def outcomes(self, tokens: Tensor) -> Tensor:
        found, state = [], torch.full((len(tokens),), self.machine.initial)
        for token in tokens.T:
            found.append(torch.from_numpy(self.wiring.reads.argmax(0))[state, token])
            state = torch.from_numpy(self.machine.table.copy())[state, token]
        return torch.stack(found, 1)

    def check(self, latents: Tensor, right: Tensor) -> dict[str, float]:
        """Hold latents against the bounds, in float64; return what was found at worst."""
        bounds, m = self.bounds, self.wiring.latent
        z = latents.double().flatten(0, 1)
        right = right.flatten()
        d = z.shape[1]
        length = z.norm(dim=1)
        assert float(length.max()) <= bounds.length * d**0.5
        # ẑ/|ẑ| is within ζ of a vector of the cone: others at most ρ + ζ√m in sum, and so on.
        unit = z / length[:, None]
        own = unit.gather(1, right[:, None])[:, 0]
        others = unit.abs().sum(1) - own
        assert float((others - bounds.leftover * own).max()) <= bounds.off * (m**0.5 + 1)
        # What it writes.
        cell: Any = self.model.cells[0]
        n, tokens = self.wiring.memory, self.wiring.tokens
        with torch.no_grad():
            for dtype in (torch.float32, torch.float64):
                norm, rows = self.model.norms[0], cell.in_proj.weight
                inputs = latents.to(dtype).flatten(0, 1)
                scaled = inputs * torch.rsqrt(inputs.square().mean(-1, keepdim=True) + norm.epsilon)
                projected = scaled @ rows.to(dtype)[cell.d_inner : 2 * cell.d_inner].T
                x = torch.nn.functional.silu(projected + cell.conv_bias[: cell.d_inner].to(dtype))
                x = x[:, : n * tokens].view(-1, n, tokens)
                state = torch.from_numpy(self.wiring.writes.argmax(0))[right]
                on = x.gather(1, state[:, None, None].expand(-1, 1, tokens))
                off = x.scatter(1, state[:, None, None].expand(-1, 1, tokens), 0)
                assert bounds.least_write <= float(on.min())
                assert float(on.max()) <= bounds.most_write
                assert -bounds.leaked <= float(off.min())
                assert float(off.max()) <= 0
        return {"own": float(own.min()), "on": float(on.min()), "on most": float(on.max())}


MACHINES: dict[str, Any] = {name: make_task(name).machine() for name in ("parity", "S3", "S5-generators")}
MACHINES |= {"answers": random_machine(6, 5, 8, 0), "all to one": ALL_TO_ONE}


@pytest.fixture(params=MACHINES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return Case.of(MACHINES[request.param])


@pytest.mark.parametrize("mode", ["sequential", "windowed", "simultaneous"])
@torch.no_grad()
def test_executions_lie_in_the_boxes(case: Case, mode: Mode) -> None:
    tokens = case.words()
    output = solved(case.model, tokens, mode, stopping=Stopping(rtol=1e-3, max_iterations=1000))
    right = case.outcomes(tokens)
    found = case.check(output.latents, right)
    answers = torch.from_numpy(case.wiring.answers.argmax(0))[right]
    assert torch.equal(output.logits.argmax(-1), answers)
    scores = output.logits.double() / output.latents.double().norm(dim=-1, keepdim=True)
    scores = scores / float(case.model.head.weight.max())
    own = scores.gather(-1, answers[..., None])[..., 0]
    rest = scores.scatter(-1, answers[..., None], -torch.inf).amax(-1)
    assert float((own - rest).min()) >= case.bounds.margin
    # The bounds are not absurdly wide.
    assert found["on"] < 1.6 * case.bounds.least_write
    assert found["own"] < 1.3 * (case.bounds.margin + case.bounds.off)


@torch.no_grad()
def test_executions_by_the_kernels_lie_in_the_boxes_too(case: Case) -> None:
    pytest.importorskip("numba")
    model = case.model
    cell: Any = model.cells[0]
    assert (model.sequential_backend, cell.backend) == ("loop", "chunked")
    tokens = case.words()
    for mode in ("sequential", "windowed", "simultaneous"):
        model.sequential_backend, cell.backend = "auto", "auto"
        output = solved(model, tokens, mode, stopping=Stopping(rtol=1e-3, max_iterations=1000))
        model.without_kernels()
        case.check(output.latents, case.outcomes(tokens))


@torch.no_grad()
def test_memories_and_readings_lie_in_the_boxes(case: Case) -> None:
    tokens = case.words()
    right, bounds = case.outcomes(tokens), case.bounds
    modes: tuple[Mode, ...] = ("sequential", "simultaneous")
    for mode in modes:
        recurrence = case.model._recurrence(*case.model.begin(tokens, None, None))
        latents, cell = solved(case.model, tokens, mode).latents, case.model.cells[0]
        if mode == "simultaneous":
            added, _ = cell(case.model.norms[0](latents), cell.init_state(len(tokens)), recurrence.inputs[0])
        else:
            states, steps = case.model.states_at(tokens, latents), []
            for t in range(tokens.shape[1]):
                here = {"conv": states["conv.0"][:, t], "ssm": states["ssm.0"][:, t]}
                normed = case.model.norms[0](latents[:, t])
                steps.append(cell.step(normed, here, recurrence.inputs[0][:, t])[0])
            added = torch.stack(steps, dim=1)
        o = added.double()
        own = o.gather(-1, right[..., None])[..., 0]
        rest = o.scatter(-1, right[..., None], 0)
        assert float((rest.abs().sum(-1) / own).max()) <= bounds.leftover
        assert float((rest.clamp(max=0).abs().sum(-1) / own).max()) <= bounds.leak
        assert float(own.min()) >= bounds.dominance * o.shape[-1] ** 0.5 * (1 - 2.0**-20)
        if len(np.unique(case.machine.table)) > 1 and case.wiring.memory > 2:
            assert float((rest.abs().sum(-1) / own).max()) > 0.2 * bounds.leftover


@torch.no_grad()
def test_every_iterate_of_a_damped_iteration_lies_in_the_boxes() -> None:
    case = Case.of(MACHINES["S3"], damping=0.5)
    tokens = case.words()[:, :40]
    right = case.outcomes(tokens)
    for limit in (2, 3, 5, 30):
        stopping = Stopping(rtol=1e-3, max_iterations=limit)
        output = solved(case.model, tokens, "sequential", stopping=stopping)
        case.check(output.latents, right)


@torch.no_grad()
def test_latents_that_converged_are_right_whatever_the_damping() -> None:
    """All tokens together, damped: a token that is reported as converged is right, any others need not be."""
    case = Case.of(MACHINES["S5-generators"], damping=0.5)
    tokens = case.words()[:, :30]
    right, seen = case.outcomes(tokens), 0
    for limit in (3, 60, 200):
        stopping = Stopping(rtol=1e-3, max_iterations=limit)
        output = solved(case.model, tokens, "simultaneous", stopping=stopping)
        there = output.converged
        if bool(there.any()):
            case.check(output.latents[there][:, None], right[there][:, None])
        seen += int(there.sum())
    assert seen > tokens.numel()


@torch.no_grad()
def test_sweeps_reach_a_token_in_time() -> None:
    case = Case.of(MACHINES["S5-generators"])
    tokens = case.words()
    right = case.outcomes(tokens)
    for sweeps in (1, 2, 40):
        stopping = Stopping(rtol=0.0, max_iterations=sweeps + 1)
        output = solved(case.model, tokens, "simultaneous", stopping=stopping)
        case.check(output.latents[:, :sweeps], right[:, :sweeps])


# Every pair of an automaton, a sign and a mode once.
@pytest.mark.parametrize("sign", [1.0, -1.0, None])
@pytest.mark.parametrize("name", ["parity", "S3", "answers"])
@torch.no_grad()
def test_the_worst_rounding_that_is_allowed_stays_in_the_boxes(name: str, sign: float | None) -> None:
    case = Case.of(MACHINES[name])
    tokens = case.words()[:, :20]
    right = case.outcomes(tokens)
    case.model.double()
    row = ["parity", "S3", "answers"].index(name) + [1.0, -1.0, None].index(sign)
    mode: Mode = ("sequential", "windowed", "simultaneous")[row % 3]
    with Misrounding(sign) as attack:
        output = solved(case.model, tokens, mode, stopping=Stopping(rtol=1e-3))
    case.check(output.latents, right)
    assert {"mm", "silu", "mul"} <= attack.seen
    assert torch.equal(output.logits.argmax(-1), torch.from_numpy(case.wiring.answers.argmax(0))[right])


@torch.no_grad()
def test_more_rounding_than_is_allowed_leaves_the_boxes() -> None:
    """So the attack above has teeth: the boxes end within three powers of ten of what is allowed for."""
    case = Case.of(MACHINES["S3"])
    tokens = case.words()[:, :20]
    case.model.double()
    with Misrounding(None, times=1000.0):
        output = solved(case.model, tokens, "sequential", stopping=Stopping(max_iterations=3))
    with pytest.raises(AssertionError):
        case.check(output.latents, case.outcomes(tokens))
