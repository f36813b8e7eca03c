"""The runs on catbAbI: what differs between them, their commands, and the data that they need."""

import importlib
import itertools
import math
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.data_files import DATA_VARIABLE
from automata.tasks.catbabi import CatBabi
from automata.tasks.specification import task_from
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from paper_figures.figures import catbabi
from paper_figures.figures.catbabi_training import DIGEST, FILE, NOT_TRAINED, SETTINGS_OF_STATE, specification
from tests.paper_figures.experiments.tiny import ROOT
from tests.paper_figures.figures.story_outcomes import MODELS, POINTS, SETTINGS, points_of
from tests.paper_figures.figures.test_repl_traces import numbers

DATA = Path(os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data")
Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]


def test_every_setting_has_five_models_of_three_seeds_and_the_protocol_comes_first() -> None:
    known = [
        (p.settings["task"], p.settings["model"], p.settings["layers"], p.settings["seed"]) for p in POINTS
    ]
    assert sorted(known) == sorted(
        (setting, model, layers, seed)
        for setting in SETTINGS
        for model, layers in MODELS
        for seed in range(3)
    )
    carried = [name.endswith("carried") for name, *_ in known]
    assert carried == [True] * 30 + [False] * 30
    for half in (known[:30], known[30:]):  # a seed is whole before the next begins
        assert [seed for *_, seed in half] == sorted(seed for *_, seed in half)


def test_tasks_are_what_their_names_say() -> None:
    for point in POINTS:
        config, (_, asked, state) = point.config, point.settings["task"].split("-")
        assert config.task == {
            "catbabi": "$IMPLICIT_SSM_DATA/babi/en-valid-10k.tar.gz",
            "predict": "answers" if asked == "answers" else "all",
            **({} if state == "carried" else {"begins": "anywhere"}),
            "sha256": DIGEST,
            "name": point.settings["task"],
            "description": SETTINGS_OF_STATE[point.settings["task"]],
        }
        curriculum = config.curriculum
        assert curriculum.carried_share == (1.0 if state == "carried" else 0.0)
        assert (curriculum.carried_after, curriculum.carried_always) == (0, True)


def test_models_of_a_seed_are_trained_on_the_same_stories_in_the_same_way() -> None:
    for setting, seed in itertools.product(SETTINGS, range(3)):
        of_seed = [p for p in POINTS if p.settings["task"] == setting and p.seed == seed]
        first, *others = (point.config.flat() for point in of_seed)
        assert len(others) == 4
        for other in others:
            assert {name for name in first if first[name] != other[name]} == {"sizes"} | (
                set() if other["model"] == "mamba2" else {"model"}
            )


def test_one_implicit_layer_has_the_sizes_of_one_explicit() -> None:
    for setting in SETTINGS:
        for one, other in zip(
            points_of(setting, "mamba2"), points_of(setting, "implicit-mamba2"), strict=True
        ):
            sizes = other.config.sizes
            assert {name: sizes[name] for name in one.config.sizes} == one.config.sizes


@pytest.mark.parametrize("number", [0, 3, 4, 33])
def test_the_command_trains_the_point(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command line makes of the command, as a shell splits it, is the configuration."""
    configs = []

    def capture(config: Any, *rest: Any) -> None:
        configs.append(config)
        raise KeyboardInterrupt

    monkeypatch.delenv(DATA_VARIABLE, raising=False)  # nothing of the data is needed for it
    command = importlib.import_module("implicit.train")
    monkeypatch.setattr(command, "train", capture)
    words = shlex.split(POINTS[number].command)
    assert words[:3] == ["python", "-m", "implicit.train"]
    with pytest.raises(KeyboardInterrupt):
        command.main(words[3:])
    assert configs == [POINTS[number].config]


@pytest.mark.parametrize("variable", ["a folder without it", None])
def test_a_rerun_without_the_data_is_refused_and_nothing_is_written(
    variable: str | None, tmp_path: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is None:
        monkeypatch.delenv(DATA_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / variable))

    def rerun(argv: Sequence[str] | None) -> None:
        carry_out(catbabi.EXPERIMENT, Store(tmp_path / "experiments"))

    sentence = refuses(rerun, [])
    assert sentence == (
        f"error: {FILE} begins with IMPLICIT_SSM_DATA, which is not set; set it to the data's folder\n"
        if variable is None
        else f"error: catbabi reads {tmp_path / variable}/babi/en-valid-10k.tar.gz, which is not there; put "
        "it there\n"
    )


@pytest.mark.skipif(
    not (DATA / "babi" / "en-valid-10k.tar.gz").is_file(),
    reason=f"the stories of bAbI do not lie beside the repository, and {DATA_VARIABLE} names no folder",
)
def test_the_stories_are_those_of_the_digest_and_the_caption_tells_what_they_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(DATA))
    task = task_from(specification("catbabi-answers-carried"))
    assert isinstance(task, CatBabi)
    assert task.digest == DIGEST
    assert set(range(1, 21)) - set(task.part("train").tasks.tolist()) == {NOT_TRAINED} == {3}
    tokens, _, tasks = task.part("test").whole_part()
    asked = tasks[tokens == task.token_names.index("?")]
    assert set(asked.tolist()) == set(range(1, 21))
    # 95% of a share of one half, the widest
    whole, single = numbers(
        r"sure to ±([\d.]+) \(95%\), of a task to ±([\d.]+), as if questions",
        catbabi.caption(catbabi.collect([])),
    )
    assert whole == pytest.approx(1.96 * math.sqrt(0.25 / len(asked)), abs=0.0005)  # as it is rounded
    counts = [int((asked == number).sum()) for number in range(1, 21)]
    assert single == pytest.approx(1.96 * math.sqrt(0.25 / np.mean(counts)), abs=0.005)
