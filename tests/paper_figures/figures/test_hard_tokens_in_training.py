"""Few hard tokens in training: grid and tests, what is measured, drawing, caption and verdict."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.framework.needs import word_problem_of
from analysis.framework.output import RunIdentity
from automata.monoids.groups import reset_monoid, symmetric_group
from automata.monoids.monoid import direct_product
from automata.tasks.registry import make_task
from implicit import Solve, Stopping
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import hard_tokens_in_training, hard_tokens_on_a5
from paper_figures.figures.figure import Results
from paper_figures.figures.hard_tokens_experiments import FULL, ON_A5, ON_S3, full_cost, tokens_trained
from paper_figures.figures.hard_tokens_measured import MODES, HardTrainingSettings, effort, measure
from paper_figures.figures.hard_tokens_told import caption, draw, judge
from paper_figures.stored_results import StoredResults
from tests.drawn_figures import SUM_ORDER, WIDTHS, faults, panel

POINTS = ON_S3.points
LIMITS = ("2", "4", "8", "16", "none")
IDENTITY = RunIdentity("run", "S3xM", "implicit-mamba2", 10, 32, 0, "0" * 64)
SMALL = HardTrainingSettings(limits=(1, 3), length=12, shorter=(6,), sequences=8, swept_sequences=4)
RIGHT, AT_EIGHT, LATE, WRONG = (
    [0.2, 0.3, 1, 1, 1],
    [0.2, 0.3, 0.989, 1, 1],
    [0.2, 0.2, 0.5, 0.9, 1],
    [0.2] * 5,
)
"""Accuracies by limit: 8 suffice, 8 leave more than a hundredth, 8 leave half, nothing does."""


def outcome(point: Point, sequential: Sequence[float], simultaneous: Sequence[float]) -> Outcome:
    """The accuracies are those at 0.5; at 0.1 everything is right."""
    value: dict[str, Any] = {}
    for fraction, lines in (("0.1", ([1.0] * 5,) * 2), ("0.5", (sequential, simultaneous))):
        value[fraction] = {
            "sequential": dict(zip(LIMITS, lines[0], strict=True)),
            "simultaneous": dict(zip(LIMITS, lines[1], strict=True)),
            "iterations": {"all": 8.0, "easy": 7.0 + point.seed, "hard": 9.0 + point.seed},
            "share_above": {"2": 1.0, "4": 0.75, "8": 0.5, "16": 0.125},
            "share_converged": 0.875,
            "by_length": {"256": sequential[-1]},
        }
    (measurement,) = ON_S3.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1136.64),
        "limits": Record.done(point, measurement, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """Everything is as claimed, but for the runs trained on 2%."""
    lines = {0.02: WRONG}
    return hard_tokens_in_training.collect(
        [outcome(point, *[lines.get(point.all_settings["hard_fraction"], RIGHT)] * 2) for point in POINTS]
    )


@pytest.mark.parametrize(("experiment", "longest"), [(ON_S3, 32), (ON_A5, 40)])
def test_the_same_training_for_every_share_and_three_seeds(experiment: Experiment, longest: int) -> None:
    configs = [point.config for point in experiment.points]
    assert [(config.hard_fraction, config.seed) for config in configs] == [
        (share, seed) for share in (0.02, 0.1, 0.5, 1.0) for seed in range(3)
    ]
    others = [config.model_dump(exclude={"hard_fraction", "seed"}) for config in configs]
    assert all(other == others[0] for other in others)
    assert configs[0].curriculum.growth_accuracy is None  # no length depends on a model's accuracy
    # lengths 8, 16, ..., 300 updates each, of 64 sequences, and the longest in the others
    shorter = range(8, longest, 8)
    tokens = 64 * (300 * sum(shorter) + (6000 - 300 * len(shorter)) * longest)
    assert tokens_trained(configs[0]) == tokens


def test_full_size_is_the_setting_of_the_paper() -> None:
    points = FULL.points
    text = caption(hard_tokens_in_training.collect([Outcome(point, {}, complete=False) for point in points]))
    assert "on A5 times a memory with three resets, 240 tokens," in text
    # written out from the authors' public code
    assert (
        "All models: 16,384 updates of 512 sequences of 256 tokens, width 256; the first 4,005 updates "
        "through 4 unrolled self-iterations, the others through at most 32 to a relative tolerance of 0.05 "
        "and phantom gradients of 4 steps. No penalty on the self-map, no state passing. Sequentially" in text
    )
    assert "S3" not in text
    assert len(points) == 18  # six shares of hard tokens
    config = points[0].config
    assert (config.task, config.length, config.batch_size * config.steps) == ("A5xM", 256, 2**23)
    assert config.build_task().vocabulary_size == 240


def test_cost_is_by_tokens_and_weights() -> None:
    """Weights of a cell by hand: projections in and out, convolution with bias, norm, and three per head."""

    def weights(d_model: int, inner: int, d_state: int, heads: int, taps: int) -> int:
        convolution = (inner + 2 * d_state) * (taps + 1)
        return d_model * (2 * inner + 2 * d_state + heads) + inner * d_model + convolution + inner + 3 * heads

    for experiment, ours in ((ON_S3, weights(32, 64, 16, 4, 2)), (ON_A5, weights(64, 128, 32, 4, 2))):
        ratio = weights(256, 1024, 128, 16, 4) / ours
        cost = full_cost(1e-6, experiment)
        assert cost["weights_ratio"] == ratio
        assert cost["days"] == pytest.approx(2**31 * 1e-6 * ratio / 86400)


def test_the_best_answer_without_a_state_is_a_guess_among_six(found: Results) -> None:
    for fraction in ("0.1", "0.5"):
        # after 248 tokens the element of S3 is uniform to 1e-9 even at 0.1; the memory shows in the last 8
        # tokens but for (1/4)^8
        assert found["shortcuts"][fraction]["accuracy"] == pytest.approx(1 / 6, abs=1e-4)


def test_measures_the_task_with_another_share_of_hard_tokens(untrained: Callable[[Point], Run]) -> None:
    """Against the products of the tokens, computed by the monoid, and one call of the model per limit."""
    run = untrained(POINTS[3])
    assert word_problem_of(run).hard_fraction == 0.1
    found = measure(run, SMALL)
    assert list(found) == ["0.1", "0.5"]
    monoid = direct_product(symmetric_group(3), reset_monoid(3))
    for fraction, measured in found.items():
        tokens = draw_batch(make_task("S3xM", float(fraction)), 8, 12, SMALL.seed, Stream.TEST, 0).tokens
        states = torch.tensor(
            [[monoid.multiply(*word[: k + 1]) for k in range(12)] for word in tokens.tolist()]
        )
        for mode, count in zip(MODES, (8, 4), strict=True):
            for name, limit in (("1", 1), ("3", 3), ("none", 2048)):
                solve = Solve(mode, stopping=Stopping(rtol=SMALL.rtol, max_iterations=limit))
                with torch.no_grad():
                    output = run.model.run(tokens[:count], solve=solve)
                right = (output.logits.argmax(dim=-1) == states[:count]).double()
                assert measured[mode][name] == pytest.approx(right[:, -10:].mean().item(), rel=SUM_ORDER)
                if (mode, name) == ("sequential", "none"):
                    expected = [right[:, :6].mean().item(), right[:, -10:].mean().item()]
                    assert [*measured["by_length"].values()] == pytest.approx(expected, rel=SUM_ORDER)
                    assert output.solution is not None
                    iterations = output.solution.iterations.double()
                    moving = tokens // 4 != 0  # the identity of S3 has number 0
                    assert measured["iterations"]["hard"] == pytest.approx(iterations[moving].mean().item())
                    assert measured["share_above"]["3"] == (iterations > 3).double().mean().item()


def test_effort_by_hand() -> None:
    iterations, easy = torch.tensor([[2, 4], [6, 20]]), torch.tensor([[True, True], [True, False]])
    assert effort(iterations, easy, (4, 16)) == {
        "iterations": {"all": 8.0, "easy": 4.0, "hard": 20.0},
        "share_above": {"4": 0.5, "16": 0.25},
    }
    assert effort(iterations, torch.ones_like(easy), (4,))["iterations"]["hard"] is None


@pytest.mark.parametrize(
    ("sequential", "simultaneous", "word"),
    [
        (RIGHT, RIGHT, "reproduced"),
        (RIGHT, LATE, "partly"),  # 8 sweeps do not suffice
        (LATE, RIGHT, "partly"),
        (AT_EIGHT, AT_EIGHT, "not reproduced"),  # 0.989 with 8 is more than 0.01 below 1
        (LATE, LATE, "not reproduced"),
        (WRONG, WRONG, "not reproduced"),
        (
            [0.2, 0.2, 0.98, 0.98, 0.98],
            WRONG,
            "not reproduced",
        ),  # 8 are as good as none, not good
    ],
)
def test_verdicts(sequential: Sequence[float], simultaneous: Sequence[float], word: str) -> None:
    collected = hard_tokens_in_training.collect(
        [outcome(point, sequential, simultaneous) for point in POINTS[3:6]]
    )
    assert judge(collected).word == word


def test_only_the_runs_of_the_claim_count_and_a_failed_one_does(found: Results) -> None:
    verdict = judge(found)
    assert verdict.word == "reproduced"  # those of 2% are wrong everywhere
    assert verdict.because.endswith(
        "tested on 10% they reach 1.000, 1.000, 1.000; those trained on 50% reach 1.000, 1.000, 1.000 at 50% "
        "(sequential, without a limit)"
    )
    record = Record.failed(POINTS[5], None, ValueError("no luck"), None, 1.0)
    outcomes = [outcome(point, RIGHT, RIGHT) for point in POINTS[3:5]]
    lost = Outcome(POINTS[5], {"training": record}, complete=True)
    verdict = judge(hard_tokens_in_training.collect([*outcomes, lost]))
    assert verdict.word == "partly"
    assert verdict.because.startswith(
        "with S3 in place of A5 and few updates, of 3 runs trained on 10% hard tokens and tested on 50%: "
        "sequential mode 2 reach 0.99 without a limit (1.000, 1.000), 2 with 8 self-iterations too; simult"
    )
    assert verdict.because.endswith("; tested on 10% they reach 1.000, 1.000 (sequential, without a limit)")


def test_a_failed_control_is_told() -> None:
    lost, *kept = [point for point in POINTS if point.all_settings["hard_fraction"] == 0.5]
    failed = Outcome(
        lost, {"training": Record.failed(lost, None, ValueError("no luck"), None, 1.0)}, complete=True
    )
    outcomes = [outcome(point, RIGHT, RIGHT) for point in kept]
    verdict = judge(hard_tokens_in_training.collect([failed, *outcomes]))
    assert verdict.because.endswith(
        "those trained on 50% reach 1.000, 1.000 at 50% (1 failed) (sequential, without a limit)"
    )
    assert "they reach" not in verdict.because  # none was trained on 10%
    verdict = judge(hard_tokens_in_training.collect([failed]))
    assert "those trained on 50% reach no accuracy at 50% (1 failed)" in verdict.because


def test_a_panel_per_mode_and_test_with_every_run(found: Results) -> None:
    with styled():
        figure = draw(found, 6.75)
    assert len(figure.axes) == 4
    axes = panel(figure, "sequential, 50% hard at test")
    thin = [np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_linewidth() == 0.6]
    assert thin == [WRONG] * 3 + [RIGHT] * 9
    thick = {
        str(line.get_label()): np.asarray(line.get_ydata())
        for line in axes.lines
        if line.get_marker() != "None"
    }
    np.testing.assert_allclose(thick["trained on 2% hard, mean of 3 runs"], WRONG, rtol=SUM_ORDER)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(LIMITS)


@pytest.mark.parametrize("width", WIDTHS)
def test_made_up_results_can_be_read_at_both_widths(found: Results, width: float) -> None:
    with styled():
        figure = draw(found, width)
        assert faults(figure, width) == []


def test_the_caption_tells_accuracy_effort_and_cost(found: Results) -> None:
    text = caption(found)
    assert (
        "run: trained on 2% 1.000 to 1.000 at 10% and 0.200 to 0.200 at 50%; trained on 10% 1.000 to" in text
    )
    # seeds 0, 1, 2 take 7, 8, 9 and 9, 10, 11
    assert "then takes 8.0 self-iterations where S3 rests and 10.0 where it moves (mean of 3 runs" in text
    assert "runs; 75.0% over 4, 50.0% over 8, 12.5% over 16; 87.5% converge)." in text
    # 1,136.64 s for 64 x (300 x (8 + 16 + 24) + 5,100 x 32) tokens are 100 µs per token
    days = 2**31 * 1e-4 * full_cost(1.0, ON_S3)["weights_ratio"] / 86400
    assert (
        "was not trained here: estimated from our 100 µs per token in proportion to the cell's weights, "
        f"{days:,.0f} days" in text
    )


def test_results_that_do_not_tell_their_training_are_of_the_small_grid(found: Results) -> None:
    text = caption(found)
    del found["training"]
    assert caption(found) == text
    assert (
        "All models: 6,000 updates of 64 sequences of 8 tokens, 8 more every 300 updates up to 32; after 900 "
        "updates 50% of the sequences that are right and reached their fixed points go on in the next. The"
        in text
    )


def test_a5_is_told_as_a5() -> None:
    found = hard_tokens_on_a5.collect([outcome(point, RIGHT, RIGHT) for point in ON_A5.points])
    text = caption(found)
    assert (
        "resets, 16 tokens, the identity and three generators of A5 with each of the memory's four, aga"
        in text
    )
    assert "on other sequences with an initial decay that is not set here; which sequences go on dep" in text
    assert "75% of the sequences that are right and reached their fixed points go on in the next" in text
    assert "; which sequences go on depends on the model's answers." in text
    assert "of the first 16 in sweeps" in text
    assert "S3" not in text
    assert judge(found).because.startswith("with three generators of A5 and few updates, of 3 runs")
    # 60 elements, but for what the memory and the last 8 tokens tell
    assert found["shortcuts"]["0.5"]["accuracy"] == pytest.approx(1 / 60, abs=1e-3)


@pytest.mark.parametrize("name", ["hard_tokens_in_training", "hard_tokens_on_a5"])
def test_the_stored_results_hold_every_run(name: str) -> None:
    groups = StoredResults.read(name).results["groups"]
    assert [group["settings"]["hard_fraction"] for group in groups] == [0.02, 0.1, 0.5, 1.0]
    assert all(sorted([*group["seeds"], *map(str, group["failed"])]) == ["0", "1", "2"] for group in groups)


@pytest.mark.parametrize("name", ["hard_tokens_in_training", "hard_tokens_on_a5"])
def test_the_verdict_on_the_stored_results_is_what_their_numbers_say(name: str) -> None:
    """Read without the code that judges."""
    results = StoredResults.read(name).results
    runs = [run["0.5"] for run in results["groups"][1]["seeds"].values()]
    shown = [
        run[mode]["none"] >= 0.99 and run[mode]["8"] >= run[mode]["none"] - 0.01
        for run in runs
        for mode in ("sequential", "simultaneous")
    ]
    word = "reproduced" if len(shown) == 6 and all(shown) else "partly" if any(shown) else "not reproduced"
    assert judge(results).word == word
