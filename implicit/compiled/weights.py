"""The weights of a compiled automaton: twelve numbers (three of them 1), at the places that the wiring says.

| symbol | what                                                                                        |
|--------|---------------------------------------------------------------------------------------------|
| n, m   | coordinates of the memory (states) and of the latent (outcomes of a token), see `Wiring`     |
| d, N   | d_model, at least m and the number of tokens; the inner width                                |
| (i, a) | a channel of the inner width: coordinate i of the memory, for the case that the token is a   |
| κ      | C Δ B, what one token adds to C h                                                            |

A head of the cell holds some coordinates i with their channels (i, a) for all tokens a; one more head holds
constants for the beginning. docs/compiled_automata.md has the proof.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from automata.checks import check_memory
from automata.errors import InputError
from automata.machines.mealy import MealyMachine
from automata.monoids.cayley import IntArray
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from implicit.seeded import Seeded

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Wiring:
    """An automaton as three tables of zeros and ones.

    The memory holds a code of the state before the token, the latent a code of what the token leads to.

    Attributes:
        reads: ``[latent, memory, tokens]``; which latents a coordinate of the memory switches on when the
            token is read. A latent is on if exactly one of the coordinates that are on leads to it.
        writes: ``[memory, latent]``; a coordinate of the memory is written if one of these latents is on.
        initial: ``[memory]``; the code of the initial state.
        answers: ``[classes, latent]``; the answer whose latents are on wins.
    """

    reads: BoolArray
    writes: BoolArray
    initial: BoolArray
    answers: BoolArray

    @property
    def memory(self) -> int:
        """The number of coordinates of the memory."""
        return self.reads.shape[1]

    @property
    def latent(self) -> int:
        """The number of coordinates of the latent that are used."""
        return self.reads.shape[0]

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.reads.shape[2]

    @classmethod
    def one_hot(cls, machine: MealyMachine, classes: int | None = None) -> "Wiring":
        """Return the wiring with one coordinate of the memory per state.

        The latent has one coordinate per *outcome*, a pair of state and answer that some token leads to. The
        classes are the answers; those up to the machine's largest if None. InputError if the machine gives
        more answers, or the tables do not fit into memory.

        Example:
            State 0 is reached with either answer and state 1 with answer 1 only, so there are three outcomes:

            >>> Wiring.one_hot(MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 1]])).latent
            3
        """
        table, answers = machine.table, machine.answers
        states, tokens = table.shape
        size = int(answers.max()) + 1 if classes is None else classes
        if size <= answers.max():
            raise InputError(f"classes is {size}, but the machine answers {answers.max()}; give more")
        outcomes, numbers = np.unique(table * size + answers, return_inverse=True)
        outcome: IntArray = numbers.reshape(table.shape)
        check_memory(
            f"an automaton of {states} states and {tokens} tokens with {len(outcomes)} outcomes",
            len(outcomes) * states * tokens,
            "compile a smaller one",
        )
        reads = np.zeros((len(outcomes), states, tokens), np.bool_)
        state, token = np.indices(table.shape)
        reads[outcome, state, token] = True
        return cls(
            reads,
            np.arange(states)[:, None] == outcomes // size,
            np.arange(states) == machine.initial,
            np.arange(size)[:, None] == outcomes % size,
        )


@dataclass(frozen=True)
class Gains:
    """The strengths of the parts of a compiled automaton.

    InputError for a gain out of range.

    Attributes:
        decay: λ, by which the memory of a token fades with every token after it. All older tokens together
            weigh λ/(1−λ) of the last one.
        sharpness: K = sharpness + 4 log(states), the slope with which the latent decides what is written. A
            coordinate that is on writes about K/2, one that is off at most about K/4·exp(−K/4).
        start: what the constant channels say of the initial state, as a share of the memory of a token: less
            than any memory, so that it is overruled, and more than nothing, so that the first token reads it.
        dominance: the length of what the layer adds to the latent is dominance·√latents, in lengths of the
            latent. The iteration contracts by the inverse of it, to within a fifth.

    Example:
        >>> Gains().decay, Gains(sharpness=100).sharpness
        (0.0625, 100)
        >>> Gains(decay=0.5)
        Traceback (most recent call last):
        automata.errors.InputError: decay is 0.5; give a number from 2**-12 to 1/16
    """

    decay: float = 1 / 16
    sharpness: float = 64.0
    start: float = 1 / 16
    dominance: float = 128.0

    def __post_init__(self) -> None:
        for field, least, most, words in (
            ("decay", 2**-12, 1 / 16, "from 2**-12 to 1/16"),
            ("sharpness", 64, 512, "from 64 to 512"),
            ("start", 2**-8, 1 / 16, "from 2**-8 to 1/16"),
            ("dominance", 64, 4096, "from 64 to 4096"),
        ):
            value = getattr(self, field)
            if not (math.isfinite(value) and least <= value <= most):
                raise InputError(f"{field} is {value}; give a number {words}")


@dataclass(frozen=True)
class Constants:
    """The numbers that the weights consist of, beside 0 and 1."""

    gate: float  # from the token to the gates of its channels
    slope: float  # from a latent to the coordinate of the memory that it switches on
    threshold: float  # bias of those channels
    constant: float  # bias of the channels that stand for the beginning
    b: float  # bias of B
    c: float  # bias of C
    dt: float  # bias of Δ
    a_log: float  # log(−A)
    skip: float  # D of the heads of the memory; −C Δ B, so that a head answers with its old state
    skip_start: float  # D of the head of the beginning
    out: float  # from a channel to a latent
    answer: float  # from a latent to its answer


@dataclass(frozen=True)
class Places:
    """Sizes of the block for a wiring.

    There are about √n heads of √n coordinates, with a channel for each token, and one more for the beginning;
    the inner width is a multiple of d_model.
    """

    d_model: int  # features of the latent
    expand: int  # inner width as a multiple of it
    per_head: int  # coordinates of the memory in a head
    start: int  # the number of the coordinate that stands for the beginning, the first of its head
    tokens: int  # channels per coordinate

    @classmethod
    def of(cls, wiring: Wiring) -> "Places":
        """Return the sizes for a wiring."""
        per_head = math.isqrt(wiring.memory)
        start = per_head * math.ceil(wiring.memory / per_head)
        coordinates = start + per_head
        if wiring.tokens >= max(wiring.latent, coordinates):
            return cls(wiring.tokens, coordinates, per_head, start, wiring.tokens)
        smallest = max(coordinates, wiring.latent, wiring.tokens)
        return cls(per_head * math.ceil(smallest / per_head), wiring.tokens, per_head, start, wiring.tokens)

    @property
    def inner(self) -> int:
        """N, the inner width."""
        return self.expand * self.d_model


def constants_for(wiring: Wiring, gains: Gains) -> Constants:
    """Return the constants of a wiring, each a float32 number."""
    places = Places.of(wiring)
    d, inner = places.d_model, places.inner
    K = gains.sharpness + 4 * math.log(wiring.memory)
    constant = _silu(1.0)
    # Δ is about 1: of the neighbouring floats the one at which −C Δ B is best met by a float.
    nearby = [np.float32(math.log(math.expm1(1)))]
    for _ in range(255):
        nearby.append(np.nextafter(nearby[-1], np.float32(1)))
    memories = {float(dt): constant**2 * _softplus(float(dt)) for dt in nearby}
    dt, memory = min(memories.items(), key=lambda pair: abs(float(np.float32(pair[1])) - pair[1]))
    exact = Constants(
        gate=math.sqrt(inner / d * (1 + d * EPSILON)),  # so that the norm of the embedding leaves √N
        slope=K / math.sqrt(d),
        threshold=-K / 2,
        constant=1.0,
        b=1.0,
        c=1.0,
        dt=dt,
        a_log=math.log(-math.log(gains.decay) / _softplus(dt)),
        skip=-memory,
        skip_start=gains.start * gains.decay * memory * (K / 2) / constant - memory,
        out=gains.dominance * math.sqrt(wiring.latent) * math.sqrt(d / inner),
        answer=16 / math.sqrt(d),
    )
    return Constants(**{name: float(np.float32(value)) for name, value in vars(exact).items()})


def model_of(wiring: Wiring, constants: Constants, damping: float = 1.0) -> ImplicitMamba2:
    """Return the model that has the constants at the places of the wiring."""
    places = Places.of(wiring)
    check_memory(
        f"a model of d_model {places.d_model} and inner width {places.inner}",
        8 * 6 * places.d_model * places.inner,  # in_proj, injection and out_proj, in float64 and in float32
        "compile a smaller automaton",
    )
    config = ImplicitMamba2Config(
        vocabulary_size=wiring.tokens,
        output_size=len(wiring.answers),
        damping=damping,
        d_model=places.d_model,
        expand=places.expand,
        head_size=places.per_head * places.tokens,
        d_state=1,
        d_conv=1,
    )
    with Seeded(0):
        model = ImplicitMamba2(config)
    model.load_state_dict(weights_of(wiring, constants))
    return model.eval()


def weights_of(wiring: Wiring, constants: Constants) -> dict[str, Tensor]:
    """Return the weights by name, float64; their values are those of the constants, 0 and 1."""
    places = Places.of(wiring)
    n, m, tokens, d, inner = wiring.memory, wiring.latent, wiring.tokens, places.d_model, places.inner
    start, per_head, heads = places.start, places.per_head, inner // (places.per_head * tokens)
    projected = 2 * inner + 2 + heads
    reads, writes, initial, answers = (
        torch.from_numpy(np.asarray(part, np.float64))
        for part in (wiring.reads, wiring.writes, wiring.initial, wiring.answers)
    )

    # The token, one-hot, opens the gates of its channels; all others are exactly 0.
    gates = torch.zeros(projected, d).double()
    opened = gates[:inner].view(-1, tokens, d)  # [coordinates, tokens, d]
    opened[[*range(n), start], :, :tokens] = constants.gate * torch.eye(tokens).double()

    # What is written: K (sum of the latents that lead to i − ½), for every token the same.
    projection = torch.zeros(projected, d).double()
    projection[inner : inner + n * tokens].view(n, tokens, d)[:, :, :m] = constants.slope * writes[:, None]
    bias = torch.zeros(inner + 2).double()
    bias[: n * tokens] = constants.threshold
    bias[start * tokens : (start + 1) * tokens] = constants.constant
    bias[-2], bias[-1] = constants.b, constants.c
    skip = torch.full((heads,), constants.skip).double()
    skip[start // per_head] = constants.skip_start

    # From the channels of the memory and of the beginning to the latents.
    out = torch.zeros(d, inner).double()
    into = out.view(d, -1, tokens)  # [d, coordinates, tokens]
    into[:m, :n] = constants.out * reads
    into[:m, start] = constants.out * torch.einsum("mia,i->ma", reads, initial)
    embedding = torch.zeros(tokens, d).double()
    embedding[:, :tokens] = torch.eye(tokens)
    head = torch.zeros(len(answers), d).double()
    head[:, :m] = constants.answer * answers
    ones = torch.ones(d).double()
    return {
        "embedding.weight": embedding,
        "embedding_norm.weight": ones,
        "injections.0.weight": gates,
        "mixer_norms.0.weight": ones,
        "mixers.0.in_proj.weight": projection,
        "mixers.0.conv1d.weight": torch.ones(inner + 2, 1, 1).double(),
        "mixers.0.conv1d.bias": bias,
        "mixers.0.dt_bias": torch.full((heads,), constants.dt).double(),
        "mixers.0.A_log": torch.full((heads,), constants.a_log).double(),
        "mixers.0.D": skip,
        "mixers.0.norm.weight": torch.ones(inner).double(),
        "mixers.0.out_proj.weight": out,
        "latent_norm.weight": ones,
        "head.weight": head,
        "head.bias": torch.zeros(len(answers)).double(),
    }


def constants_of(model: ImplicitModel, wiring: Wiring) -> Constants:
    """Read the constants back from a model; refuse one that is not of this wiring in any one weight."""
    weights = {name: weight.detach().double() for name, weight in model.state_dict().items()}
    places = Places.of(wiring)
    like = weights_of(wiring, Constants(*[0.0] * 12))
    sizes = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name in {**like, **weights}:
        if sizes.get(name) != tuple(like.get(name, torch.empty(0)).shape):
            raise InputError(f"{name} has not the shape that this automaton is compiled to; compile it again")
    bias = weights["mixers.0.conv1d.bias"]
    at_start = places.start // places.per_head
    constants = Constants(
        gate=float(weights["injections.0.weight"].max()),
        slope=float(weights["mixers.0.in_proj.weight"].max()),
        threshold=float(bias[0]),
        constant=float(bias[places.start * places.tokens]),
        b=float(bias[-2]),
        c=float(bias[-1]),
        dt=float(weights["mixers.0.dt_bias"][0]),
        a_log=float(weights["mixers.0.A_log"][0]),
        skip=float(weights["mixers.0.D"][0]),
        skip_start=float(weights["mixers.0.D"][at_start]),
        out=float(weights["mixers.0.out_proj.weight"].max()),
        answer=float(weights["head.weight"].max()),
    )
    for name, expected in weights_of(wiring, constants).items():
        if not torch.equal(weights[name], expected):
            raise InputError(f"{name} is not what this automaton is compiled to; compile it again")
    return constants


EPSILON = 1e-5
"""ε of the norms of the block."""


def _silu(x: float) -> float:
    return x / (1 + math.exp(-x))


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))
