"""Rules of figures that have more than one branch, on the stored runs with made-up values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from automata.babi import TASK_NAMES
from paper_figures.claims import Verdict
from paper_figures.figure import Variants
from paper_figures.figures.error_control import Forecast
from paper_figures.figures.few_hard_tokens import SETTINGS as HARD
from paper_figures.registry import figure_named

Made = Callable[[Any], Mapping[str, Any]]
"""Makes the values of a run of what a case says of it."""


def judged(
    name: str, made: Made, rows: Mapping[str, Any], others: Any, shared: Mapping[str, Any] | None = None
) -> Verdict:
    """Judge a figure.

    Args:
        name: of the figure.
        made: makes the values of a run.
        rows: by label, what is said of all runs, or a tuple by seed; None is a run that failed.
        others: what is said of all other runs.
        shared: in place of the stored numbers.
    """
    figure = figure_named(name)
    label = figure.runs.label if isinstance(figure.runs, Variants) else figure.label
    results, runs, seen = figure.results(), [], set()
    for run in results.runs:
        row = label(run["settings"])
        seen.add(row)
        said = rows.get(row, others)
        said = said[run["settings"]["seed"]] if isinstance(said, tuple) else said
        status, values = ("failed", {}) if said is None else ("done", made(said))
        runs.append({**run, "values": values, "status": status})
    assert set(rows) <= seen  # no row is misspelt
    return figure.verdict(replace(results, runs=runs, shared=results.shared if shared is None else shared))


def accuracy(*lengths: int) -> Made:
    return lambda share: {"accuracy": dict.fromkeys(map(str, lengths), share)}


def recipe(share: float) -> Mapping[str, Any]:
    return {**accuracy(512, 1024)(share), "accuracy_tight": accuracy(512, 1024)(share)["accuracy"]}


def right_up_to(token: int) -> Mapping[str, Any]:
    return {"by_position": [float(place < token) for place in range(32)]}


def bounded(said: Sequence[float]) -> Mapping[str, Any]:
    short, long, cost = said
    return {"accuracy": {"32": short, "512": long}, "cost": {"total": cost}}


LIMITS = ("2", "4", "8", "16", "none")
ENOUGH, AT_EIGHT, LATE, LOW, WRONG = (
    [0.2, 0.3, 1, 1, 1],
    [0.2, 0.3, 0.989, 1, 1],  # 8 leave more than a hundredth
    [0.2, 0.2, 0.5, 0.9, 1],
    [0.2, 0.2, 0.98, 0.98, 0.98],  # 8 are as good as none, not good
    [0.2] * 5,
)
"""Accuracies by limit."""


def limited(modes: Sequence[Sequence[float]]) -> Mapping[str, Any]:
    tested = {
        mode: dict(zip(LIMITS, line, strict=True))
        for mode, line in zip(("sequential", "simultaneous"), modes, strict=True)
    }
    return {"tested": {"0.1": tested, "0.5": tested}}


STEEP, SLOW, FLAT = [0.5, 0.9, 1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.6, 0.7, 0.8, 1.0], [1.0] * 6
"""Accuracies by share of the pairs with the full budget."""


def by_share(said: Sequence[Sequence[float]]) -> Mapping[str, Any]:
    """Accuracies of the hardest and of random pairs at one budget; nothing is to be gained at the others."""
    orders = dict(zip(("hardest", "random"), said, strict=True))
    return {
        order: {
            str(budget): [{"accuracy": share} for share in (line if budget == HARD.budgets[1] else FLAT)]
            for budget in HARD.budgets
        }
        for order, line in orders.items()
    }


def divergence(said: float | Sequence[float]) -> Mapping[str, Any]:
    """At the training length, and at 512 tokens."""
    trained, long = (said, said) if isinstance(said, float) else said
    return {"by_length": {"64": {"kl": {"mean": trained}}, "512": {"kl": {"mean": long}}}}


def worst(said: float | Sequence[float]) -> Mapping[str, Any]:
    likely, largest = (said, said) if isinstance(said, float) else said
    return {"likely": likely, "any": largest}


def places(last: float | None) -> list[dict[str, Any]]:
    return [{"from": 1, "to": 63, "mean": 0.02}, {"from": 64, "to": 127, "mean": last}]


def ahead_on(tasks: int) -> Mapping[str, Any]:
    """Half of the answers are right, and all of so many trained tasks; task 3 is not trained."""
    trained = [task for task in TASK_NAMES if task != 3]
    return {
        "tasks": {
            str(task): {"asked": 10, "right": 10 if task in trained[:tasks] or task == 3 else 5}
            for task in TASK_NAMES
        }
    }


BUDGETS = ("1", "8", "64")


def by_budget(modes: Sequence[Sequence[float]]) -> Mapping[str, Any]:
    return {
        mode: {"accuracy": dict(zip(BUDGETS, line, strict=True))}
        for mode, line in zip(("sequential", "simultaneous"), modes, strict=True)
    }


RISES, FALLS, HIGH = [[0.5, 1.0, 1.0]] * 2, [[0.5, 1.0, 0.97], [0.5, 1.0, 1.0]], [[0.95, 1.0, 1.0]] * 2


def more_than(said: Sequence[Sequence[float]]) -> Mapping[str, Any]:
    """Shares of the tokens that need more than 8 and than 16, to 0.01 and to 1e-4."""
    told = {"more_than_twice_the_median": 0.1, "iterations_of_hardest_tenth": 0.1}
    return {
        "tolerances": {
            tolerance: {"tokens": {"more_than": {"8": eight, "16": sixteen}, **told}}
            for tolerance, (eight, sixteen) in zip(("0.01", "0.0001"), said, strict=True)
        }
    }


FEW, MANY, NONE = (0.1, 1e-4), (0.11, 0.05), (0.05, 0.0)


def perplexities(explicit: float, bounded: float, free: float, **other: float) -> dict[str, float]:
    """By row, over all sizes."""
    named = {"explicit": explicit, "bounded": bounded, "free": free}
    return {
        f"{kind}-{family}, {size}": other.get(family, value) if kind == "free" and size == "32 x 2" else value
        for kind, value in named.items()
        for family in ("mamba2", "llama")
        for size in ("32 x 2", "64 x 2", "96 x 4")
    }


def foretold(said: Sequence[Any]) -> Mapping[str, Any]:
    failed, predicted = said
    lengths = {str(length): float(failed is None or length < failed) for length in (16, 32, 64, 128)}
    return {"accuracy": lengths, "read": 32, "predicted": predicted, "how": "reached"}


def theorem1(holds: int) -> Mapping[str, Any]:
    kind = "non-diagonal and non-linear" if holds else "diagonal and linear"
    return {"theorem1": {"counts": {"holds": holds}, "states": 64, "kind": kind}}


def held(said: int) -> Mapping[str, Any]:
    return {"course": [{"counts": {"holds": 0}}, {"counts": {"holds": said}}]}


def agreeing(said: float) -> Mapping[str, Any]:
    return {"course": [{"agree": 1.0}, {"agree": said}]}


def converged(said: Sequence[float]) -> Mapping[str, Any]:
    return {
        mode: {"share_converged": share}
        for mode, share in zip(("simultaneous", "sequential"), said, strict=True)
    }


DEEPER = {"explicit Mamba-2, 2 layers": 8, "explicit Mamba-2, 4 layers": 16}
GOOD, BAD, MIXED, CRASHED = (1.0, 1.0, 0.95), (0.5, 0.94, 0.3), (1.0, 0.94, 0.3), (1.0, 1.0, None)
CHEAP, DEAR = [1.0, 1.0, 30e6], [1.0, 1.0, 40e6]
LINEAR, PLAIN = "DeltaNet [-1, 1]", "DeltaNet [0, 1]"
RIVALS = ("LSTM", "implicit Mamba-2")
IMPLICIT = "implicit Mamba-2"
TWO, LAST = "trained on 10% hard", "LSTM, trained at 16 tokens"
FAILS = "PD-SSM, trained at 16 tokens"

STORIES = [
    f"{loss}, state {state}: {IMPLICIT}"
    for loss in ("answers", "all words")
    for state in ("carried", "reset")
]
VALUES = f"repl-3-values: {LINEAR}"
SPARSE = [f"{task}: {LINEAR}" for task in ("repl-3-values-random", "repl-3-random")]
SLOW_TRANSFORMER = "repl-3-values: Transformer, rate 0.001"

Case = tuple[Mapping[str, Any], Any, str]
"""What is said of rows, of all others, and the verdict."""
CASES: dict[str, tuple[Made, list[Case]]] = {
    "convergence": (
        converged,
        [
            ({}, [1.0, 1.0], "reproduced"),
            ({IMPLICIT: ([1.0, 1.0], [1.0, 0.99], *[[1.0, 1.0]] * 3)}, None, "partly"),
            ({IMPLICIT: ([1.0, 1.0], None, *[[1.0, 1.0]] * 3)}, None, "partly"),
            ({}, [1.0, 0.0], "not reproduced"),
        ],
    ),
    "recipes": (
        recipe,
        [
            ({}, 1.0, "reproduced"),
            ({"S5, 1,024": (0.99, 0.99, 0.99, 0.99, None)}, 1.0, "reproduced"),  # four of five
            ({"S5, 1,024": (0.99, 0.99, 0.99, 0.98, None)}, 1.0, "partly"),
            ({"parity, 512": (1.0, 1.0, 1.0, 1.0, 0.9999)}, 1.0, "partly"),  # five of five
            ({"parity, 512": 1.0}, 0.5, "partly"),
            ({}, 0.5, "not reproduced"),
        ],
    ),
    "depth": (
        right_up_to,
        [
            ({"implicit Mamba-2, 1 layer": 32, "LSTM, 1 layer": 32, **DEEPER}, 4, "reproduced"),
            ({"implicit Mamba-2, 1 layer": 32, "LSTM, 1 layer": 31, **DEEPER}, 4, "partly"),
            ({"implicit Mamba-2, 1 layer": (32, 32, 31), "LSTM, 1 layer": 32, **DEEPER}, 4, "partly"),
            ({"implicit Mamba-2, 1 layer": (32, 32, None), "LSTM, 1 layer": 32, **DEEPER}, 4, "partly"),
            ({}, 32, "partly"),  # explicit ones do as well with one layer
            ({"implicit Mamba-2, 1 layer": 32, "LSTM, 1 layer": 32}, 3, "partly"),  # not even four tokens
            ({"implicit Mamba-2, 1 layer": 31, "LSTM, 1 layer": 32, **DEEPER}, 4, "not reproduced"),
        ],
    ),
    "s5_length_generalization": (
        accuracy(32, 256),
        [
            ({"implicit Mamba-2, 1 layer": 0.99}, 0.5, "reproduced"),
            ({"implicit Mamba-2, 1 layer": 0.99, "LSTM, 1 layer": 1.0}, 0.5, "reproduced"),  # can track it
            ({"implicit Mamba-2, 1 layer": 0.99, "Transformer, 4 layers": MIXED}, 0.5, "partly"),
            ({"implicit Mamba-2, 1 layer": CRASHED}, 0.5, "partly"),
            ({"LSTM, 1 layer": 1.0}, 0.5, "not reproduced"),
        ],
    ),
    "bounded_and_free": (
        bounded,
        [
            ({"free only": DEAR}, [0.99, 0.99, 30e6], "reproduced"),  # within the tolerance
            ({"switch at 80%": ([1.0, 0.98, 30e6], *[CHEAP] * 2)}, DEAR, "partly"),
            ({"switch at 80%": ([0.98, 1.0, 30e6], *[CHEAP] * 2)}, DEAR, "partly"),
            ({"switch at 80%": CHEAP, "free only": (DEAR, DEAR, None)}, DEAR, "partly"),
            ({"switch at 80%": [0.2, 0.2, 30e6]}, [0.2, 0.2, 40e6], "partly"),  # alike, and bad
            ({}, CHEAP, "not reproduced"),  # as good, and no cheaper
            ({"switch at 50%": CHEAP}, DEAR, "not reproduced"),  # the claim is of 80%
        ],
    ),
    "few_hard_tokens": (
        by_share,
        [
            ({}, [STEEP, SLOW], "reproduced"),
            ({IMPLICIT: ([STEEP, SLOW], [SLOW, SLOW], [STEEP, SLOW])}, None, "partly"),
            ({IMPLICIT: ([STEEP, SLOW], None, [STEEP, SLOW])}, None, "partly"),
            ({}, [SLOW, SLOW], "not reproduced"),  # the hardest tenth does not suffice
            ({}, [STEEP, STEEP], "not reproduced"),  # random pairs do as well
            ({}, [FLAT, FLAT], "not reproduced"),  # nothing is to be gained
        ],
    ),
    "hard_tokens_in_training": (
        limited,
        [
            ({"trained on 10% hard": [ENOUGH, ENOUGH]}, [WRONG, WRONG], "reproduced"),
            ({}, [ENOUGH, LATE], "partly"),  # 8 sweeps do not suffice
            ({}, [LATE, ENOUGH], "partly"),
            ({"trained on 10% hard": ([ENOUGH, ENOUGH], [ENOUGH, ENOUGH], None)}, [ENOUGH, ENOUGH], "partly"),
            ({}, [AT_EIGHT, AT_EIGHT], "not reproduced"),
            ({}, [LOW, WRONG], "not reproduced"),
            ({"trained on 10% hard": [WRONG, WRONG]}, [ENOUGH, ENOUGH], "not reproduced"),
        ],
    ),
    "implicit_twins": (
        accuracy(16, 256),
        [
            ({"explicit Mamba-2": 0.98}, 0.99, "partly"),  # other explicit ones solve it
            ({}, 0.98, "not reproduced"),
        ],
    ),
    "hidden_swaps": (
        divergence,
        [
            (dict.fromkeys(RIVALS, 0.1), 0.2, "reproduced"),
            ({**dict.fromkeys(RIVALS, 0.1), LINEAR: (0.05, 0.2, 0.2)}, 0.3, "partly"),
            ({"LSTM": 0.1, IMPLICIT: 0.3}, 0.2, "partly"),
            ({"LSTM": (0.1, 0.1, 0.25), IMPLICIT: 0.1}, 0.2, "partly"),  # farther than a run
            (dict.fromkeys(RIVALS, 0.3), 0.2, "not reproduced"),
            # the linear model is chosen at the training length, not where it is compared
            ({**dict.fromkeys(RIVALS, 0.1), LINEAR: [0.05, 0.9]}, [0.06, 0.01], "reproduced"),
            ({**dict.fromkeys(RIVALS, 0.1), LINEAR: [0.05, None]}, 0.2, "reproduced"),  # infinite
            ({**dict.fromkeys(RIVALS, 0.1), "Transformer": 0.01}, 0.2, "reproduced"),
        ],
    ),
    "adversarial_beliefs": (
        worst,
        [
            (dict.fromkeys(RIVALS, 0.1), 0.2, "reproduced"),
            (dict.fromkeys(RIVALS, 0.1), 0.19, "partly"),
            ({**dict.fromkeys(RIVALS, 0.1), "Transformer": 0.01}, 0.2, "reproduced"),
            ({name: [0.3, 0.1] for name in RIVALS}, 0.2, "partly"),  # nearer on likely values, farther on any
            (dict.fromkeys(RIVALS, 0.2), 0.2, "not reproduced"),
        ],
    ),
    "belief_bridge": (
        lambda last: {"by_position": places(last)},
        [
            ({}, 0.04, "reproduced"),
            ({IMPLICIT: (0.02, 0.02, 0.05)}, 0.02, "partly"),  # a run loses the belief
            ({IMPLICIT: (0.02, 0.02, 0.6)}, 0.02, "partly"),
            ({IMPLICIT: 0.6}, 0.02, "not reproduced"),
        ],
    ),
    "catbabi": (
        ahead_on,
        [
            (dict.fromkeys(STORIES, 10), 0, "reproduced"),  # of 19
            ({STORIES[0]: 10}, 0, "partly"),
            ({STORIES[0]: 9}, 0, "not reproduced"),
            ({}, 5, "not reproduced"),
        ],
    ),
    "wikitext2": (
        lambda found: {"perplexity": found},
        [
            (perplexities(30.0, 29.0, 28.0), None, "reproduced"),
            (perplexities(30.0, 31.0, 28.0), None, "partly"),
            (perplexities(30.0, 29.0, 28.0, llama=29.5), None, "partly"),
            (perplexities(30.0, 31.0, 30.0, llama=29.5), None, "partly"),
            (perplexities(30.0, 29.0, 30.0), None, "not reproduced"),
        ],
    ),
    "wikitext2_iterations": (
        lambda found: {"perplexity": dict(zip(("1", "8", "64"), found, strict=True))},
        [
            ({}, [40.0, 30.0, 30.14], "reproduced"),
            ({"Llama, free phase": ([40.0, 30.0, 30.0], [40.0, 30.0, 30.15])}, [40.0, 30.0, 30.0], "partly"),
            ({}, [40.0, 30.0, 30.15], "not reproduced"),
        ],
    ),
    "iterations_at_test": (
        by_budget,
        [
            ({}, RISES, "reproduced"),
            ({"parity": (FALLS, RISES, RISES)}, RISES, "partly"),
            ({"parity": (HIGH, RISES, RISES)}, RISES, "partly"),  # little to gain
            ({"parity": (None, RISES, RISES)}, RISES, "partly"),
            ({}, [[1.0] * 3] * 2, "not reproduced"),
        ],
    ),
    "iterations_needed": (
        more_than,
        [
            ({}, [FEW, FEW], "reproduced"),
            ({}, [FEW, MANY], "partly"),
            ({"parity": ([FEW, FEW], [FEW, FEW], None)}, [FEW, FEW], "partly"),
            ({}, [MANY, NONE], "not reproduced"),  # more than a tenth needs 8; nobody needs 16
        ],
    ),
    "error_control": (
        foretold,
        [
            ({FAILS: [64, 40.0]}, [None, None], "reproduced"),
            ({FAILS: ([64, 40.0], [16, 12.0], [64, 40.0])}, [None, None], "reproduced"),  # read already
            ({FAILS: ([64, 40.0], [128, 33.0], [64, 40.0])}, [None, None], "partly"),
            ({FAILS: [64, 40.0], LAST: [None, 50.0]}, [None, None], "partly"),
            ({FAILS: ([64, 40.0], [64, 40.0], None)}, [None, None], "partly"),
            ({}, [64, 40.0], "partly"),  # no run lasts
            ({FAILS: [128, 33.0]}, [None, None], "not reproduced"),
            ({FAILS: [16, 12.0]}, [None, None], "not reproduced"),  # nothing was left to foretell
        ],
    ),
    "repl_traces": (
        accuracy(64),
        [
            ({VALUES: GOOD}, 0.3, "reproduced"),
            ({VALUES: GOOD, "repl-3-values: LSTM": GOOD}, 0.3, "reproduced"),
            ({VALUES: CRASHED}, 0.3, "partly"),
            ({VALUES: GOOD, f"repl-3-values: {PLAIN}": MIXED}, 0.3, "partly"),
            ({VALUES: GOOD, SLOW_TRANSFORMER: MIXED}, 0.3, "partly"),
            ({VALUES: BAD}, 0.3, "not reproduced"),
            ({f"repl-5-values: {LINEAR}": GOOD}, 0.3, "not reproduced"),
        ],
    ),
    "repl_spacing": (
        lambda share: {"tests": {test: {"64": {"accuracy": share}} for test in ("1", "4", "8", "random")}},
        [
            (dict.fromkeys(SPARSE, GOOD), 0.3, "reproduced"),
            ({f"repl-3-random: {LINEAR}": GOOD}, 0.3, "partly"),  # by one loss alone
            (dict.fromkeys(SPARSE, CRASHED), 0.3, "partly"),
            ({"repl-3-random: Transformer": 0.3}, 1.0, "partly"),  # another control does
            ({f"repl-5-random: {LINEAR}": GOOD}, 0.3, "not reproduced"),
        ],
    ),
    "puzzles": (
        lambda share: {"accuracy": {"64": share}, "baseline": {"64": 0.4}},
        [
            ({f"swap-balls-3: {LINEAR}": GOOD}, 0.3, "reproduced"),
            ({"swap-balls-3: LSTM": GOOD}, 0.3, "reproduced"),
            ({f"swap-balls-3: {LINEAR}": MIXED, "swap-balls-3: LSTM": CRASHED}, 0.3, "partly"),
            ({f"swap-balls-3: {LINEAR}": GOOD, "swap-balls-3: Transformer": MIXED}, 0.3, "partly"),
            ({f"swap-balls-3: {PLAIN}": GOOD}, 0.3, "partly"),
            ({"swap-balls-3: Transformer": GOOD, "small-programs: LSTM": GOOD}, 0.3, "not reproduced"),
        ],
    ),
    "jacobians": (
        theorem1,
        [
            ({"explicit Mamba-2": 0}, 64, "reproduced"),
            ({"explicit Mamba-2": 1}, 64, "partly"),
            ({"explicit Mamba-2": 0}, 63, "partly"),
            ({}, 0, "not reproduced"),
        ],
    ),
    "jacobians_in_training": (
        held,
        [
            ({}, 8, "reproduced"),
            ({"with window": (8, 8, 7)}, 8, "partly"),
            ({"with window": (8, 8, None)}, 8, "partly"),
            ({}, 0, "not reproduced"),
        ],
    ),
    "agreement_in_training": (
        agreeing,
        [
            ({}, 0.976, "reproduced"),
            ({"S3": (1.0, 0.975, 1.0)}, 1.0, "partly"),
            ({"S3": (1.0, None, 1.0)}, 1.0, "partly"),
            ({}, 0.975, "not reproduced"),
        ],
    ),
}


ALL = [
    pytest.param(name, made, *case, id=f"{name}-{number}-{case[-1]}")
    for name, (made, of_figure) in CASES.items()
    for number, case in enumerate(of_figure)
]


@pytest.mark.parametrize(("name", "made", "rows", "others", "word"), ALL)
def test_the_verdict_follows_its_rule(
    name: str, made: Made, rows: Mapping[str, Any], others: Any, word: str
) -> None:
    shared = {"filters": {"linear float32": places(0.5)}} if name == "belief_bridge" else None
    assert judged(name, made, rows, others, shared).word == word


def test_a_filter_that_loses_everything_is_infinitely_far() -> None:
    lost = {"filters": {"linear float32": places(None)}}
    assert judged("belief_bridge", CASES["belief_bridge"][0], {}, 0.03, lost).word == "reproduced"


@pytest.mark.parametrize(
    ("failed", "predicted", "counts", "right"),
    [
        (64, 32.0, True, True),  # a factor of two
        (64, 31.9, True, False),
        (64, 128.0, True, True),
        (64, 129.0, True, False),
        (64, None, True, False),
        (32, 30.0, False, True),  # fails at a length that was read
        (None, None, True, True),
        (None, 40.0, True, False),
        (None, 5000.0, True, True),  # beyond the longest length that was tested
    ],
)
def test_a_forecast_is_right_to_a_factor_of_two(
    failed: int | None, predicted: float | None, counts: bool, right: bool
) -> None:
    forecast = Forecast.of(foretold([failed, predicted]))
    assert (forecast.failed, forecast.counts, forecast.right) == (failed, counts, right)
    assert not Forecast.of({**foretold([None, None]), "how": "too short"}).right
