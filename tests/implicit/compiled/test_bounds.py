"""The proof of docs/compiled_automata_proofs.md, attacked: each lemma at random and extreme values, float64.

The oracle is section 2 of the page written in NumPy, which is first held against the model itself.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from automata.errors import InputError
from automata.machines.mealy import MealyMachine
from implicit.compiled import Gains, Wiring, bounds_of, compile_automaton
from implicit.compiled.bounds import BlockNumbers, Terms, numbers_of, proved
from implicit.compiled.weights import Places, constants_for, model_of
from implicit.models import ImplicitMamba2
from tests.implicit.compiled.test_compile import ALL_TO_ONE, PARITY, random_machine
from theory.rigorous.balls.ball import Ball

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""The loss of float64 in an inequality between numbers of order 1, sums of hundreds."""


def _silu(x: Floats) -> Floats:
    return np.asarray(x / (1 + np.exp(-x)))


@dataclass
class Block:
    """Section 2 of the page, with the bounds that are proved of it."""

    wiring: Wiring
    model: ImplicitMamba2
    numbers: BlockNumbers
    terms: Terms
    contraction: float
    coupling: float
    dominance: float

    @classmethod
    def of(cls, machine: MealyMachine, gains: Gains | None = None) -> "Block":
        wiring = Wiring.one_hot(machine)
        model = compile_automaton(machine, gains).double()
        numbers = numbers_of(model, wiring)
        bounds = proved(numbers)
        terms = numbers.terms(bounds.leftover, bounds.leak)
        dominance = float(numbers.dominance(terms).lower)
        return cls(wiring, model, numbers, terms, bounds.contraction, bounds.coupling, dominance)

    def value(self, name: str) -> float:
        return float(getattr(self.numbers, name).midpoint)

    @property
    def d(self) -> int:
        return Places.of(self.wiring).d_model

    def unit(self, z: Floats) -> Floats:
        return np.asarray(z / np.sqrt((z**2).sum(-1, keepdims=True) + self.d * self.numbers.epsilon))

    def sums(self, z: Floats) -> Floats:
        """S of every state."""
        return np.asarray(self.unit(z)[..., : self.wiring.latent] @ self.wiring.writes.T.astype(float))

    def write(self, z: Floats) -> Floats:
        return _silu(self.value("K") * self.sums(z) - self.value("theta"))

    def reading(self, p: Floats, start: float, z: Floats, token: int) -> tuple[Floats, float]:
        """R and the square of the length of what the gates see."""
        y = self.value("decay") * p + self.value("defect") * self.write(z)
        table = self.wiring.reads[:, :, token].astype(float)
        seen = float((y**2).sum() + start**2)
        return y @ table.T + start * (table @ self.wiring.initial), seen

    def output(self, p: Floats, start: float, z: Floats, token: int) -> Floats:
        r, seen = self.reading(p, start, z, token)
        g, inner = self.value("gate"), self.numbers.N
        factor = g / math.sqrt(g**2 * seen / inner + self.numbers.epsilon)
        o = np.zeros(self.d)
        o[: len(r)] = self.value("R") * math.sqrt(self.d / inner) * factor * r
        return o

    def image(self, p: Floats, start: float, z: Floats, token: int) -> Floats:
        v = z + self.output(p, start, z, token)
        return np.asarray(v / np.sqrt((v**2).mean() + self.numbers.epsilon))

    def starts(self) -> tuple[float, float]:
        return float(self.numbers.least_start.lower), float(self.numbers.most_start.upper)


MACHINES = {
    "parity": PARITY,
    "one state": MealyMachine([[0]], [[0]]),
    "all to one": ALL_TO_ONE,
    "answers": random_machine(6, 5, 8, 0),
    "random": random_machine(20, 3, 1, 1),
}


@pytest.fixture(params=MACHINES, scope="module")
def block(request: pytest.FixtureRequest) -> Block:
    return Block.of(MACHINES[request.param])


def _good_write(block: Block, state: int, rng: np.random.Generator, extreme: bool) -> Floats:
    """A write at a state, anywhere in its box or at its corners."""
    least = float(_silu(block.terms.pre_on.lower))
    most, leak = float(block.terms.most_write.upper), float(block.terms.off.lower)
    share = rng.integers(0, 2, block.wiring.memory) if extreme else rng.random(block.wiring.memory)
    write = -leak * math.exp(-leak) * share
    write[state] = least + share[state] * (most - least)
    return np.asarray(write)


def _memories(block: Block, count: int = 60) -> list[tuple[int, Floats, float]]:
    """Memories that stand for a state: random histories, others that stay, others that alternate."""
    rng, found = np.random.default_rng(0), []
    initial = int(block.wiring.initial.argmax())
    least, most = block.starts()
    found.append((initial, np.zeros(block.wiring.memory), least))
    for number in range(count):
        history = rng.integers(0, block.wiring.memory, 30)
        if number % 3 == 1:
            history[1:] = history[1]
        if number % 3 == 2:
            history[0::2], history[1::2] = history[0], initial
        writes = np.array([_good_write(block, state, rng, number % 2 == 0) for state in history])
        memory = block.value("kappa") * block.value("decay") ** np.arange(30) @ writes
        found.append((int(history[0]), memory, least if number % 4 else most))
    return found


