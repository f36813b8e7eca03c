"""The figures of docs/belief.md: predicted and measured decay, underflow, rescaling, worst sequences.

``python -m theory.belief`` prints them. Predicted figures hold for any seed, measured ones for the seed
given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from automata.checks import check_integer
from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.named_pfsas import hidden_permutations, lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.probabilistic.scope import marginal_scope
from theory.belief.adversary import MarginalPredictor, confusion_radius, sequence_errors, worst_sequence
from theory.belief.decay import DecayRate, decay_rate, worst_decay
from theory.belief.reachable import TokenSource, belief_chain, check_source
from theory.belief.rescaling import best_gains, edge_gains, exit_length, exit_lengths, format_range
from theory.belief.underflow import observed_underflow, predicted_underflow


@dataclass(frozen=True, eq=False)
class Case:
    """An automaton with the law of its tokens."""

    name: str  # as the tables show it
    automaton: ProbabilisticAutomaton  # with its reveals
    source: TokenSource  # of its tokens


def cases() -> list[Case]:
    """Return the automata of the tables."""
    parity, three, quarter, four, half = (
        noisy_parity(0.1),
        lazy_swaps(3, 0.5),
        lazy_swaps(3, 0.25),
        lazy_swaps(4, 0.3),
        lazy_swaps(4, 0.5),
    )
    weather = ProbabilisticAutomaton(
        ["rain", "cloud", "sun"],
        [1, 0, 0],
        {
            "night": [[0.5, 0.0, 0.1], [0.25, 0.0, 0.2], [0.25, 1.0, 0.7]],
            "day": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
        },
        {"light": ["dim", "dim", "bright"]},
    )
    fixed, independent = TokenSource.fixed_period, TokenSource.independent
    return [
        Case("parity, 1 of 10 fails; 3 actions, full", parity, fixed(parity, 3)),
        Case("3 variables, swaps ½; 1 action, partial", three, fixed(three, 1, three.reveals[1:])),
        Case("3 variables, swaps ¼; independent ⅓, full", quarter, independent(quarter, 1 / 3, ["all"])),
        Case("4 variables, swaps 0.3; 2 actions, full", four, fixed(four, 2, ["all"])),
        Case("4 variables, swaps ½; 1 action, partial", half, fixed(half, 1, half.reveals[1:])),
        Case("weather, 3 states; 2 actions, partial", weather, fixed(weather, 2)),
    ]


@dataclass(frozen=True)
class MeasuredDecay:
    """The decrease of the log-mass per reveal along sampled traces."""

    mean: float  # in nats
    error: float  # its standard error, between sequences


def measured_decay(
    automaton: ProbabilisticAutomaton,
    source: TokenSource,
    sequences: int,
    length: int,
    rng: np.random.Generator,
) -> MeasuredDecay:
    """Measure the decay with the logarithmic filter, which shares no code with the predictions.

    InputError if the source is none of this automaton's or draws no reveal in this length, or there are fewer
    than 2 sequences.

    Example:
        >>> automaton = noisy_parity(0.1)
        >>> source = TokenSource.fixed_period(automaton, 1)
        >>> found = measured_decay(automaton, source, 50, 200, np.random.default_rng(0))
        >>> abs(found.mean - decay_rate(automaton, source).rate) < 3 * found.error
        True
    """
    check_integer("sequences", sequences, 2)
    check_integer("length", length, 1)
    check_source(automaton, source, reveals=True)
    tokens = source.sample(sequences, length, rng)
    _, values = automaton.sample(tokens, rng)
    losses = -automaton.log_likelihood(tokens, values)
    reveals = (tokens >= len(automaton.actions)).sum(axis=1)
    if not reveals.any():
        raise InputError(f"length is {length}, and no token drawn is a reveal; give a greater one")
    mean = float(losses.sum() / reveals.sum())
    error = np.std(losses - mean * reveals, ddof=1) / np.sqrt(sequences) / reveals.mean()
    return MeasuredDecay(mean, float(error))


def decay_report(
    chosen: Sequence[Case] | None = None, sequences: int = 200, length: int = 1200, seed: int = 0
) -> str:
    """Return the table of predicted decay per reveal, in nats, and that of sampled traces of so many tokens.

    Example:
        >>> print(decay_report(cases()[:2], 50, 400))
        | automaton; tokens | method | predicted | measured | difference |
        | --- | --- | --- | --- | --- |
        | parity, 1 of 10 fails; 3 actions, full | finite beliefs | 0.3681 | 0.3... ± 0.0... | ...% |
        | 3 variables, swaps ½; 1 action, partial | finite beliefs | 0.5941 | 0.59... ± 0.00... | ...% |
    """
    rows = []
    for case in cases() if chosen is None else chosen:
        rate = decay_rate(case.automaton, case.source, precision=1e-2)
        rng = np.random.default_rng(seed)
        found = measured_decay(case.automaton, case.source, sequences, length, rng)
        off = f"{100 * (found.mean / rate.rate - 1):+.2f}%"
        rows.append([case.name, rate.method, _shown(rate), f"{found.mean:.4f} ± {found.error:.4f}", off])
    return _table(["automaton; tokens", "method", "predicted", "measured", "difference"], rows)


def underflow_report(sequences: int = 32, seed: int = 0) -> str:
    """Return the table of the numbers of reveals until the linear filter leaves a format."""
    rows = []
    for case in cases()[:4:3]:
        rate = decay_rate(case.automaton, case.source).rate
        reveals = case.source.reveals_per_token(case.automaton)
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            subnormal, zero = predicted_underflow(rate, dtype)
            longest = int(1.6 * zero / reveals) + 20
            found = observed_underflow(
                case.automaton, case.source, dtype, sequences, longest, np.random.default_rng(seed)
            )
            inaccurate = found.inaccurate[found.inaccurate >= 0]
            rows.append(
                [
                    case.name,
                    str(dtype).removeprefix("torch."),
                    f"{subnormal:.0f}",
                    _mean(found.subnormal),
                    f"{zero:.0f}",
                    _mean(found.zero),
                    _mean(inaccurate) if len(inaccurate) == sequences else "not all",
                    f"{found.early_error:.1e}",
                ]
            )
    head = ["automaton; tokens", "format", "subnormal from", "observed", "zero from", "observed"]
    return _table([*head, "5% off from", "off before, mean"], rows)


def rescaling_report(sequences: int = 100, seed: int = 0) -> str:
    """Return the table of variances that gains leave, and how many tokens they carry float32."""
    rows = []
    low, high = format_range(torch.float32)
    for case in cases()[:4]:
        chain = belief_chain(case.automaton, case.source)
        if chain is None or chain.largest_merge > 1e-14:
            continue
        gains = best_gains(chain)
        rate = decay_rate(case.automaton, case.source).rate
        without = low / (rate * case.source.reveals_per_token(case.automaton))
        predicted = exit_length(gains.per_observation, torch.float32)
        found = exit_lengths(
            chain,
            edge_gains(chain, gains),
            low,
            high,
            sequences,
            int(10 * predicted),
            np.random.default_rng(seed),
        )
        rows.append(
            [
                case.name,
                f"{gains.per_reveal:.4f}",
                f"{gains.per_observation:.4f}",
                f"{without:.0f}",
                f"{exit_length(gains.per_reveal, torch.float32):.0f}",
                f"{predicted:.0f}",
                _mean(torch.from_numpy(found)),
            ]
        )
    head = ["automaton; tokens", "V, constant gain", "V, best gain", "tokens without gain"]
    return _table([*head, "constant gain", "best gain", "best gain, observed"], rows)


def worst_report() -> str:
    """Return the table of the fastest decay, and of what marginals get wrong."""
    rows = []
    for case in (cases()[0], cases()[1], cases()[3]):
        chain = belief_chain(case.automaton, case.source)
        assert chain is not None
        worst, rate = worst_decay(chain), decay_rate(case.automaton, case.source).rate
        rows.append([case.name, f"{rate:.4f}", f"{worst.rate:.4f}", f"{worst.rate / rate:.1f}"])
    decay = _table(["automaton; tokens", "mean decay", "fastest", "ratio"], rows)

    turn = {(1, 2, 3): 1 / 3, (2, 3, 1): 1 / 3, (3, 1, 2): 1 / 3}
    swap = {(1, 2, 3): 0.5, (2, 1, 3): 0.5}
    confused = {
        "3 variables, rotation and swap": hidden_permutations(3, {"turn": turn, "swap": swap}),
        "3 variables, swaps ¼": lazy_swaps(3, 0.25),
        "4 variables, swaps ½": lazy_swaps(4, 0.5),
    }
    rows = []
    for name, automaton in confused.items():
        names = automaton.reveals[1:]
        tokens = [*automaton.actions, *names]
        found = marginal_scope(automaton, names, 4, tokens).confusion
        condition = MarginalPredictor(MarginalFilter(automaton, names, "condition"))
        balance = MarginalPredictor(MarginalFilter(automaton, names, "balance"))
        errors = [
            f"{worst_sequence(automaton, predictor, 8, beam=100, tokens=tokens).total:.4f}"
            for predictor in (condition, balance)
        ]
        if found is None:
            rows.append([name, "no pair", "no pair", *errors])
            continue
        at_pair = max(
            sequence_errors(automaton, balance, [*history, found.observation, (asked, "")])[-1]
            for history in (found.first, found.second)
            for asked in names
        )
        rows.append([name, f"{confusion_radius(found):.4f}", f"{at_pair:.4f}", *errors])
    head = ["automaton", "any function of P, at least", "balance at the pair"]
    head += ["condition, search over 8 tokens", "balance, the same"]
    return decay + "\n\n" + _table(head, rows)


def _shown(rate: DecayRate) -> str:
    if rate.upper - rate.lower < 5e-5:
        return f"{rate.rate:.4f}"
    return f"{rate.lower:.4f} … {rate.upper:.4f}"


def _mean(counts: torch.Tensor) -> str:
    known = counts.double()
    return f"{known.mean():.0f} ± {known.std() / len(known) ** 0.5:.0f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
