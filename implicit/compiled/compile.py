"""From an automaton to the weights of an implicit Mamba-2 model that tracks it on words of every length.

| symbol | what                                                                                        |
|--------|---------------------------------------------------------------------------------------------|
| n, m   | coordinates of the memory (states) and of the latent (outcomes of a token), see `Wiring`     |
| d      | d_model, at least m and the number of tokens                                                 |
| (i, a) | a channel of the inner width: coordinate i of the memory, for the case that the token is a   |
| κ      | C Δ B, what one token adds to C h                                                            |

A head of the cell holds some coordinates i with their channels (i, a) for all tokens a; one more head holds
constants for the beginning. docs/compiled_automata.md has the proof.
"""

import math
from typing import TypeAlias

import torch

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.mealy import MealyMachine
from automata.monoids.monoid import Monoid
from automata.tasks.interface import Task
from automata.tasks.word_problem import WordProblem
from implicit.compiled.gains import Gains
from implicit.compiled.wiring import Wiring
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config

AnyMachine: TypeAlias = DFA | MealyMachine | Monoid | Task
"""What can be compiled: anything that has a table of transitions and answers."""


def compile_automaton(
    automaton: AnyMachine, gains: Gains | None = None, *, damping: float = 1.0
) -> ImplicitMamba2:
    """Return an implicit Mamba-2 model of one layer that answers as an automaton does, on every word.

    Args:
        automaton: a `DFA` (the answer is whether the word read so far is accepted), a `MealyMachine` (its
            answers), a `Monoid` (every element is a token, the answer is the product), or a task that knows
            its machine, such as a word problem.
        gains: how strongly the parts act.
        damping: of the iteration, in (0, 1].

    Returns:
        The model in evaluation mode, float32.

    Raises:
        InputError: for something else, or a task without a machine.

    Example:
        >>> from automata.machines.named_dfas import modular_counter_dfa
        >>> from automata.tasks import make_task
        >>> model = compile_automaton(make_task("parity"))
        >>> model(torch.tensor([[1, 0, 1, 1]])).argmax(-1).tolist()
        [[1, 1, 0, 1]]
    """
    machine, classes = machine_of(automaton)
    return weights_of(Wiring.one_hot(machine, classes), gains or Gains(), damping)


def machine_of(automaton: AnyMachine) -> tuple[MealyMachine, int]:
    """Return the machine with the answers that a compiled model gives, and the number of answers.

    Raises:
        InputError: for something else than `compile_automaton` takes.

    Example:
        >>> machine, classes = machine_of(DFA.from_table([[0, 1], [1, 0]], accepting=[0]))
        >>> machine.read([[1, 0, 1, 1]]).tolist(), classes
        ([[0, 0, 1, 0]], 2)
    """
    if isinstance(automaton, DFA):
        accepts = automaton.accepting_mask.astype(int)
        return MealyMachine(automaton.table, accepts[automaton.table], automaton.initial_number), 2
    if isinstance(automaton, MealyMachine):
        return automaton, int(automaton.answers.max()) + 1
    if isinstance(automaton, Monoid):
        automaton = WordProblem.from_monoid(automaton)
    if not isinstance(automaton, Task):
        raise InputError(
            f"automaton is of type {type(automaton).__name__}; give a DFA, a MealyMachine, a Monoid or a task"
        )
    machine = automaton.machine()
    if machine is None:
        raise InputError(f"task {automaton.name!r} has no machine that gives its answers; give one that has")
    return machine, automaton.output_size