def _latents(block: Block) -> list[Floats]:
    """Within the ball of the proof: 0, random, unit vectors, all equal, and tiny ones, where ẑ is steep."""
    rng, d = np.random.default_rng(1), block.d
    root = math.sqrt(d)
    drawn = [root * v / np.linalg.norm(v) for v in rng.normal(size=(4, d))]
    units = [sign * root * np.eye(d)[j] for j in (0, d - 1) for sign in (1, -1)]
    return [np.zeros(d), *drawn, *units, np.ones(d), 1e-3 * drawn[0], 1e-9 * drawn[1]]


def test_page_is_the_model(block: Block) -> None:
    rng = np.random.default_rng(2)
    places, model = Places.of(block.wiring), block.model
    cell: Any = model.mixers[0]
    for token in range(block.wiring.tokens):
        transition = model.transition(token)
        for _ in range(4):
            p, start = rng.normal(size=block.wiring.memory), float(rng.random())
            z = rng.normal(size=block.d)
            channels = np.zeros(places.inner).reshape(-1, places.tokens)
            channels[: block.wiring.memory] = p[:, None]
            at_start = block.value("decay") * float(rng.random())  # λ p₀
            channels[places.start] = at_start / block.value("decay")
            scale = float(torch.nn.functional.silu(cell.conv_bias[-1]).item())  # C; p = C h
            h = torch.from_numpy(channels.reshape(cell.heads, cell.head_size, 1) / scale)
            state = {"ssm.0": h, "conv.0": torch.zeros(cell.conv_channels, 0).double()}
            start = at_start + block.starts()[0]
            found = transition.self_map(torch.from_numpy(z), state)
            expected = block.image(p, start, z, token)
            # sums of at most 600 terms of order 1, normalised: 1e-12 would be met, 1e-9 leaves room
            np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-9)
            following = transition.state_update(torch.from_numpy(z), state)["ssm.0"].detach().numpy() * scale
            after = block.value("decay") * p + block.value("kappa") * block.write(z)
            memory = following.reshape(-1, places.tokens)[: block.wiring.memory]
            np.testing.assert_allclose(memory, np.repeat(after[:, None], places.tokens, 1), rtol=0, atol=1e-9)


def test_lemmas_1_to_3_reading_deciding_and_writing(block: Block) -> None:
    t, checked = block.terms, 0
    on, leak = float(_silu(t.pre_on.lower)), float(t.off.lower) * math.exp(-float(t.off.lower))
    for number, (state, p, start) in enumerate(_memories(block)):
        least = float((t.least_first if number == 0 else t.least_on).lower)
        for token in range(block.wiring.tokens):
            right = int(block.wiring.reads[:, state, token].argmax())
            following = int(block.wiring.writes[:, right].argmax())
            for z in _latents(block):
                r, _ = block.reading(p, start, z, token)
                assert r[right] >= least - ROUNDING
                assert np.abs(np.delete(r, right)).sum() <= float(t.rho.upper) * r[right] + ROUNDING
                assert -np.minimum(r, 0).sum() <= float(t.pi.upper) * r[right] + ROUNDING
                size = np.linalg.norm(block.output(p, start, z, token))
                assert size >= block.dominance * math.sqrt(block.d) - ROUNDING
                after = block.image(p, start, z, token)
                write = block.write(after)
                assert on - ROUNDING <= write[following] <= float(t.most_write.upper) + ROUNDING
                others = np.delete(write, following)
                assert (others <= ROUNDING).all()
                assert (others >= -leak - ROUNDING).all()
                scores = block.wiring.answers.astype(float) @ after[: block.wiring.latent]
                answer = int(block.wiring.answers[:, right].argmax())
                assert scores[answer] > np.delete(scores, answer).max(initial=-np.inf)
                assert 0.98 * math.sqrt(block.d) <= np.linalg.norm(after) <= math.sqrt(block.d)
                checked += 1
    assert checked > 500


def test_theorem_2_contraction(block: Block) -> None:
    worst = 0.0
    for state, p, start in _memories(block, 12):
        del state
        latents = _latents(block)
        latents += [2 * z for z in latents[1:5]] + [z + 1e-6 * latents[1] for z in latents]
        for token in range(min(block.wiring.tokens, 2)):
            images = [block.image(p, start, z, token) for z in latents]
            for i, z in enumerate(latents):
                for j in range(i):
                    apart = float(np.linalg.norm(z - latents[j]))
                    if apart > 1e-7:
                        worst = max(worst, float(np.linalg.norm(images[i] - images[j])) / apart)
    assert worst <= block.contraction + 1e-6  # rounding of 1e-16·√d, divided by distances of 1e-7 at least
    assert worst > 0.3 * block.contraction  # the bound says something


