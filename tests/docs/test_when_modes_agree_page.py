"""docs/when_modes_agree.md: its example runs, and what it says of a run's training is what was stored."""

import re
from pathlib import Path

import pytest

from implicit.runs.loading import load_run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "when_modes_agree.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(example, "docs/when_modes_agree.md", "exec"), {})
    assert capsys.readouterr().out.startswith("True 0.088")


def test_what_it_says_of_the_run_of_which_every_start_is_proved() -> None:
    config, (*_, last) = load_run("parity-attracted").config, load_run("parity-attracted").metrics
    small = load_run("parity-small").config
    assert {name: config.sizes[name] for name in small.sizes} == small.sizes
    assert (config.initial.run, config.curriculum.image_ball_weight) == ("parity-small", 0.2)  # type: ignore[union-attr]
    assert (config.steps, config.length, config.batch_size) == (1000, 16, 48)
    assert [last["validation"][length]["accuracy"] for length in ("64", "512")] == [1.0, 1.0]
