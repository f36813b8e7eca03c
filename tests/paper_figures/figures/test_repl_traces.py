"""Accuracy on Python sessions: what is collected, counted, drawn, judged, and said of the runs."""

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.framework.figures import styled
from analysis.framework.palette import MODEL_LOOKS
from paper_figures.figures import repl_traces
from paper_figures.figures.figure import Results
from paper_figures.figures.repl_training import SETTINGS
from tests.drawn_figures import WIDTHS, faults
from tests.paper_figures.figures.session_outcomes import done, every, failed, points_of, revealed

POINTS = repl_traces.EXPERIMENT.points
MAIN = repl_traces.MAIN
LIFTED = points_of(POINTS, MAIN, "deltanet", negative_eigenvalues=True)
PLAIN = points_of(POINTS, MAIN, "deltanet", negative_eigenvalues=False, learning_rate=3e-3)
PLAIN_SLOW = points_of(POINTS, MAIN, "deltanet", negative_eigenvalues=False, learning_rate=1e-3)
TRANSFORMER = points_of(POINTS, MAIN, "transformer", learning_rate=3e-3)
TRANSFORMER_SLOW = points_of(POINTS, MAIN, "transformer", learning_rate=1e-3)
CONTROLS = [*PLAIN, *PLAIN_SLOW, *TRANSFORMER, *TRANSFORMER_SLOW]


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another accuracy; one of DeltaNet [-1, 1] failed."""
    outcomes = every(POINTS, revealed, 0.3, 1.0)
    return repl_traces.collect([failed(POINTS[0]), *outcomes[1:]])


def numbers(pattern: str, text: str) -> tuple[float, ...]:
    """The numbers of a sentence, which has to be there once."""
    (match,) = re.finditer(pattern, text)
    return tuple(float(number.replace(",", "")) for number in match.groups())


def test_every_run_is_collected_once_under_its_own_name(found: Results) -> None:
    assert list(found["tasks"]) == list(repl_traces.PANELS)
    stored = [
        (task, name, int(seed))
        for task, by_series in found["tasks"].items()
        for name, series in by_series.items()
        for seed in [*series["seeds"], *series["failed"]]
    ]
    assert len(stored) == len(set(stored)) == len(POINTS)
    assert found["tasks"][MAIN]["DeltaNet [-1, 1]"]["failed"] == [0]
    assert list(found["tasks"][MAIN]) == [
        "DeltaNet [-1, 1]",
        "DeltaNet [0, 1]",
        "Transformer",
        "LSTM",
        "implicit Mamba-2",
        "Mamba-2",
        "gated DeltaNet [-1, 1]",
        "DeltaNet [0, 1], rate 0.001",
        "Transformer, rate 0.001",
    ]


def test_runs_are_counted_from_the_threshold_on_and_a_failed_one_does_not_count() -> None:
    shares = (0.95, 0.9499)
    outcomes = [failed(LIFTED[0]), *(revealed(p, s) for p, s in zip(LIFTED[1:], shares, strict=True))]
    found = repl_traces.collect(outcomes)
    series = found["tasks"][MAIN]["DeltaNet [-1, 1]"]
    assert (series["solved"], series["of"], series["failed"]) == (1, 3, [0])
    assert "(a) DeltaNet [-1, 1]: 1 of 3." in repl_traces.caption(found)


def of(lifted: Any, controls: Any) -> Results:
    runs = itertools.chain(zip(LIFTED, lifted, strict=False), zip(CONTROLS, controls, strict=False))
    return repl_traces.collect([failed(p) if share is None else revealed(p, share) for p, share in runs])


LOW = [0.4] * 12


@pytest.mark.parametrize(
    ("lifted", "controls", "word"),
    [
        ((1.0, 0.99, 0.95), LOW, "reproduced"),
        ((1.0, 0.99, 0.94), LOW, "partly"),
        ((1.0, 0.99, None), LOW, "partly"),
        ((0.9, 0.8, 0.94), LOW, "not reproduced"),
        ((None, None, None), LOW, "not reproduced"),
        ((1.0, 1.0, 1.0), [*LOW[:11], 0.95], "partly"),  # at another rate
        ((1.0, 1.0, 1.0), [0.95, *LOW[1:]], "partly"),
        ((1.0, 1.0, 1.0), [0.4] * 6, "partly"),  # no Transformer
        ((1.0, 1.0, 1.0), [None] * 12, "partly"),  # crashes show nothing
        ((1.0, 1.0, 1.0), [*[None] * 5, 0.4, *[None] * 5, 0.4], "reproduced"),
        ((1.0, 1.0, 1.0), [], "partly"),
    ],
)
def test_the_verdict_follows_its_rule(lifted: Any, controls: Any, word: str) -> None:
    assert repl_traces.judge(of(lifted, controls)).word == word


def test_the_verdict_tells_the_best_control_and_looks_at_the_main_task_alone() -> None:
    controls = [*LOW[:4], 0.6, *LOW[5:]]
    found = of((1.0, 1.0, 1.0), controls)
    assert "the best run of DeltaNet [0, 1] and of the Transformer has 0.600" in (
        repl_traces.judge(found).because
    )
    elsewhere = points_of(POINTS, "repl-5-values", "transformer")
    outcomes = [revealed(point, 1.0) for point in (*LIFTED, *elsewhere)]
    outcomes += [revealed(point, 0.4) for point in CONTROLS]
    assert repl_traces.judge(repl_traces.collect(outcomes)).word == "reproduced"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_and_nothing_hides_the_data(found: Results, width: float) -> None:
    with styled():
        figure = repl_traces.draw(found, width)
        assert faults(figure, width) == []
    for axes, task in zip(figure.axes, repl_traces.PANELS, strict=True):
        lines = [line for line in axes.lines if line.get_color() != "#777777"]
        for name, series in found["tasks"][task].items():
            if ", rate" in name:
                continue
            look = repl_traces.look_of(series)
            runs = [list(run["accuracy"].values()) for run in series["seeds"].values()]
            drawn = [
                np.asarray(line.get_ydata()).tolist()
                for line in lines
                if to_rgb(str(line.get_color())) == to_rgb(look.color)
            ]
            assert all(run in drawn for run in runs)
            assert any(np.allclose(np.mean(runs, axis=0), values, atol=1e-12) for values in drawn)  # rounding
        assert sum(str(line.get_label()).startswith("_child") for line in lines) == sum(
            len(series["seeds"]) for name, series in found["tasks"][task].items() if ", rate" not in name
        )
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    main, five = (found["tasks"][task] for task in repl_traces.PANELS)
    assert legend == [name for name in main if ", rate" not in name] + ["gated DeltaNet [0, 1]"]
    assert set(five) - set(main) == {"gated DeltaNet [0, 1]"}


def test_the_dotted_line_is_chance_and_the_dashed_one_the_longest_training_sequence(found: Results) -> None:
    with styled():
        figure = repl_traces.draw(found, 6.75)
    for axes, task in zip(figure.axes, repl_traces.PANELS, strict=True):
        chance, trained = [line for line in axes.lines if line.get_color() == "#777777"]
        assert set(np.asarray(chance.get_ydata())) == {1 / 5 if task.startswith("repl-5") else 1 / 3}
        assert set(np.asarray(trained.get_xdata())) == {16}


def test_two_kinds_of_deltanet_look_different_and_have_the_colour_of_the_model() -> None:
    one, other = (
        repl_traces.look_of({"model": "deltanet", "reflecting": range_}) for range_ in (True, False)
    )
    assert one.color == other.color == MODEL_LOOKS["deltanet"].color
    assert (one.marker, one.dashes) != (other.marker, other.dashes)


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        found = repl_traces.collect(outcomes)
        with styled():
            assert faults(repl_traces.draw(found, 3.3), 3.3) == []
        assert "implicit models in sequential mode. " in repl_traces.caption(found)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = repl_traces.caption(found)
    configs = [point.config for point in POINTS]
    assert numbers(r"same (\d+) freshly drawn sessions, data seed (\d+)", text) == (
        SETTINGS.sequences,
        SETTINGS.seed,
    )
    width, lstm = numbers(r"Width (\d+) \(LSTM: (\d+)\)", text)
    for config in configs:
        assert config.sizes["d_model"] == (lstm if config.model == "lstm" else width)
        assert config.sizes["layers"] == (1 if config.model in ("lstm", "implicit-mamba2") else 2)
        assert (config.sizes.get("mlp_size", 0) > 0) == (config.model == "transformer")
    assert "two layers (LSTM and implicit Mamba-2: one)" in text
    (batch,) = numbers(r"Batches of (\d+);", text)
    (accuracy,) = numbers(r"last third passes ([\d.]+),", text)
    final, steps = numbers(r"ends (\d+) updates .* the latest after (\d+);", text)
    for config in configs:
        curriculum = config.curriculum
        assert (config.steps, config.batch_size) == (steps, batch)
        assert (curriculum.growth_accuracy, curriculum.final_steps) == (accuracy, final)
    peak, implicit = numbers(r"Peak rates of ([\d.]+) \(implicit Mamba-2: ([\d.]+)\)", text)
    (other,) = numbers(r"Transformer were trained at ([\d.]+), too", text)
    for config in configs:
        rate = config.optimizer.learning_rate
        assert rate == implicit if config.model == "implicit-mamba2" else rate in (peak, other)
    assert {(c.task, c.model) for c in configs if c.optimizer.learning_rate == other} == {
        (MAIN, "deltanet"),
        (MAIN, "transformer"),
    }
    assert numbers(r"least ([\d.]+) of the sessions after (\d+) commands", text) == (0.95, 64)
    assert numbers(r"the (\d+) commands of the longest", text) == (16,)


def test_the_panels_are_the_tasks_that_they_say() -> None:
    for task, title in repl_traces.PANELS.items():
        (built,) = {
            str(p.config.task): p.config.build_task() for p in POINTS if p.config.task == task
        }.values()
        form = built.form
        assert (form.reveal_every, form.spacing, built.predict) == (4, "fixed", "values")
        assert form.variables == {"three variables": 3, "five variables": 5}[title]


def test_the_least_share_of_fixed_points_is_told_and_not_rounded_up() -> None:
    points = points_of(POINTS, MAIN, "implicit-mamba2")
    shares = (1.0, 0.99996, 1.0)
    found = repl_traces.collect([revealed(p, 1.0, share) for p, share in zip(points, shares, strict=True)])
    assert "of whose tokens a share of at least 0.9999 of each run reached" in repl_traces.caption(found)


def known_after(places: int, reveals: int) -> float:
    """The share of values that are known: all arrangements of even sign that agree, by enumeration."""
    even = [
        values
        for values in itertools.permutations(range(places))
        if sum(one > other for one, other in itertools.combinations(values, 2)) % 2 == 0
    ]
    right = 0.0
    for looked in itertools.product(range(places), repeat=reveals):
        left = [values for values in even if all(values[place] == place for place in looked)]
        for asked in range(places):
            counts = np.bincount([values[asked] for values in left])
            right += counts.max() / len(left)
    return right / places ** (reveals + 1)


def test_what_the_last_reveals_tell_is_that_of_the_enumeration() -> None:
    assert known_after(3, 1) == 1
    one, five = numbers(
        r"tell ([\d.]+) of them, and the last five reveals so used ([\d.]+)\)", repl_traces.WINDOW
    )
    assert one == round(known_after(5, 1), 2)
    assert five == round(known_after(5, 5), 2)


def test_the_95_percent_interval_is_that_of_the_sessions(found: Results) -> None:
    (widest,) = numbers(r"at most ±([\d.]+);", repl_traces.caption(found))
    assert widest == round(1.96 * math.sqrt(0.25 / SETTINGS.sequences), 2)


def test_a_run_of_another_measurement_is_no_run_of_this_one() -> None:
    point = LIFTED[0]
    other = repl_traces.EXPERIMENT.measurements[0].__class__("other", lambda run, settings: None)
    found = repl_traces.collect([done(point, other, {"accuracy": {}})])
    assert found["tasks"][MAIN]["DeltaNet [-1, 1]"]["failed"] == [0]
