"""The Bayes filter of a probabilistic automaton, in the weights of the published implicit Mamba-2 block.

| symbol | what                                                                                          |
|--------|-----------------------------------------------------------------------------------------------|
| n, m   | states of the automaton; observations: actions, and values of reveals                          |
| d, N   | d_model, at least n and m; the inner width, at least (2n + 1) m                                 |
| N_y    | operator of observation y: b ← N_y b / 1ᵀN_y b                                                 |
| (i, y, ±) | a channel of the inner width: state i, for the case that y is observed, with either sign   |
| (0, y) | a channel for the beginning, for the case that y is observed                                   |

The latent of a token is a positive multiple of the belief after it. The short convolution reads the latent
of the token *before*: silu(K ẑᵢ) in channel (i, y, +) and silu(−K ẑᵢ) in (i, y, −), whose difference is K ẑᵢ,
since silu(u) − silu(−u) = u. The gates are open for the observation, the norm divides, and out_proj holds the
operators. The SSM's own state is not used: B and C are 0. docs/compiled_automata.md has the proof.
"""

import math

import torch
from torch import Tensor

from automata.checks import check_memory, check_type
from automata.errors import InputError
from implicit.compiled.weights import EPSILON
from implicit.fixed_point.solvers import check_damping
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from implicit.modes.solve import Solve
from implicit.seeded import Seeded
from theory.belief.filters import BayesFilter

SLOPE = 16.0
"""K, from a coordinate of the latent's direction to its channels."""
CLOSED = -800.0
"""Input of the channels of the beginning after the first token: its silu is 0 in floats."""
DOMINANCE = 2.0**20
"""R, out_proj's entry times √(N/d)."""


def compile_bayes_filter(exact: BayesFilter, *, damping: float = 1.0) -> ImplicitMamba2:
    """Return an implicit Mamba-2 model of one layer whose latents are multiples of the exact beliefs.

    In exact arithmetic every iterate of a token, from the first on, is a positive multiple of the belief,
    after every sequence of observations that can occur. All tokens together, that holds for as many tokens as
    there were sweeps; the others wait at 0. After a sequence that cannot occur the latent is 0. Nothing is
    proved of floats. InputError for something else than a filter, numbers that are negative or not finite, a
    damping outside of (0, 1], or a filter that is too large for the memory.

    The tokens are the numbers of `BayesFilter.observations`. The model is float64, in evaluation mode; its
    largest logit is at a likeliest state. Solve it with an absolute tolerance of 0, the default: with another
    one the start, 0, may already do.

    Example:
        A coin that a flip turns over with probability 0.9; looking shows it.

        >>> coin = BayesFilter([1.0, 0.0], [[[0.1, 0.9], [0.9, 0.1]]], [[0, 1]])
        >>> model = compile_bayes_filter(coin)
        >>> observations = coin.observations([[0, 0, 1, 0]], [[-1, -1, 1, -1]])
        >>> [[round(p, 12) for p in b] for b in latent_beliefs(model, observations)[0].tolist()]
        [[0.1, 0.9], [0.82, 0.18], [0.0, 1.0], [0.9, 0.1]]
    """
    check_type("exact", exact, BayesFilter, "give a BayesFilter")
    check_damping(damping)
    n, observations = len(exact.initial), len(exact.operators)
    width = max(n, observations)
    expand = math.ceil((2 * n + 1) * observations / width)
    check_memory(
        f"a model of d_model {width} and inner width {expand * width}",
        8 * 10 * width * expand * width,  # in_proj, injection and out_proj, and the copy they are loaded from
        "compile a filter of fewer states or observations",
    )
    config = ImplicitMamba2Config(
        vocabulary_size=observations,
        output_size=n,
        damping=damping,
        d_model=width,
        expand=expand,
        head_size=width,
        d_state=1,
        d_conv=2,
    )
    with Seeded(0):
        model = ImplicitMamba2(config).double()
    model.load_state_dict(_weights(exact, config))
    return model.eval().without_kernels()


