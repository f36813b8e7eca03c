"""Whether the weights of a run are those of a compiled automaton: read channel by channel, exactly.

It does not ask how the weights were made. A channel is told by what opens its gate, which latents it is
written by, its bias and skip, and which latent it leads to. The program is that of docs/compiled_automata.md
if, for every token, the open channels are: one for each state, written by the latents of the outcomes with
that state, leading to the outcome of state and token; and one constant, leading to that of the first state.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.certificates.certificate import Automaton, RefusedError
from analysis.certificates.checking import Weights

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
    """The numbers that the weights of a compiled automaton consist of, and the sizes.

    Example:
        `read_program` makes one.
    """

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
    """Return the numbers, if the weights are those of the automaton.

    Args:
        weights: the state dict.
        sizes: of the run's configuration.
        automaton: the table and the first state.
        answers: to every state and token.

    Raises:
        RefusedError: naming the weight that is not as it should be.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.compiled import compile_automaton
        >>> model = compile_automaton(make_task("parity"))
        >>> weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
        >>> table = [[0, 1], [1, 0]]
        >>> parity = Automaton(initial_state=0, table=table)
        >>> read_program(weights, model.config.model_dump(), parity, table).states
        2
        >>> read_program(weights, model.config.model_dump(), parity, [[1, 0], [0, 1]])
        Traceback (most recent call last):
        analysis.certificates.certificate.RefusedError: weights.head.weight: does not read ...
    """
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
    """The positive number that all entries are that are not 0."""
    values = np.unique(matrix[matrix != 0])
    if len(values) != 1 or not values[0] > 0:
        raise RefusedError(f"weights.{name}", "does not consist of 0 and one positive number")
    return float(values[0])


def _same(name: str, vector: Array) -> float:
    if not (vector == vector[0]).all():
        raise RefusedError(f"weights.{name}", "is not the same everywhere")
    return float(vector[0])
