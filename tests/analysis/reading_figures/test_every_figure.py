"""The figures of all analyses: legible at paper width, in the same colours, written as wide as asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from analysis import questions
from paper_figures.registry import figure_named
from tests.analysis.reading_figures.conftest import FOUND
from tests.drawn_figures import WIDTHS, faults


def test_every_analysis_with_a_figure_is_looked_at() -> None:
    with_figure = {question.name for question in questions.QUESTIONS if question.draw is not None}
    # a cover takes a minute and a half to find; its figure is looked at in test_all_lengths
    assert with_figure == {name.removeprefix("dense ") for name in FOUND} | {"all_lengths"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FOUND)
def test_every_text_can_be_read_and_no_legend_covers_data(
    name: str, width: float, drawn: Callable[..., Figure]
) -> None:
    assert faults(drawn(name, width), width) == []


def test_a_model_has_one_colour_in_all_figures(drawn: Callable[..., Figure]) -> None:
    """In the legends of three drawings, and of modes in two."""
    drawings = [of_paper(name) for name in ("length_generalization", "repl_traces")]
    colors = [line_color(figure, "implicit Mamba-2") for figure in drawings]
    colors.append(line_color(drawn("length_generalization"), "implicit-mamba2"))
    assert set(colors) == {"#0072b2"}
    modes = [
        [line_color(figure, mode) for mode in ("simultaneous", "sequential")]
        for figure in (
            drawn("convergence"),
            of_paper("convergence"),
        )
    ]
    assert modes[0] == modes[1]
    assert modes[0][0] != modes[0][1]


def of_paper(name: str) -> Figure:
    figure = figure_named(name)
    return figure.picture(figure.results())


def line_color(figure: Figure, label: str) -> str:
    """The one colour of all legend entries that begin with a label."""
    (color,) = {
        to_hex(handle.get_color())  # type: ignore[union-attr]
        for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
        if legend is not None
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if text.get_text().startswith(label)
    }
    return color


def test_a_command_writes_its_figure_as_wide_as_asked_with_a_caption(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from analysis import length_generalization

    run = make_run("lstm")
    flags = ["--lengths", "4", "--sequences", "4", "--seed", "3", "--out", str(tmp_path / "out")]
    assert length_generalization.main([str(run.path), *flags, "--width", "3.3"]) == 0
    png = (tmp_path / "out" / "length_generalization.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == 990
    caption = (tmp_path / "out" / "length_generalization.caption.txt").read_text(encoding="utf-8")
    content = json.loads((tmp_path / "out" / "length_generalization.json").read_text())
    parameters = content["runs"][0]["parameters"]
    assert (
        f"Training runs: 1 (lstm: lstm on parity, trained at length 32 with seed 2, {parameters} parameters)."
        in caption
    )
    assert "Settings: lengths 4, sequences 4" in caption
    assert "seed 3" in caption
    assert "caption beside it" in capsys.readouterr().out
    assert length_generalization.main([str(run.path), *flags, "--width", "wide"]) == 2
    assert "width is 'wide'; give inches from 3 to 20" in capsys.readouterr().err