def sizes_of(wiring: Wiring) -> dict[str, int]:
    """Return sizes of the block that hold a wiring.

    A head has about √n coordinates of the memory with a channel for each token, so that there are about √n
    heads, and one more for the beginning; the inner width is a multiple of d_model.

    Example:
        >>> from automata.tasks import make_task
        >>> sizes = sizes_of(Wiring.one_hot(machine_of(make_task("S3"))[0]))
        >>> sizes["d_model"], sizes["expand"], sizes["head_size"]
        (8, 6, 12)
    """
    per_head = max(1, math.isqrt(wiring.memory))
    coordinates = per_head * (math.ceil(wiring.memory / per_head) + 1)
    if wiring.tokens >= max(wiring.latent, coordinates):
        d_model, expand = wiring.tokens, coordinates
    else:
        smallest = max(coordinates, wiring.latent, wiring.tokens)
        d_model, expand = per_head * math.ceil(smallest / per_head), wiring.tokens
    return {
        "d_model": d_model,
        "layers": 1,
        "expand": expand,
        "d_state": 1,
        "head_size": per_head * wiring.tokens,
        "d_conv": 1,
        "groups": 1,
    }


def weights_of(wiring: Wiring, gains: Gains, damping: float = 1.0) -> ImplicitMamba2:
    """Return the model of a wiring.

    Example:
        >>> wiring = Wiring.one_hot(MealyMachine([[0]], [[0]]))
        >>> weights_of(wiring, Gains()).parameter_count()
        63
    """
    config = ImplicitMamba2Config(
        vocabulary_size=wiring.tokens,
        output_size=len(wiring.answers),
        damping=damping,
        **sizes_of(wiring),
    )
    with torch.random.fork_rng(devices=[]):
        model = ImplicitMamba2(config).double()
    n, m, tokens, d = wiring.memory, wiring.latent, wiring.tokens, config.d_model
    cell = model.mixers[0]
    inner, per_head = cell.d_inner, cell.head_size // tokens
    used, start = n * tokens, per_head * math.ceil(n / per_head)
    K, R = gains.sharpness, gains.dominance
    written = K / 2
    writes, reads = torch.from_numpy(wiring.writes).double(), torch.from_numpy(wiring.reads).double()
    initial = torch.from_numpy(wiring.initial).double()
    constant = _silu(1.0)
    memory = constant * constant  # κ = C Δ B, with Δ = 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for norm in (model.embedding_norm, model.latent_norm, model.mixer_norms[0], cell.norm):
            norm.weight.fill_(1)
        # The token, one-hot, opens the gates of its channels: all others are exactly 0.
        model.embedding.weight[:, :tokens] = torch.eye(tokens)
        opened = math.sqrt(inner)
        gates = model.injections[0].weight[:inner].view(-1, tokens, d)  # [coordinates, tokens, d]
        gates[[*range(n), start], :, :tokens] = opened / math.sqrt(d) * torch.eye(tokens, dtype=torch.float64)
        # What is written: K (sum of the latents that lead to i − ½), the same for all tokens.
        rows = cell.in_proj.weight[inner : inner + used].view(n, tokens, d)
        rows[:, :, :m] = (K / math.sqrt(d) * writes)[:, None]
        cell.conv1d.weight.fill_(1)
        cell.conv1d.bias[:used] = -K / 2
        cell.conv1d.bias[start * tokens : (start + 1) * tokens] = 1  # the constants of the beginning
        cell.conv1d.bias[-2:] = 1  # B and C
        cell.dt_bias.fill_(math.log(math.expm1(1)))  # Δ = 1
        cell.A_log.fill_(math.log(-math.log(gains.decay)))
        cell.D.fill_(-memory)
        cell.D[start // per_head] += gains.start * gains.decay * memory * written / constant
        # From the channels of the memory and of the beginning to the latent.
        scale = R * math.sqrt(d / inner)
        into = cell.out_proj.weight.view(d, -1, tokens)
        into[:m, :n] = scale * reads
        into[:m, start] = scale * torch.einsum("mia,i->ma", reads, initial)
        model.head.weight[:, :m] = torch.from_numpy(wiring.answers).double() / math.sqrt(d) * 16
    return model.float().eval()


def _silu(x: float) -> float:
    return x / (1 + math.exp(-x))