def latent_beliefs(model: ImplicitMamba2, observations: Tensor, solve: Solve | None = None) -> Tensor:
    """Return the beliefs that the latents of a compiled filter are multiples of, after every token.

    Observations are numbers, ``[batch, tokens]``; beliefs are latents over their sums, ``[batch, tokens,
    states]``. They are zeros, which is no belief, from an observation on that cannot occur, and where the
    iteration did not get to (see ``converged`` of the model's solution). The model solves its own way if
    ``solve`` is None. InputError for a model whose head is not that of a compiled filter.
    """
    check_type("model", model, ImplicitMamba2, "give one from compile_bayes_filter")
    head = torch.eye(model.config.output_size, model.config.d_model, dtype=model.head.weight.dtype)
    if not torch.equal(model.head.weight.detach().cpu(), head):
        raise InputError("model was not compiled from a filter; give one from compile_bayes_filter")
    with torch.no_grad():
        solution = model.run(observations, solve=solve or Solve()).solution
    assert solution is not None  # the model is implicit
    latents = solution.latents[..., : model.config.output_size]
    mass = latents.sum(dim=-1, keepdim=True)
    return latents / torch.where(mass > 0, mass, 1.0)


def _weights(exact: BayesFilter, config: ImplicitMamba2Config) -> dict[str, Tensor]:
    """The weights by name, float64."""
    n, observations, d = len(exact.initial), len(exact.operators), config.d_model
    inner, heads, signed = config.expand * d, config.expand, 2 * n
    embedded = math.sqrt(d / (1 + d * EPSILON))  # the entry of a one-hot embedding after its norm
    used = (signed + 1) * observations

    injection = torch.zeros(2 * inner + 2 + heads, d).double()
    gates = injection[:used].view(signed + 1, observations, d)
    gates[:, :, :observations] = math.sqrt(inner) / embedded * torch.eye(observations).double()
    start = slice(inner + signed * observations, inner + used)
    injection[start, :observations] = 1 / embedded  # 1 whatever is observed

    projection = torch.zeros(2 * inner + 2 + heads, d).double()
    channels = projection[inner : inner + signed * observations].view(2, n, observations, d)
    slope = SLOPE / math.sqrt(d) * torch.eye(n).double()
    channels[0, :, :, :n], channels[1, :, :, :n] = slope[:, None], -slope[:, None]

    kernel = torch.zeros(inner + 2, 1, 2).double()
    kernel[:, 0, 0] = 1.0  # the token before
    kernel[signed * observations : used, 0, 0] = CLOSED - 1
    bias = torch.zeros(inner + 2).double()
    bias[signed * observations : used] = 1.0

    out = torch.zeros(d, inner).double()
    into = out[:, :used].view(d, signed + 1, observations)
    operators = DOMINANCE * math.sqrt(d / inner) * exact.operators.permute(1, 2, 0)  # [to, from, observation]
    into[:n, :n], into[:n, n:signed] = operators, -operators
    into[:n, signed] = torch.einsum("jiy,i->jy", operators, exact.initial)

    embedding = torch.eye(observations, d).double()
    ones = torch.ones(d).double()
    return {
        "embedding.weight": embedding,
        "embedding_norm.weight": ones,
        "injections.0.weight": injection,
        "mixer_norms.0.weight": ones,
        "mixers.0.in_proj.weight": projection,
        "mixers.0.conv1d.weight": kernel,
        "mixers.0.conv1d.bias": bias,
        "mixers.0.dt_bias": torch.zeros(heads).double(),
        "mixers.0.A_log": torch.zeros(heads).double(),
        "mixers.0.D": torch.ones(heads).double(),
        "mixers.0.norm.weight": torch.ones(inner).double(),
        "mixers.0.out_proj.weight": out,
        "latent_norm.weight": ones,
        "head.weight": torch.eye(n, d).double(),
        "head.bias": torch.zeros(n).double(),
    }
