"""Reveals by spacing and by loss: what is collected, counted, drawn, judged, and said of the runs."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.framework.figures import styled
from automata.tasks.repl_language import ReplLanguage
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import repl_spacing
from paper_figures.figures.figure import Results
from paper_figures.figures.repl_traces import look_of
from paper_figures.figures.spacing_measured import SETTINGS
from tests.drawn_figures import WIDTHS, faults
from tests.paper_figures.figures.session_outcomes import every, failed, points_of, spaced

POINTS = repl_spacing.EXPERIMENT.points
VALUES, ALL = repl_spacing.VALUES, repl_spacing.ALL
LOSSES = (VALUES, ALL)
LIFTED = {task: points_of(POINTS, task, "deltanet", negative_eigenvalues=True) for task in LOSSES}
PLAIN = {task: points_of(POINTS, task, "deltanet", negative_eigenvalues=False) for task in LOSSES}
TRANSFORMER = {task: points_of(POINTS, task, "transformer") for task in LOSSES}


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another accuracy; one of DeltaNet [-1, 1] failed."""
    outcomes = every(POINTS, spaced, 0.3, 1.0)
    return repl_spacing.collect([failed(POINTS[0]), *outcomes[1:]])


def test_every_run_is_collected_once_under_its_own_name(found: Results) -> None:
    stored = [
        (task, name, int(seed))
        for task, by_series in found["tasks"].items()
        for name, series in by_series.items()
        for seed in [*series["seeds"], *series["failed"]]
    ]
    assert len(stored) == len(set(stored)) == len(POINTS)
    assert found["tasks"][VALUES]["DeltaNet [-1, 1]"]["failed"] == [0]
    assert list(found["tasks"]) == [VALUES, ALL, repl_spacing.FIVE, repl_spacing.FIVE_ALL]


def test_runs_are_counted_by_test_and_a_failed_one_does_not_count() -> None:
    lifted = LIFTED[VALUES]
    outcomes = [failed(lifted[0]), spaced(lifted[1], 1.0, 0.95, 0.94, 0.95), spaced(lifted[2], 1.0)]
    series = repl_spacing.collect(outcomes)["tasks"][VALUES]["DeltaNet [-1, 1]"]
    assert series["solved"] == {"1": 2, "4": 2, "8": 1, "random": 2}
    assert (series["of"], series["failed"]) == (3, [0])
    text = repl_spacing.caption(repl_spacing.collect(outcomes))
    assert "(b) DeltaNet [-1, 1] 2; (c) DeltaNet [-1, 1] 1; " in text
    assert text.endswith("(g) none; (h) none; (i) none; (j) none, of 3 each.")


def of(lifted: Any, controls: Any, task: str = VALUES) -> list[Outcome]:
    """Runs of DeltaNet [-1, 1], of DeltaNet [0, 1] and of the Transformer, with these accuracies."""
    points = [
        *zip(LIFTED[task], lifted, strict=True),
        *zip([*PLAIN[task], *TRANSFORMER[task]], controls, strict=False),
    ]
    outcomes: list[Outcome] = []
    for point, share in points:
        shares = share if isinstance(share, tuple) else (share,)
        outcomes.append(failed(point) if share is None else spaced(point, *shares))
    return outcomes


LOW = [0.4] * 6


@pytest.mark.parametrize(
    ("lifted", "controls", "word"),
    [
        ((1.0, 0.99, 0.95), LOW, "reproduced"),
        ((1.0, 0.99, (0.2, 1.0, 1.0, 1.0)), LOW, "reproduced"),  # a reveal after every command is not judged
        ((1.0, 0.99, (1.0, 1.0, 0.94, 1.0)), LOW, "partly"),
        ((1.0, 0.99, None), LOW, "partly"),
        (((1.0, 1.0, 0.9, 1.0), 0.8, 0.94), LOW, "not reproduced"),
        ((None, None, None), LOW, "not reproduced"),
        ((1.0, 1.0, 1.0), [(1.0, 0.4, 0.4, 0.4), *LOW[1:]], "reproduced"),
        ((1.0, 1.0, 1.0), [(0.4, 0.4, 0.4, 0.95), *LOW[1:]], "partly"),
        ((1.0, 1.0, 1.0), [*LOW[:5], (0.4, 0.95, 0.4, 0.4)], "partly"),
        ((1.0, 1.0, 1.0), LOW[:3], "partly"),  # no Transformer
        ((1.0, 1.0, 1.0), [None] * 6, "partly"),  # crashes show nothing
    ],
)
def test_the_verdict_follows_its_rule(lifted: Any, controls: Any, word: str) -> None:
    """The rule asks the same of either loss: the other runs are as they should be."""
    good = (1.0, 1.0, 1.0)
    for task, other in (LOSSES, LOSSES[::-1]):
        found = repl_spacing.collect([*of(lifted, controls, task), *of(good, LOW, other)])
        assert repl_spacing.judge(found).word == ("partly" if word == "not reproduced" else word)
        found = repl_spacing.collect([*of(lifted, controls, task), *of((0.9, None, 0.2), LOW, other)])
        assert repl_spacing.judge(found).word == ("partly" if word == "reproduced" else word)


