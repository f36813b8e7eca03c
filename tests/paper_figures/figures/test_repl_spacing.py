"""Reveals by spacing and by loss: what is measured, counted, drawn, judged, and said of the runs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from analysis.framework.figures import styled
from automata.errors import InputError
from automata.tasks.repl_language import ReplLanguage
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import repl_spacing
from paper_figures.figures.figure import Results
from paper_figures.figures.repl_spacing import SETTINGS, SpacingSettings, Test
from paper_figures.figures.repl_traces import look_of
from tests.drawn_figures import WIDTHS, faults
from tests.paper_figures.figures.session_outcomes import every, failed, points_of, spaced

POINTS = repl_spacing.EXPERIMENT.points
VALUES, ALL = repl_spacing.VALUES, repl_spacing.ALL
LIFTED = points_of(POINTS, VALUES, "deltanet", negative_eigenvalues=True)
PLAIN = points_of(POINTS, VALUES, "deltanet", negative_eigenvalues=False)
TRANSFORMER = points_of(POINTS, VALUES, "transformer")


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another accuracy; one of DeltaNet [-1, 1] failed."""
    outcomes = every(POINTS, spaced, 0.3, 1.0)
    return repl_spacing.collect([failed(POINTS[0]), *outcomes[1:]])


class Oracle(torch.nn.Module):
    """Answers with the target, except at places whose number of reveals before is in ``wrong``."""

    implicit = None

    def __init__(self, task: ReplLanguage, wrong: set[int]) -> None:
        super().__init__()
        self.task, self.wrong = task, wrong

    def run(self, tokens: torch.Tensor, solve: Any = None, lengths: Any = None) -> Any:
        """Read the sessions as text: what every variable holds, and the number of the command."""
        names, logits = self.task.token_names, torch.zeros(*tokens.shape, self.task.vocabulary_size)
        for row, numbers in enumerate(tokens.tolist()):
            text, values, commands, done = "", {}, 0, 0
            for place, number in enumerate(numbers):
                text += names[number]
                while "\n" in text[done:]:
                    line, done = text[done:].split("\n")[0], text.index("\n", done) + 1
                    if match := re.fullmatch(r">>> (\w) = (\d)", line):
                        values[match[1]] = int(match[2])
                    elif match := re.fullmatch(r">>> (\w), (\w) = (\w), (\w)", line):
                        values[match[1]], values[match[2]] = values[match[3]], values[match[4]]
                        commands += 1
                line = text[done:]
                if match := re.fullmatch(r"(\w) ", line):
                    value = values[match[1]]
                    if commands in self.wrong:
                        value = value % self.task.form.variables + 1
                    logits[row, place, self.task.tokenizer.first_value - 1 + value] = 1
        return type("Output", (), {"logits": logits, "solution": None})()


def measured(wrong: set[int], **settings: Any) -> dict[str, Any]:
    config = recipe("repl-3-values-random", "lstm", d_model=4)
    task = config.build_task()
    assert isinstance(task, ReplLanguage)
    run = Run(Path("runs/oracle"), config, Oracle(task, wrong), task, [])  # type: ignore[arg-type]
    return repl_spacing.measure(run, SpacingSettings(sequences=6, batch_size=4, **settings))["tests"]


def test_a_reader_of_the_text_is_right_in_every_test() -> None:
    tests = measured(set(), commands=(4, 8, 16))
    for test in SETTINGS.tests:
        assert {n: place["accuracy"] for n, place in tests[test].items()} == dict.fromkeys(tests[test], 1.0)
    assert list(tests["1"]) == list(tests["4"]) == ["4", "8", "16"]
    assert list(tests["8"]) == ["8", "16"]
    assert all(place["sessions"] == 6 for test in ("1", "4", "8") for place in tests[test].values())


