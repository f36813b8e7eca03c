"""A compiled model is right when floats execute it: one step of the program, in FLINT's balls.

The producer finds boxes by iterating inequalities. Here the boxes are given, and one step is followed: good
writes are read, a latent is decided, it is written, and answered. Each time what comes out has to lie in what
is claimed; by induction over tokens no word leaves the boxes. Roundings are counted anew, from the code of
the ops, as powers of (1 + δ) of each term:

- a write x reaches the memory as Δ x B (2 roundings; in the scan x times (decay Δ), 2), is summed (1 in a
  step, at most 64 in a chunk, and 1 from a chunk to the next), read with C (2), added to what the chunk
  itself says (1), and skip and sum are 2 more: at most 72, with up to three exponentials;
- per token of age the decay is one exponential of a rounded product, times a sum: 3 roundings; a chunk of 64
  tokens adds at most 67 and an exponential once, counted here for every token.

Errors are relative only as long as nothing overflows and what functions return is not below 2⁻¹⁰⁰. So the
numbers of the weights are demanded to be of moderate size (`FloatingPointChecker._check_sizes`), from which
it follows that nothing overflows and that Δ, −A, the decay of one token, B, C, gates and writes of the state
that is entered are that large. Decays of many tokens and writes of other states may be smaller;
they are bounded from above only, and lose towards 0. Results below 2⁻¹²⁶ lose at most

- of a memory, in units of what the gates are given, 2⁻¹²⁶ for each of less than 2⁸ results, times factors of
  17³ behind them and 16 for all ages together, and 2⁻¹⁰⁶ for what the gate loses: less than `UNDERFLOW`,
  times the write itself where the scan rounds a factor of it first;
- of a mean square, 2²⁰ · 2⁻¹²⁶ beside ε, in the roundings that `FloatingPointChecker._norm` has to spare;
- of a direction, 2⁻⁵⁰, of a write before silu, and of a margin, 2⁻⁶⁰: more than 2²⁰ results times 2¹⁶ · 2²⁰.

The weights of a run are compared, channel by channel and exactly, with those of a compiled automaton.

It does not ask how the weights were made. A channel is told by what opens its gate, which latents it is
written by, its bias and skip, and which latent it leads to. The program is that of
docs/compiled_automata_proofs.md if, for every token, the open channels are: one for each state, written by
the latents of the outcomes with that state, leading to the outcome of state and token; and one constant,
leading to that of the first state.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray
from pydantic import PositiveInt

from analysis.certificates.arb.linear import max_upper, precision
from analysis.certificates.certificate import (
    LEAST_ULPS,
    MOST_ULPS,
    Automaton,
    Claim,
    Context,
    Number,
    Part,
    RefusedError,
    Verdict,
    Weights,
    Work,
    check_weights,
    statements,
)

Array = NDArray[np.floating[Any]]
ONES = (
    "embedding_norm.weight",
    "mixer_norms.0.weight",
    "mixers.0.norm.weight",
    "latent_norm.weight",
    "mixers.0.conv1d.weight",
)
SIZES = {"layers": 1, "mlp_size": 0, "residual": True, "d_state": 1, "d_conv": 1, "groups": 1}


@dataclass(frozen=True)
class Program:
    """The numbers that the weights of a compiled automaton consist of, and the sizes."""

    states: int
    outcomes: int
    per_state: int
    per_answer: int
    d_model: int
    inner: int
    gate: float
    slope: float
    threshold: float
    constant: float
    b: float
    c: float
    dt: float
    a_log: float
    skip: float
    skip_start: float
    out: float
    answer: float


def read_program(
    weights: Weights, sizes: Mapping[str, Any], automaton: Automaton, answers: Sequence[Sequence[int]]
) -> Program:
    """Return the numbers, if the weights are those of the automaton."""
    for name, size in SIZES.items():
        if sizes.get(name, True if name == "residual" else None) != size:
            raise RefusedError(f"config.sizes.{name}", f"is not {size}, that of compiled automata")
    for name, weight in weights.items():
        if not np.isfinite(weight).all():  # 0 times it would not be 0
            raise RefusedError(f"weights.{name}", "holds a number that is not finite")
    for name in ONES:
        if not (weights[name] == 1).all():
            raise RefusedError(f"weights.{name}", "is not all 1")
    out, projection = weights["mixers.0.out_proj.weight"], weights["mixers.0.in_proj.weight"]
    gates, head = weights["injections.0.weight"], weights["head.weight"]
    bias, skips = weights["mixers.0.conv1d.bias"], weights["mixers.0.D"]
    (d, inner), heads = out.shape, len(skips)
    expected = (2 * inner + 2 + heads, d)
    if projection.shape != expected or gates.shape != expected or len(bias) != inner + 2 or inner % heads:
        raise RefusedError("weights.mixers.0.in_proj.weight", f"is not of shape {expected}")
    for name, part in (
        ("mixers.0.in_proj.weight", np.delete(projection, np.s_[inner : 2 * inner], axis=0)),
        ("injections.0.weight", gates[inner:]),
        ("head.bias", weights["head.bias"]),
    ):
        if (part != 0).any():
            raise RefusedError(f"weights.{name}", "is not 0 where it has to be")
    columns = _token_columns(weights["embedding.weight"])
    if any(len(row) != len(columns) for row in automaton.table):
        raise RefusedError("weights.embedding.weight", "has not one row for each token of the automaton")
    slope = _single("mixers.0.in_proj.weight", projection)
    read_off = _single("head.weight", head)
    written = projection[inner : 2 * inner] != 0
    if ((out != 0).sum(0) > 1).any():
        raise RefusedError("weights.mixers.0.out_proj.weight", "leads a channel to several latents")
    target = np.where((out != 0).any(0), (out != 0).argmax(0), -1)

    table = automaton.table
    outcomes = sorted({pair for row in zip(table, answers, strict=True) for pair in zip(*row, strict=True)})
    number = {pair: j for j, pair in enumerate(outcomes)}
    if (head != 0)[:, len(outcomes) :].any() or len(outcomes) > d:
        raise RefusedError("weights.head.weight", "reads latents that no outcome has")
    for j, (_, answer) in enumerate(outcomes):
        if np.flatnonzero(head[:, j]).tolist() != [answer]:
            raise RefusedError("weights.head.weight", f"does not read answer {answer} off latent {j}")
    writers = [frozenset(j for j, pair in enumerate(outcomes) if pair[0] == i) for i in range(len(table))]
    open_channels = [np.flatnonzero(gates[:inner, column]) for column in columns]
    if (np.delete(gates, columns, axis=1) != 0).any():
        raise RefusedError("weights.injections.0.weight", "reads features that no token has")
    closed = np.setdiff1d(np.arange(inner), np.concatenate(open_channels))
    if written[closed].any() or bias[closed].any() or (target[closed] >= 0).any():
        raise RefusedError("weights.mixers.0", "has a channel that no token opens and that is not 0")
    # A constant channel is the only open one that is written by nothing and has another bias.
    biases = sorted({float(bias[c]) for channels in open_channels for c in channels})
    if len(biases) != 2 or not biases[0] < 0 < biases[1]:
        raise RefusedError("weights.mixers.0.conv1d.bias", "is not one of two numbers at open channels")
    threshold, constant = biases
    own_skip = {
        side: {float(skips[c // (inner // heads)]) for cs in open_channels for c in cs if bias[c] == side}
        for side in biases
    }
    if any(len(values) != 1 for values in own_skip.values()):
        raise RefusedError("weights.mixers.0.D", "is not one number for the memory and one for the start")
    for token, channels in enumerate(open_channels):
        found = Counter(
            (frozenset(np.flatnonzero(written[c]).tolist()), int(target[c]), float(bias[c])) for c in channels
        )
        pairs = [(table[i][token], answers[i][token]) for i in range(len(table))]
        wanted = Counter((writers[i], number[pair], threshold) for i, pair in enumerate(pairs))
        wanted[frozenset(), number[pairs[automaton.initial_state]], constant] += 1
        if found != wanted:
            raise RefusedError("weights.mixers.0", f"token {token} does not do what the automaton does")
    return Program(
        states=len(table),
        outcomes=len(outcomes),
        per_state=max(len(writer) for writer in writers),
        per_answer=max(Counter(answer for _, answer in outcomes).values()),
        d_model=d,
        inner=inner,
        gate=_single("injections.0.weight", gates),
        slope=slope,
        threshold=threshold,
        constant=constant,
        b=float(bias[-2]),
        c=float(bias[-1]),
        dt=_same("mixers.0.dt_bias", weights["mixers.0.dt_bias"]),
        a_log=_same("mixers.0.A_log", weights["mixers.0.A_log"]),
        skip=own_skip[threshold].pop(),
        skip_start=own_skip[constant].pop(),
        out=_single("mixers.0.out_proj.weight", out),
        answer=read_off,
    )


def _token_columns(embedding: Array) -> list[int]:
    columns = [int(row.argmax()) for row in embedding]
    expected = np.zeros_like(embedding)
    expected[np.arange(len(columns)), columns] = 1
    if len(set(columns)) != len(columns) or (embedding != expected).any():
        raise RefusedError("weights.embedding.weight", "is not one-hot")
    return columns


def _single(name: str, matrix: Array) -> float:
    """The common positive value of all non-zero entries."""
    values = np.unique(matrix[matrix != 0])
    if len(values) != 1 or not values[0] > 0:
        raise RefusedError(f"weights.{name}", "does not consist of 0 and one positive number")
    return float(values[0])


def _same(name: str, vector: Array) -> float:
    if not (vector == vector[0]).all():
        raise RefusedError(f"weights.{name}", "is not the same everywhere")
    return float(vector[0])


MODELS = ("implicit-mamba2",)
CHUNK = 64
EPSILON = arb(1e-5)
LEAST_DAMPING = 0.1
UNDERFLOW = arb(2) ** -95
TINY = arb(2) ** -60
LARGEST_WEIGHT, LARGEST_FACTOR, LEAST_FACTOR = arb(2) ** 16, arb(2) ** 4, arb(2) ** -20
LARGEST_D_MODEL, LARGEST_INNER, LARGEST_SQUARE = 2**16, 2**20, arb(2) ** 120
"""With d_model below 2¹⁶ two norms over it are within 1.004 of each other, for which 1.005 stands below."""


class Boxes(Part):
    """The numbers of the statements."""

    leftover: Number
    leak: Number
    least_write: Number
    most_write: Number
    leaked: Number
    least_read: Number
    least_first: Number
    dominance: Number
    length: Number
    off: Number
    margin: Number


class FloatingPoint(Claim):
    """A compiled model answers right as floats execute it."""

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = statements("executed")

    kind: Literal["executed"] = "executed"
    dtype: Literal["float32"]
    ulps: PositiveInt
    rtol: Number
    boxes: Boxes

    def work(self, context: Context) -> Work:
        """Bound the work: the weights are read once."""
        return Work(float(context.weight_count), 0.0, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the weights are those of the automaton, and one step between the boxes."""
        if context.config.get("model") not in MODELS:
            raise RefusedError("config.model", f"is not one of which answers are proved, {MODELS}")
        if context.automaton is None:
            raise RefusedError("automaton", "is none")
        weights, sizes = context.weights, context.sizes
        check_weights(weights)
        if any(array.dtype != np.float32 for array in weights.values()):
            raise RefusedError("dtype", "is not that of all weights")
        if not 0 <= self.rtol < 1:
            raise RefusedError("rtol", "is not a number from 0 to 1")
        if not LEAST_ULPS <= self.ulps <= MOST_ULPS:
            raise RefusedError("ulps", f"is not from {LEAST_ULPS} to {MOST_ULPS}")
        if "latent_norm.weight" not in weights:
            raise RefusedError("config.model", "is not that of an implicit model")
        damping = float(sizes["damping"])
        if not LEAST_DAMPING <= damping <= 1:
            raise RefusedError("config.sizes.damping", f"is not from {LEAST_DAMPING} to 1")
        if not (float(sizes["rtol"]) <= self.rtol and int(sizes["max_iterations"]) >= 2):
            raise RefusedError("rtol", "is below that of the run, or the run takes no step")
        automaton = context.automaton
        answers = automaton.table if automaton.answers is None else automaton.answers
        program = read_program(weights, sizes, automaton, answers)
        with precision(context.bits):
            FloatingPointChecker(program, self.boxes, self.ulps, self.rtol, damping).check()

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict on the program, with its assumptions."""
        conditions = (
            f"arithmetic: {self.dtype} as executed on a CPU by PyTorch's own operations (no other kernels), "
            "without gradient or padding",
            "modes: sequential and windowed at every token; simultaneous where tokens are reported as "
            "converged",
            "iteration: from the zero state and latent, with the run's own damping, an absolute tolerance of "
            f"0, a relative one of at most {self.rtol!r} and at least 2 iterations",
            "assumed, and not verified: sums and products of matrices are of IEEE float32 operations in any "
            f"order (no TF32); exp, softplus, silu and roots are within {self.ulps} ulp",
        )
        return Verdict("the answers to all words of every length are right", conditions)


class Reading(NamedTuple):
    """Bounds of readings: the least of the right outcome, the most of the rest, the most that is wrong."""

    words: str
    right: arb
    rest: arb
    wrong: arb


class Factors(NamedTuple):
    """The factors between a write and a reading."""

    step: arb  # Δ
    rate: arb  # −A
    decay: arb  # per token
    c: arb
    b: arb
    start: arb  # what starts are written


class FloatingPointChecker:
    """One token's step between the boxes."""

    def __init__(self, program: Program, boxes: Boxes, ulps: int, rtol: float, damping: float) -> None:
        self.p, self.rtol, self.tau = program, arb(rtol), arb(damping)
        self.box = {name: arb(value) for name, value in boxes}
        self.u = arb(2) ** -24
        self.f = 2 * ulps * self.u
        self.root_d = arb(program.d_model).sqrt()
        self.K, self.theta = arb(program.slope) * self.root_d, -arb(program.threshold)
        #: relative error of an entry of a norm over d_model
        self.unit = self._norm(program.d_model)

    def check(self) -> None:
        """Check all lines."""
        box = self.box
        for name, value in box.items():
            if not value >= 0:
                raise RefusedError(f"boxes.{name}", "is negative")
        self._demand(box["leftover"] <= arb(1) / 4, "leftover", "is above 1/4")
        self._demand(box["leak"] < 1, "leak", "is not below 1")
        self._demand(box["dominance"] >= 8, "dominance", "is below 8")
        self._demand(box["leaked"] <= 1, "leaked", "is above 1")
        self._check_sizes()
        for reading, least in zip(self._readings(), ("least_read", "least_first"), strict=True):
            self._check_reading(reading, least)
        self._check_latents()
        self._check_writes()
        self._check_answers()

    def _check_sizes(self) -> None:
        """Check that nothing overflows, and that what errs by a share of itself is not too small for that."""
        p, have = self.p, self.factors
        if p.d_model > LARGEST_D_MODEL or p.inner > LARGEST_INNER:
            raise RefusedError("config.sizes", f"are above {LARGEST_D_MODEL} and {LARGEST_INNER}")
        weights = {
            "injections.0.weight": (p.gate,),
            "mixers.0.in_proj.weight": (p.slope,),
            "mixers.0.conv1d.bias": (p.threshold, p.constant, p.b, p.c),
            "mixers.0.D": (p.skip, p.skip_start),
            "mixers.0.out_proj.weight": (p.out,),
            "head.weight": (p.answer,),
        }
        factors = {
            "mixers.0.dt_bias": (have.step,),
            "mixers.0.A_log": (have.rate, have.decay),
            "mixers.0.conv1d.bias": (have.c, have.b, have.start),
            "injections.0.weight": (self.gate,),
            "mixers.0.out_proj.weight": (arb(p.out),),
            "head.weight": (arb(p.answer),),
        }
        for name, numbers in weights.items():
            if not all(abs(arb(number)) <= LARGEST_WEIGHT for number in numbers):
                raise RefusedError(f"weights.{name}", f"is above {LARGEST_WEIGHT.str(6, radius=False)}")
        for name, parts in factors.items():
            if not all(part >= LEAST_FACTOR for part in parts):
                raise RefusedError(f"weights.{name}", "makes a factor below 2^-20, where errors are no share")
        if not max_upper([have.step, have.rate, have.c, have.b]) <= LARGEST_FACTOR:
            raise RefusedError("weights.mixers.0", "has a factor of the memory above 16")
        if not have.decay <= arb(15) / 16:
            raise RefusedError("weights.mixers.0.A_log", "makes a memory that fades by less than 1/16")
        self._demand(self.box["least_write"] >= LEAST_FACTOR, "least_write", "is below 2^-20")
        # Each product of some of these is at most that of all, as none is below 1.
        any_write = (
            1 + self.K * arb(p.outcomes).sqrt() * self._wide() + abs(self.theta) + abs(arb(p.constant))
        )
        said = (1 + have.step) * (1 + have.b) * (1 + have.c) * 2 / (1 - have.decay)
        said *= 1 + abs(arb(p.skip)) + abs(arb(p.skip_start))
        if not (any_write * said * (1 + self.gate)) ** 2 * p.inner <= LARGEST_SQUARE:
            raise RefusedError("weights.mixers.0", "makes squares above 2^120")
        if not (2 * arb(p.out) * p.inner + 2 * self.root_d) ** 2 * p.d_model <= LARGEST_SQUARE:
            raise RefusedError("weights.mixers.0.out_proj.weight", "makes squares above 2^120")

    @cached_property
    def factors(self) -> Factors:
        """All values that the factors of a memory may have."""
        p, f = self.p, self.f
        step = self._about(arb(p.dt).exp().log1p(), f)  # softplus
        rate = self._about(self._about(arb(p.a_log).exp(), f), self._theta(3))
        decay = self._about((-step * rate).exp(), (1 + f) ** 2 * (1 + self._theta(70)) - 1)
        c, b, start = (self._about(self._silu(arb(number)), f) for number in (p.c, p.b, p.constant))
        return Factors(step, rate, decay, c, b, start)

    @cached_property
    def gate(self) -> arb:
        """All values that an open gate may have."""
        p = self.p
        embedded = self._about(1 / (1 / arb(p.d_model) + EPSILON).sqrt(), self.unit)
        return self._about(
            self._silu(self._about(arb(p.gate) * embedded, self._theta(p.d_model + 2))), self.f
        )

    def _readings(self) -> list[Reading]:
        """From boxes of writes to what the gates are given, after the first token and at it."""
        p, box, f = self.p, self.box, self.f
        step, rate, decay, c, b, s = self.factors
        # 64 log decays are summed in float64, and differences taken: an absolute error of the exponent
        summed = 2 * 66 * arb(2) ** -53 * CHUNK * (step * rate).upper()
        once = (1 + self._theta(CHUNK + 8)) * (1 + f) ** 3 * summed.exp() - 1
        kappa = c * step * b
        size = kappa.upper()

        def rest(skip: float) -> arb:
            return kappa + skip + arb(0, 1) * once * (size + abs(arb(skip)))

        states = arb(p.states)
        ages = decay / (1 - decay)  # λ + λ² + …
        written = states * box["leaked"]
        defect = abs(rest(p.skip)).upper()
        # Any latent at all: |silu(v)| ≤ max(v, 0) + 0.2785, and Σ|ẑ| ≤ √m.
        any_write = (1 + f) * (arb("0.2785") * states + self.K * arb(p.outcomes).sqrt() * self._wide())
        tiny = states * UNDERFLOW * (1 + box["most_write"])
        start = rest(p.skip_start) * s
        grown = start + kappa * ages * s * (1 + once)
        last = kappa * decay * box["least_write"] * (1 - once)
        older = kappa * ages * decay * box["most_write"] * (1 + once)
        negative = kappa * ages * written * (1 + once)
        return [
            Reading(
                "a memory",
                last.lower(),
                (older + grown).upper(),
                (negative + defect * any_write + tiny).upper(),
            ),
            Reading(
                "the beginning",
                (start - UNDERFLOW * (1 + s)).lower(),
                arb(0),
                (defect * (box["most_write"] + written) + tiny).upper(),
            ),
        ]

    def _check_reading(self, reading: Reading, least: str) -> None:
        """From what the gates are given to what the layer adds to the latent."""
        p, box, gate = self.p, self.box, self.gate
        # one gate, two factors of the norm, a weight, then a sum of products
        own = (1 + self._theta(p.inner + 6)) * gate.upper() / gate.lower() - 1
        gets = ((1 - own) * reading.right - (1 + own) * reading.wrong).lower()
        self._demand(box[least] > 0 and gets >= box[least], least, f"is more than {reading.words} gives")
        others = (1 + own) * (reading.rest + reading.wrong)
        self._demand(others <= box["leftover"] * gets, "leftover", f"is too small beside {reading.words}")
        self._demand(
            (1 + own) * reading.wrong <= box["leak"] * gets, "leak", f"is too small beside {reading.words}"
        )
        size = (reading.right + reading.rest + reading.wrong) / gets
        inner, gated = arb(p.inner), gate.lower() * gets
        factor = 1 / (size * size + inner * EPSILON / (gated * gated)).sqrt()
        length = arb(p.out) * (inner / p.d_model).sqrt() * factor * (1 - self._norm(p.inner))
        self._demand(length >= box["dominance"], "dominance", f"is more than {reading.words} gives")

    def _check_latents(self) -> None:
        """From what the layer adds to the direction of the latent, whichever iterate it is."""
        box, u, tau = self.box, self.u, self.tau
        M = (1 + self.unit) * (tau + 6 * u) / (tau - 6 * u)
        self._demand(box["length"] >= M, "length", "is too small")
        self._demand(box["length"] <= arb("1.01"), "length", "is above 1.01")
        M = box["length"]
        least = (1 - EPSILON) * (1 - self.unit)
        # |z|/|o| is the sine of an angle of at most 0.13, whose chord is at most 1.0022 times as long.
        turned = arb("1.0022") * M / box["dominance"] + 8 * u
        turned += 12 * u * M / (tau * tau * least)
        turned += (arb("1.005") * self.rtol * M + arb(2) ** -50) / least  # the latter is what underflows
        along = 1 / (1 + box["leftover"] ** 2).sqrt()
        self._demand(turned <= arb("0.4"), "rtol", "is too large")
        shortest = (along - turned) * tau * least
        off = turned / (along - turned) + EPSILON / (2 * shortest * shortest)
        self._demand(box["off"] >= off, "off", "is too small")

    def _check_writes(self) -> None:
        """From the direction of a latent to what it writes."""
        p, box, u = self.p, self.box, self.u
        rho, pi = box["leftover"], box["leak"]
        around = arb(p.per_state).sqrt() * box["off"]
        sums = self._sums()
        most, rest = 1 + rho + around, rho + around
        least = (1 - pi) / (1 + rho * rho).sqrt() - around - sums * most
        adding = 2 * u * (self.K * most * (1 + sums) + self.theta) + TINY
        on = (self.K * least - self.theta - adding).lower()
        self._demand(on > 0, "least_write", "is not written")
        self._demand(self._silu(on) * (1 - self.f) >= box["least_write"], "least_write", "is too large")
        above = self.K * most * (1 + sums) - self.theta + adding
        self._demand(above * (1 + self.f) <= box["most_write"], "most_write", "is too small")
        adding = 2 * u * (self.K * rest * (1 + sums) + self.theta) + TINY
        off = (self.theta - self.K * rest * (1 + sums) - adding).lower()
        self._demand(off >= 2, "leaked", "is of channels that are nearly on")
        self._demand(off * (-off).exp() * (1 + self.f) <= box["leaked"], "leaked", "is too small")

    def _check_answers(self) -> None:
        """From the direction of a latent to the logits."""
        p, box = self.p, self.box
        rho, pi = box["leftover"], box["leak"]
        right = (1 - pi - rho) / (1 + rho * rho).sqrt()
        rounding = 2 * self._theta(p.d_model + 2) * arb(p.outcomes).sqrt() + TINY
        margin = right - arb(2 * p.per_answer).sqrt() * box["off"] - rounding
        self._demand(box["margin"] > 0, "margin", "is not positive")
        self._demand(margin >= box["margin"], "margin", "is too large")

    def _sums(self) -> arb:
        """The error of a sum of normalised latents, relative to the sum of their absolute values."""
        return (1 + self.unit) * (1 + self._theta(self.p.d_model + 2)) - 1

    def _wide(self) -> arb:
        return (1 + self._sums()) * (1 + 3 * self.u)

    def _theta(self, roundings: int) -> arb:
        """The most that a product of so many factors 1 + δ, or their inverses, differs from 1."""
        return roundings * self.u / (1 - roundings * self.u)

    def _norm(self, features: int) -> arb:
        """The error of an entry of a norm: half that of the mean square, its inverse root, two products.

        The mean square is the square of a norm where the passes are written by hand, and so of a root.
        """
        mean = 1 / (1 - self._theta(features + 6)).sqrt() * (1 + self.f)
        return mean * (1 + self.f) * (1 + self._theta(2)) - 1

    @staticmethod
    def _about(number: arb, relative: arb) -> arb:
        return number * (1 + arb(0, 1) * relative)

    @staticmethod
    def _silu(x: arb) -> arb:
        """Silu of a ball in x > 0, where it rises."""
        low, high = x.lower(), x.upper()
        ends = [end / (1 + (-end).exp()) for end in (low, high)]
        return ends[0].union(ends[1])

    @staticmethod
    def _demand(holds: bool, name: str, reason: str) -> None:
        if not holds:
            raise RefusedError(f"boxes.{name}" if name != "rtol" else "rtol", reason)