def test_one_loss_alone_is_part_of_the_claim() -> None:
    verdict = repl_spacing.judge(repl_spacing.collect(of((1.0, 1.0, None), LOW)))
    assert verdict.word == "partly"
    assert verdict.because.endswith(
        "by the loss of revealed values: DeltaNet [-1, 1] 2 of 3, the others none; every token: no runs"
    )


def test_a_reveal_and_the_commands_since_tell_every_value_given_the_sign() -> None:
    """By enumeration: the shares that the caption states, for sessions of swaps with three variables."""
    places = range(3)
    swaps = [(0, 1), (0, 2), (1, 2)]

    def shares(known_sign: bool) -> float:
        by_seen: dict[Any, Counter[int]] = {}
        for arrangement in itertools.permutations(places):
            even = sum(a > b for a, b in itertools.combinations(arrangement, 2)) % 2 == 0
            for shown, asked, swap in itertools.product(places, places, swaps):
                after = list(arrangement)
                after[swap[0]], after[swap[1]] = after[swap[1]], after[swap[0]]
                seen = (shown, arrangement[shown], swap, asked, even if known_sign else None)
                by_seen.setdefault(seen, Counter())[after[asked]] += 1
        right = sum(max(values.values()) for values in by_seen.values())
        return right / sum(values.total() for values in by_seen.values())

    assert shares(known_sign=True) == 1
    assert shares(known_sign=False) == pytest.approx(2 / 3, rel=1e-15)  # a ratio of small integers


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_and_nothing_hides_the_data(found: Results, width: float) -> None:
    with styled():
        figure = repl_spacing.draw(found, width)
        assert faults(figure, width) == []
    for axes, (task, test, _) in zip(figure.axes, repl_spacing.PANELS, strict=True):
        for series in found["tasks"][task].values():
            look = look_of(series)
            drawn = [
                np.asarray(line.get_ydata()).tolist()
                for line in axes.lines
                if to_rgb(str(line.get_color())) == to_rgb(look.color)
            ]
            for run in series["seeds"].values():
                assert [place["accuracy"] for place in run["tests"][test].values()] in drawn
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == list(found["tasks"][VALUES])


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = repl_spacing.collect(outcomes)
        with styled():
            assert faults(repl_spacing.draw(nothing, 3.3), 3.3) == []
        assert "; implicit models in sequential mode. " in repl_spacing.caption(nothing)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = repl_spacing.caption(found)
    assert f"{SETTINGS.sequences} freshly drawn sessions per test, data seed {SETTINGS.seed}" in text
    assert (
        "700 updates after that accuracy at full length, at the latest after 2,000. In e, f, i and j" in text
    )
    for point in POINTS:
        config = point.config
        curriculum = config.curriculum
        five = config.task in (repl_spacing.FIVE, repl_spacing.FIVE_ALL)
        every_token = config.task in (ALL, repl_spacing.FIVE_ALL)
        assert config.batch_size == 32
        assert config.sizes["d_model"] == (128 if config.model == "lstm" else 64)
        implicit = config.model.startswith("implicit-")
        assert config.sizes["layers"] == (1 if config.model == "lstm" or implicit else 2)
        assert (config.sizes.get("mlp_size", 0) > 0) == (config.model == "transformer")
        assert config.optimizer.learning_rate == (0.002 if implicit else 0.003)
        assert config.length == (213 if five else 203)
        assert (curriculum.final_steps, config.steps) == (700, 2000)
        assert (curriculum.start_length, curriculum.length_growth) == (50 if five else 40, 16)
        assert curriculum.growth_accuracy == (None if every_token else 0.95)
        if every_token:
            assert curriculum.length_growth_every == 100
        task = config.build_task()
        assert isinstance(task, ReplLanguage)
        assert (task.form.spacing, task.form.reveal_every, task.form.variables, task.predict) == (
            "random",
            4,
            5 if five else 3,
            "all" if every_token else "values",
        )
    for said in (
        "Batches of 32;",
        "peak rates of 0.003 (implicit models: 0.002)",
        "Sequences of 40 tokens (g to j: 50) grow by 16 whenever",
        "passes 0.95, to 203 (213),",
        "ends 700 updates after",
        "at the latest after 2,000. In e, f, i and j,",
        "they grow every 100 updates, for 2,000 updates",
        "at least 0.95 of the sessions after 64 commands",
    ):
        assert said in text


def test_the_dotted_line_is_chance(found: Results) -> None:
    with styled():
        figure = repl_spacing.draw(found, 6.75)
    for axes, (task, _, _) in zip(figure.axes, repl_spacing.PANELS, strict=True):
        chance, trained = [line for line in axes.lines if line.get_color() == "#777777"]
        assert set(np.asarray(chance.get_ydata())) == {
            1 / 5 if task in (repl_spacing.FIVE, repl_spacing.FIVE_ALL) else 1 / 3
        }
        assert set(np.asarray(trained.get_xdata())) == {16}


def test_the_least_share_of_fixed_points_is_told_and_not_rounded_up() -> None:
    points = points_of(POINTS, VALUES, "implicit-mamba2")
    outcomes = [
        spaced(point, 1.0, converged=share) for point, share in zip(points, (1.0, 0.99996, 1.0), strict=True)
    ]
    text = repl_spacing.caption(repl_spacing.collect(outcomes))
    assert "of whose tokens a share of at least 0.9999 of each run reached" in text