def test_who_errs_after_eight_commands_is_wrong_where_the_last_reveal_is_there() -> None:
    tests = measured({8}, tests=("1", "4", "8"), commands=(4, 8, 10, 16))
    assert [tests["1"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 1, 1]
    assert [tests["4"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 0, 1]
    assert [tests["8"][n]["accuracy"] for n in ("8", "10", "16")] == [0, 0, 1]


def test_at_random_sessions_without_a_reveal_so_soon_are_left_out() -> None:
    (tests,) = measured(set(), tests=("random",), commands=(1, 64)).values()
    assert tests["64"]["sessions"] == 6
    assert "1" not in tests or tests["1"]["sessions"] < 6


def test_numbers_of_commands_are_those_of_the_text() -> None:
    task = ReplLanguage(3, commands=9, reveal_every=2, predict="values", spacing="random")
    sessions = task.sessions(20, np.random.default_rng(0))
    batch = task.batch_of(sessions, task.longest_session)
    before = repl_spacing.commands_before(task, batch.tokens, batch.counted)
    for row in range(20):
        swaps, numbers = 0, []
        for command in sessions.trace(row).commands:
            swaps += ", " in command and "print" not in command
            if "print" in command:
                numbers.append(swaps)
        assert before[row][before[row] > 0].tolist() == numbers


def test_other_runs_are_refused() -> None:
    config = recipe("parity", "lstm", d_model=4)
    task = config.build_task()
    with pytest.raises(InputError, match="give a run on Python sessions"):
        repl_spacing.measure(Run(Path("r"), config, initial_model(config, task), task, []), SETTINGS)
    full = ReplLanguage(3, reveal="full", predict="values")
    run = Run(Path("r"), config, initial_model(config, task), full, [])
    with pytest.raises(InputError, match="reveal is 'full'"):
        repl_spacing.measure(run, SETTINGS)


def test_every_run_is_collected_once_under_its_own_name(found: Results) -> None:
    stored = [
        (loss, name, int(seed))
        for loss, by_series in found["losses"].items()
        for name, series in by_series.items()
        for seed in [*series["seeds"], *series["failed"]]
    ]
    assert len(stored) == len(set(stored)) == len(POINTS)
    assert found["losses"]["values"]["DeltaNet [-1, 1]"]["failed"] == [0]
    assert list(found["losses"]) == ["values", "all"]


def test_runs_are_counted_by_test_and_a_failed_one_does_not_count() -> None:
    outcomes = [failed(LIFTED[0]), spaced(LIFTED[1], 1.0, 0.95, 0.94, 0.95), spaced(LIFTED[2], 1.0)]
    series = repl_spacing.collect(outcomes)["losses"]["values"]["DeltaNet [-1, 1]"]
    assert series["solved"] == {"1": 2, "4": 2, "8": 1, "random": 2}
    assert (series["of"], series["failed"]) == (3, [0])
    text = repl_spacing.caption(repl_spacing.collect(outcomes))
    assert "(b) DeltaNet [-1, 1] 2; (c) DeltaNet [-1, 1] 1; " in text
    assert text.endswith("(e) none; (f) none, of 3 each.")


def of(lifted: Any, controls: Any) -> Results:
    points = [*zip(LIFTED, lifted, strict=True), *zip([*PLAIN, *TRANSFORMER], controls, strict=False)]
    outcomes: list[Outcome] = []
    for point, share in points:
        shares = share if isinstance(share, tuple) else (share,)
        outcomes.append(failed(point) if share is None else spaced(point, *shares))
    return repl_spacing.collect(outcomes)


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
    assert repl_spacing.judge(of(lifted, controls)).word == word


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_and_nothing_hides_the_data(found: Results, width: float) -> None:
    with styled():
        figure = repl_spacing.draw(found, width)
        assert faults(figure, width) == []
    for axes, (loss, test, _) in zip(figure.axes, repl_spacing.PANELS, strict=True):
        for series in found["losses"][loss].values():
            look = look_of(series)
            drawn = [
                np.asarray(line.get_ydata()).tolist()
                for line in axes.lines
                if to_rgb(str(line.get_color())) == to_rgb(look.color)
            ]
            for run in series["seeds"].values():
                assert [place["accuracy"] for place in run["tests"][test].values()] in drawn
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == list(found["losses"]["values"])


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = repl_spacing.collect(outcomes)
        with styled():
            assert faults(repl_spacing.draw(nothing, 3.3), 3.3) == []
        assert "Implicit models in sequential mode. " in repl_spacing.caption(nothing)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = repl_spacing.caption(found)
    assert f"{SETTINGS.sequences} freshly drawn sessions per test, data seed {SETTINGS.seed}" in text
    for point in POINTS:
        config = point.config
        curriculum, by_values = config.curriculum, config.task == VALUES
        assert config.batch_size == 32
        assert config.sizes["d_model"] == (128 if config.model == "lstm" else 64)
        assert config.sizes["layers"] == (1 if config.model in ("lstm", "implicit-mamba2") else 2)
        assert (config.sizes.get("mlp_size", 0) > 0) == (config.model == "transformer")
        rate = 0.002 if config.model == "implicit-mamba2" else 0.003
        assert config.optimizer.learning_rate == rate
        assert (config.length, config.steps) == (203, 2000)
        assert (curriculum.start_length, curriculum.length_growth) == (40, 16)
        assert curriculum.growth_accuracy == (0.95 if by_values else None)
        if not by_values:
            assert curriculum.length_growth_every == 100
        task = config.build_task()
        assert isinstance(task, ReplLanguage)
        assert (task.form.spacing, task.form.reveal_every, task.predict) == (
            "random",
            4,
            "values" if by_values else "all",
        )
    for said in (
        "Batches of 32;",
        "peak rates of 0.003 (implicit Mamba-2: 0.002)",
        "sequences of 40 tokens grow by 16 whenever",
        "passes 0.95, to 203,",
        "ends 700 updates after",
        "latest after 2,000. In e and f they grow every 100 updates, for 2,000 updates",
        "at least 0.95 of the sessions after 64 commands",
    ):
        assert said in text


def test_the_least_share_of_fixed_points_is_told_and_not_rounded_up() -> None:
    points = points_of(POINTS, VALUES, "implicit-mamba2")
    outcomes = [
        spaced(point, 1.0, converged=share) for point, share in zip(points, (1.0, 0.99996, 1.0), strict=True)
    ]
    text = repl_spacing.caption(repl_spacing.collect(outcomes))
    assert "of whose tokens a share of at least 0.9999 of each run reached" in text


@pytest.mark.parametrize("test", SETTINGS.tests)
def test_tests_have_the_spacing_that_they_say(test: Test) -> None:
    task = repl_spacing.session_task(ReplLanguage(3), test, 16)
    assert (task.form.spacing, task.form.reveal_every) == (
        ("random", 4) if test == "random" else ("fixed", int(test))
    )
    assert (task.commands, task.predict, task.form.variables) == (16, "values", 3)
