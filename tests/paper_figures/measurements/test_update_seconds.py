"""The time of an update, on a clock that counts evaluations of the layers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from implicit.language.pretrain import Phase
from paper_figures.measurements import language
from paper_figures.measurements.language import TimeSettings, measure_update_seconds
from tests.paper_figures.measurements.language_runs import run_of, write_text

PHASES = (
    Phase(share=0.75, iterations=4, phantom_steps=1, rtol=0.0),
    Phase(share=0.25, iterations=9, phantom_steps=2, rtol=0.0),
)
BOUNDED, FREE = "4+1", "9+2"


class Clock:
    """Stands still but where a model reads a batch: then as many seconds go by as it has self-iterations."""

    def __init__(self) -> None:
        self.now, self.read = 0.0, 0

    def perf_counter(self) -> float:
        return self.now

    def advance(self, model: Any, _: Any, output: Any) -> None:
        assert model.training
        assert torch.is_grad_enabled()
        self.read += 1
        self.now += 1.0 if output.iterations is None else float(output.iterations.max())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(language, "time", clock)
    return clock


@pytest.mark.parametrize("family", ["mamba2", "llama"])
def test_every_phase_is_timed_as_it_trains(family: str, clock: Clock, tmp_path: Path) -> None:
    run = run_of(tmp_path, family, True, phases=PHASES)
    assert run.config.steps % 4 == 0
    run.model.register_forward_hook(clock.advance)
    found = measure_update_seconds(run, TimeSettings(file=write_text(tmp_path), updates=3, warmup=2))
    # 4 and 1, 9 and 2 self-iterations without gradient; the evaluation that measures the residual counts, too
    assert found["update_seconds"] == {BOUNDED: 6.0, FREE: 12.0}
    steps = run.config.steps
    assert found["updates"] == {BOUNDED: 0.75 * steps, FREE: 0.25 * steps}
    assert found["training_seconds"] == steps * (0.75 * 6 + 0.25 * 12)
    assert clock.read == 2 * (3 + 2) * run.config.accumulation


def test_an_explicit_model_has_one_phase(clock: Clock, tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", False, phases=PHASES)
    run.model.register_forward_hook(clock.advance)
    found = measure_update_seconds(run, TimeSettings(file=write_text(tmp_path), updates=3))
    assert found["update_seconds"] == {"explicit": 1.0}
    assert found["training_seconds"] == found["updates"]["explicit"] == run.config.steps


def test_weights_and_settings_stay_what_they_are(tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", True, phases=PHASES)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    found = measure_update_seconds(run, TimeSettings(file=write_text(tmp_path), updates=2))
    assert min(found["update_seconds"].values()) > 0
    after = run.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not run.model.training
    assert (run.model.config.training_max_iterations, run.model.config.phantom_steps) == (9, 2)


def test_a_text_that_is_shorter_than_an_update_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path, "llama", True)
    (tmp_path / "short.txt").write_text("3 plus 4 is 7")
    with pytest.raises(ValueError, match=r"^the text has \d+ tokens, and an update reads \d+$"):
        measure_update_seconds(run, TimeSettings(file=str(tmp_path / "short.txt")))
