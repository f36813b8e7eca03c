"""Who holds the belief about hidden swaps: what is collected, drawn, compared, judged and said."""

from typing import Any

import numpy as np
import pytest
import torch

from analysis.belief.probe import MOST_FEATURES
from analysis.belief.reading import state_size
from analysis.framework.figures import styled
from implicit.runs.loading import initial_model
from implicit.training.streams import Stream, draw_batch
from paper_figures.figures import hidden_swaps, puzzles, repl_spacing, repl_traces
from paper_figures.figures.figure import Results
from paper_figures.figures.hidden_measured import SETTINGS
from paper_figures.figures.hidden_training import TASK
from paper_figures.figures.repl_traces import series_name
from tests.drawn_figures import WIDTHS, faults
from tests.paper_figures.figures.session_outcomes import believed, every, failed, points_of
from tests.paper_figures.figures.test_repl_traces import numbers

POINTS = hidden_swaps.EXPERIMENT.points
LINEAR = points_of(POINTS, TASK, "deltanet", negative_eigenvalues=True)
OTHER_LINEAR = points_of(POINTS, TASK, "mamba2")
LSTM = points_of(POINTS, TASK, "lstm")
IMPLICIT = points_of(POINTS, TASK, "implicit-mamba2")
TRANSFORMER = points_of(POINTS, TASK, "transformer")


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another divergence; the first of them failed."""
    outcomes = every(POINTS, believed, 0.002, 0.8)
    return hidden_swaps.collect([failed(POINTS[0]), *outcomes[1:]])


def test_every_run_is_collected_once_under_its_own_name(found: Results) -> None:
    series = found["series"]
    assert sorted(series) == sorted(
        [
            "DeltaNet [-1, 1]",
            "DeltaNet [0, 1]",
            "gated DeltaNet [-1, 1]",
            "gated DeltaProduct [-1, 1]",
            "Mamba-2",
            "LSTM",
            "implicit Mamba-2",
            "Transformer",
        ]
    )
    assert sum(len(one["seeds"]) for one in series.values()) == len(POINTS) - 1 == 23
    assert series["DeltaNet [-1, 1]"]["failed"] == [0]
    assert found["lengths"] == [64, 128, 256, 512]


def test_models_that_are_called_linear_say_so_themselves_and_others_do_not() -> None:
    for point in POINTS[::3]:
        model = initial_model(point.config, point.config.build_task())
        name = series_name(point.settings)
        assert model.linear_in_state == (name not in hidden_swaps.NOT_LINEAR)
        if not model.state_grows:
            assert (state_size(model) > MOST_FEATURES) == (name == hidden_swaps.PROJECTED)


def test_training_sequences_are_the_same_for_every_model_of_a_seed() -> None:
    configs = [point.config for point in POINTS if point.seed == 0]
    assert len({str(config.task) for config in configs}) == 1
    for config in configs:
        lengths = [config.curriculum.phase(step, config.length).length for step in range(1, config.steps + 1)]
        assert lengths == [min(64, 8 + 8 * (step // 100)) for step in range(config.steps)]
    task = configs[0].build_task()
    one, other = (draw_batch(task, c.batch_size, 16, c.seed, Stream.TRAIN, 150) for c in configs[:2])
    assert torch.equal(one.tokens, other.tokens)


def of(**divergences: Any) -> Results:
    kinds = {
        "linear": LINEAR,
        "other": OTHER_LINEAR,
        "lstm": LSTM,
        "implicit": IMPLICIT,
        "transformer": TRANSFORMER,
    }
    outcomes = [
        failed(point) if value is None else believed(point, value)
        for kind, values in divergences.items()
        for point, value in zip(kinds[kind], values, strict=False)
    ]
    return hidden_swaps.collect(outcomes)


@pytest.mark.parametrize(
    ("runs", "word"),
    [
        ({"linear": (0.3, 0.4), "lstm": (0.1, 0.2), "implicit": (0.1, 0.29)}, "reproduced"),
        ({"linear": (0.3, 0.4), "lstm": (0.1, 0.2), "implicit": (0.1, 0.31)}, "partly"),
        ({"linear": (0.3, 0.4), "lstm": (0.1, 0.2), "implicit": (0.5, 0.6)}, "partly"),
        ({"linear": (0.01, 0.2), "lstm": (0.2, 0.2), "implicit": (0.5, 0.6)}, "not reproduced"),
        ({"linear": (0.3, 0.4), "lstm": (0.1, 0.2)}, "partly"),
        ({"linear": (0.3, 0.4), "lstm": (0.5, 0.5)}, "not reproduced"),
        ({"linear": (0.3, 0.4), "transformer": (0.1, 0.1)}, "not reproduced"),
        ({"linear": (None, None), "lstm": (0.1, 0.2), "implicit": (0.1, 0.1)}, "not reproduced"),
        # the Transformer is no RNN: it changes nothing
        ({"linear": (0.3,), "lstm": (0.1,), "implicit": (0.1,), "transformer": (0.9,)}, "reproduced"),
        ({"linear": (0.3, None), "lstm": (0.1, None), "implicit": (0.1, 0.1)}, "reproduced"),
    ],
)
def test_the_verdict_follows_its_rule(runs: Any, word: str) -> None:
    assert hidden_swaps.judge(of(**runs)).word == word


def test_the_linear_model_is_chosen_at_the_training_length_not_where_it_is_compared() -> None:
    found = of(linear=(0.9, 0.9), other=(0.01, 0.01), lstm=(0.1,), implicit=(0.1,))
    for seed, run in found["series"]["Mamba-2"]["seeds"].items():
        run["by_length"]["64"]["kl"]["mean"] = 0.002 + 0.001 * int(seed)
    compared = hidden_swaps.comparison(found)
    assert (compared["best"], compared["linear"]) == ("DeltaNet [-1, 1]", [0.9, 0.9])
    for run in found["series"]["Mamba-2"]["seeds"].values():
        run["by_length"]["64"]["kl"]["mean"] = 0.0001
    assert hidden_swaps.comparison(found)["best"] == "Mamba-2"
    assert hidden_swaps.judge(found).because.endswith(
        ": Mamba-2, the best linear model at the training length, 0.0100 to 0.0100; LSTM 0.1000, implicit "
        "Mamba-2 0.1000; the other linear models: DeltaNet [-1, 1] 0.9000 to 0.9000"
    )


def test_a_divergence_that_is_not_finite_is_farther_than_any_other() -> None:
    found = of(linear=(np.inf, np.inf), lstm=(0.1,), implicit=(0.1,))
    assert hidden_swaps.divergences(found["series"]["DeltaNet [-1, 1]"], 512) == [np.inf, np.inf]
    assert hidden_swaps.judge(found).word == "reproduced"
    assert "inf" in hidden_swaps.caption(found)
    with styled():
        assert faults(hidden_swaps.draw(found, 3.3), 3.3) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_in_every_panel_that_it_belongs_to(found: Results, width: float) -> None:
    with styled():
        figure = hidden_swaps.draw(found, width)
        assert faults(figure, width) == []
    by_length, by_frequency, belief, norm = figure.axes
    series = found["series"]
    expected = {
        by_length: [hidden_swaps.divergences(one, n) for one in series.values() for n in (512,)],
        by_frequency: [
            [run["by_reveal_probability"]["0.5"]["mean"] for run in one["seeds"].values()]
            for one in series.values()
        ],
    }
    for axes, of_series in expected.items():
        thin = [line for line in axes.lines if line.get_linewidth() == 0.6]
        ends = [float(np.asarray(line.get_ydata())[-1]) for line in thin]
        assert ends == [value for values in of_series for value in values]
    for axes in (belief, norm):
        assert sum(line.get_linewidth() == 0.6 for line in axes.lines) == 20  # none of the Transformer
    assert [tick.get_text() for tick in by_frequency.get_xticklabels()] == [
        "1/32",
        "1/16",
        "1/8",
        "1/4",
        "1/2",
    ]
    dashed = [line for line in by_frequency.lines if line.get_color() == "#777777"]
    assert set(np.asarray(dashed[0].get_xdata())) == {0.25}
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == list(series)


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = hidden_swaps.collect(outcomes)
        with styled():
            assert faults(hidden_swaps.draw(nothing, 3.3), 3.3) == []
        assert "No run ended well." in hidden_swaps.caption(nothing)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = hidden_swaps.caption(found)
    width, lstm = numbers(r"width (\d+) \(LSTM: (\d+)\)", text)
    updates, batch = numbers(r"([\d,]+) updates of (\d+) sequences", text)
    start, growth, every_updates = numbers(r"grows from (\d+) tokens by (\d+) every (\d+) updates", text)
    (rate,) = numbers(r"a peak rate of ([\d.]+),", text)
    (length,) = numbers(r"as in training, (\d+) tokens and one event in four", text)
    for point in POINTS:
        config = point.config
        assert config.sizes["d_model"] == (lstm if config.model == "lstm" else width)
        assert config.sizes["layers"] == (1 if config.model in ("lstm", "implicit-mamba2") else 2)
        assert (config.sizes.get("mlp_size", 0) > 0) == (config.model == "transformer")
        assert (config.steps, config.batch_size, config.length) == (updates, batch, length)
        curriculum = config.curriculum
        assert (curriculum.start_length, curriculum.length_growth) == (start, growth)
        assert curriculum.length_growth_every == every_updates
        assert curriculum.growth_accuracy is None
        assert config.optimizer.learning_rate == rate
        assert config.final_length() == length  # it is reached
    one, other, seed = numbers(r"(\d+) freshly drawn sequences, (\d+) others .* data seed (\d+)", text)
    assert (one, other, seed) == (SETTINGS.sequences, SETTINGS.sequences, SETTINGS.seed)
    assert numbers(r"fitted to (\d+) others", text) == (SETTINGS.probe_sequences,)
    assert numbers(r"at the last (\d+) tokens", text) == (SETTINGS.window,)
    assert numbers(r"projection to ([\d,]+) numbers", text) == (MOST_FEATURES,)
    tolerance, most = numbers(r"tolerance of ([\d.]+) or for (\d+) self-iterations", text)
    assert (tolerance, most) == (SETTINGS.rtol, SETTINGS.max_iterations)
    assert "sequential mode" in text


def test_the_caption_tells_of_mass_that_is_lost_and_of_norms_of_linear_models_alone() -> None:
    found = of(linear=(0.1,), lstm=(0.1,))
    (run,) = found["series"]["LSTM"]["seeds"].values()
    run["norms"][0]["rate_per_token"]["per_token"] = 5.0
    (run,) = found["series"]["DeltaNet [-1, 1]"]["seeds"].values()
    layers = run["norms"]
    layers[1] = {**layers[1], "rate_per_token": {**layers[1]["rate_per_token"], "per_token": None}}
    text = hidden_swaps.caption(found)
    assert "The unnormalised exact filter loses 0.125 nats of log mass per token" in text
    assert "changes by -0.0020 to -0.0020 per token" in text
    assert "of no linear model a norm was measured" in hidden_swaps.caption(of(lstm=(0.1,)))


def test_divergences_of_every_run_are_told(found: Results) -> None:
    text = hidden_swaps.caption(of(linear=(0.25, None, 0.5), lstm=(None, None, None)))
    assert text.endswith(
        "nats, with its 95% interval over sequences: DeltaNet [-1, 1] 0.2500, 0.5000; LSTM no run."
    )


def test_gradients_are_clipped_as_captions_say() -> None:
    """Of hidden swaps as of Python sessions and puzzles."""
    assert "with gradients clipped at a norm of 1 (implicit models: 0.25)" in hidden_swaps.caption(of())
    for figure in (hidden_swaps, repl_traces, repl_spacing, puzzles):
        for point in figure.EXPERIMENT.points:
            implicit = point.config.model.startswith("implicit-")
            assert point.config.optimizer.gradient_clip == (0.25 if implicit else 1)