def test_theorem_3_coupling(block: Block) -> None:
    rng, t = np.random.default_rng(3), block.terms
    K, decay, kappa = (block.value(name) for name in ("K", "decay", "kappa"))
    _, most_start = block.starts()
    largest = 0.0
    for _ in range(300):
        history = rng.integers(0, block.wiring.memory, 6)
        token = int(rng.integers(block.wiring.tokens))
        right = int(block.wiring.reads[:, history[0], token].argmax())
        following = int(block.wiring.writes[:, right].argmax())
        writes = np.array([_good_write(block, state, rng, extreme=True) for state in history])
        size = 10.0 ** -rng.integers(1, 5)
        moved = writes.copy()
        differences = size * rng.uniform(-1, 1, 6)
        for age, state in enumerate(history):  # stay within the box
            box = float(_silu(t.pre_on.lower)), float(t.most_write.upper)
            moved[age, state] = np.clip(moved[age, state] + differences[age], *box)
        powers = decay ** np.arange(6)[:, None]
        first, second = ((kappa * powers * w).sum(0) for w in (writes, moved))
        xi = np.abs(moved - writes).max() / (1.1 * K)
        if xi == 0:
            continue
        z = block.image(first, most_start, np.zeros(block.d), token)
        sums = [block.sums(block.image(p, most_start, z, token))[following] for p in (first, second)]
        largest = max(largest, abs(sums[0] - sums[1]) / xi)
    assert largest <= block.coupling


@pytest.mark.parametrize("states", [1, 2, 10, 10**3, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("per_state", [1, 10, 10**6])
def test_lemma_0_all_sizes_with_real_weights(states: int, per_state: int) -> None:
    K, kappa, outcomes = 64 + 4 * math.log(states), 0.5344, states * per_state
    start = kappa / 16 * K / 32
    counts: dict[str, Any] = {"n": states, "m": outcomes, "N": 10 * outcomes, "per_state": per_state}
    counts |= {"per_answer": min(outcomes, 10**6)}
    values = {"K": K, "theta": K / 2, "kappa": kappa, "decay": 1 / 16, "defect": 0.0, "least_start": start}
    values |= {"most_start": start + 0.7311 * kappa / 15}
    values |= {"gate": 0.73 * math.sqrt(10 * outcomes), "R": 128 * math.sqrt(outcomes)}
    exact: dict[str, Any] = {name: Ball.exact(value) for name, value in values.items()}
    numbers = BlockNumbers(**counts, damping=1.0, epsilon=1e-5, **exact)
    terms = numbers.terms(0.21, 1e-6)
    assert all(numbers.first_inequalities(terms).values())
    dominance = numbers.dominance(terms)
    assert dominance.lower >= 104 * math.sqrt(outcomes)
    contraction = numbers.contraction(terms, dominance)
    assert contraction.upper <= 0.01
    assert numbers.apart(terms).lower > 0.7
    assert numbers.coupling(terms, dominance, contraction).upper <= 0.85


def test_every_weight_is_looked_at() -> None:
    """A change of any one weight, by the least that a float allows, is refused or bounded anew."""
    machine = MACHINES["answers"]
    wiring = Wiring.one_hot(machine)
    expected = bounds_of(compile_automaton(machine), wiring)
    rng = np.random.default_rng(0)
    for name in compile_automaton(machine).state_dict():
        model = compile_automaton(machine)
        weight = model.state_dict()[name].view(-1)
        place = int(rng.integers(len(weight)))
        weight[place] = torch.nextafter(weight[place], torch.tensor(torch.inf))
        try:
            found = bounds_of(model, wiring)
        except InputError as error:
            assert name in str(error)  # noqa: PT017
        else:  # the only weight of its kind: a number of the proof
            assert abs(found.margin - expected.margin) < 1e-4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("slope", 0.0), ("threshold", 0.0), ("skip", 0.0), ("skip_start", -1.0), ("skip_start", 10.0)),
        *(("out", 0.01), ("gate", 1e-6), ("a_log", -5.0)),
    ],
)
def test_constants_that_are_wrong_are_refused(name: str, value: float) -> None:
    wiring = Wiring.one_hot(PARITY)
    constants = replace(constants_for(wiring, Gains()), **{name: value})
    inequality = "1" if name == "slope" else r"\d"
    with pytest.raises(InputError, match=rf"not proved right: \({inequality}\)"):
        bounds_of(model_of(wiring, constants), wiring)


def test_another_automaton_and_a_wiring_that_is_not_one_hot_are_refused() -> None:
    flipped = Wiring.one_hot(MealyMachine([[1, 0], [0, 1]], [[1, 0], [0, 1]]))
    with pytest.raises(InputError, match=r"out_proj\.weight is not what this automaton is compiled to"):
        bounds_of(compile_automaton(PARITY), flipped)
    both = replace(Wiring.one_hot(PARITY), initial=np.array([True, True]))
    with pytest.raises(InputError, match="not one-hot"):
        bounds_of(compile_automaton(PARITY), both)
