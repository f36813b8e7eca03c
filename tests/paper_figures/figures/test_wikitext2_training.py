"""The language models on WikiText-2: what differs between the runs, their commands, the data they need."""

import importlib
import itertools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from automata.data_files import DATA_VARIABLE
from implicit.language.pretrain import read_config
from implicit.language.pretrain.tokens import documents
from implicit.language.sizes import parameter_count
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from paper_figures.figures import wikitext2, wikitext2_iterations
from paper_figures.figures.wikitext2_training import TEXTS, WikiTextPoint
from tests.paper_figures.experiments.tiny import ROOT
from tests.paper_figures.figures.language_outcomes import FAMILIES, KINDS, SIZES, parts

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]

POINTS = wikitext2.EXPERIMENT.points
AGAIN = wikitext2_iterations.EXPERIMENT.points


def test_every_size_has_every_kind_and_family_and_the_largest_one_seed() -> None:
    assert sorted(map(parts, POINTS)) == sorted(
        (family, kind, size, seed)
        for family, kind, (size, (*_, seeds)) in itertools.product(FAMILIES, KINDS, SIZES.items())
        for seed in range(seeds)
    )
    assert len({point.name for point in POINTS}) == len(POINTS) == 30


def test_self_iterations_are_varied_of_implicit_runs_that_are_trained_anyhow() -> None:
    known = {point.identifier: parts(point) for point in POINTS}
    assert sorted(known[point.identifier] for point in AGAIN) == sorted(
        (family, kind, "64 x 2", seed)
        for family, kind, seed in itertools.product(FAMILIES, ("bounded", "free"), range(2))
    )
    assert [known[point.identifier] for point in AGAIN] == [parts(point) for point in AGAIN]


def test_runs_are_what_their_settings_say() -> None:
    bounded = {"iterations": 4, "phantom_steps": 1, "rtol": 0.0}
    for point in POINTS:
        family, kind, size, seed = parts(point)
        config = point.config
        width, layers, _ = SIZES[size]
        assert (config.model.family, config.model.implicit) == (family, kind != "explicit")
        fields = config.model.fields
        assert (fields["hidden_size"], fields["num_hidden_layers"]) == (width, layers)
        assert config.seed == seed
        phases = [phase.model_dump() for phase in config.phases]
        if kind == "free":
            most = {"mamba2": 24, "llama": 32}[family]
            free = {"share": 0.2, "iterations": most, "phantom_steps": 4, "rtol": 0.05}
            assert phases == [{"share": 0.8, **bounded}, free]
        else:
            assert phases == [{"share": 1.0, **bounded}]


def test_all_but_the_kind_is_the_same_of_a_family_size_and_seed() -> None:
    """The same texts in the same order: seed, windows and steps; the same optimizer, the same sizes."""
    for family, (size, (*_, seeds)) in itertools.product(FAMILIES, SIZES.items()):
        for seed in range(seeds):
            alike = [p for p in POINTS if (*parts(p)[::2], parts(p)[3]) == (family, size, seed)]
            assert len(alike) == 3
            contents = [dict(point.config_json) for point in alike]
            for content in contents:
                content.pop("phases")
                content["model"] = {**content["model"], "implicit": None}
            assert contents == [contents[0]] * 3


def test_an_implicit_model_has_its_injection_more() -> None:
    for family, size in itertools.product(FAMILIES, SIZES):
        explicit, bounded, free = (
            parameter_count(point.config.model.build(1024))
            for kind in KINDS
            for point in POINTS
            if parts(point) == (family, kind, size, 0)
        )
        assert explicit < bounded == free < 1.25 * explicit


@pytest.mark.parametrize("point", [*POINTS, *AGAIN], ids=lambda point: point.name)
def test_the_command_trains_the_point(point: Point) -> None:
    """The words that a shell makes of the command, read with the example, are the configuration."""
    assert isinstance(point, WikiTextPoint)
    words = shlex.split(point.command)
    assert words[:4] == [
        "python",
        "-m",
        "implicit.language.pretrain",
        "docs/examples/pretraining/wikitext2.yaml",
    ]
    assert words[-2:] == ["--out", "RUN"]
    flags, changes = words[4:-2:2], tuple(words[5:-2:2])
    assert set(flags) == {"--set"}
    assert read_config(ROOT / words[3], changes) == point.config


def test_the_command_line_makes_the_same_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = []

    def capture(config: Any, *rest: Any, **options: Any) -> None:
        configs.append(config)
        raise KeyboardInterrupt

    command = importlib.import_module("implicit.language.pretrain.__main__")
    monkeypatch.setattr(command, "make_accelerator", capture)
    monkeypatch.chdir(ROOT)
    with pytest.raises(KeyboardInterrupt):
        command.main(shlex.split(POINTS[-1].command)[3:])
    assert configs == [POINTS[-1].config]


def test_the_command_names_the_data_as_a_folder_that_the_shell_leaves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is read by who trains: what is stored of the run is the same on every machine."""
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2" / "train.article-shuffled.txt").write_text("some words")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert POINTS[0].config.train.files == ("$IMPLICIT_SSM_DATA/wikitext-2/train.article-shuffled.txt",)
    assert list(documents(POINTS[0].config.train)) == ["some words"]


@pytest.mark.parametrize("figure", [wikitext2.FIGURE, wikitext2_iterations.FIGURE], ids=lambda f: f.name)
@pytest.mark.parametrize("missing", ["train", "validation", "test"])
def test_a_rerun_without_a_text_is_refused_and_nothing_is_written(
    figure: Any, missing: str, tmp_path: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    files = {part: tmp_path / name.removeprefix("$IMPLICIT_SSM_DATA/") for part, name in TEXTS.items()}
    for part, path in files.items():
        path.parent.mkdir(exist_ok=True)
        if part != missing:
            path.write_text("some words")

    def rerun(argv: Sequence[str] | None) -> None:
        carry_out(figure.experiment, Store(tmp_path / "experiments"))

    assert refuses(rerun, []) == (
        f"error: {figure.name} reads {files[missing]}, which is not there; put it there\n"
    )
