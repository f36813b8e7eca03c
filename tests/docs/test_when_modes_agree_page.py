"""docs/when_modes_agree.md: its example runs, and what it says of a run's training is what was stored."""

import re
from pathlib import Path

import pytest
import torch

from analysis.certificates.proofs.lengths import analyse
from implicit.fixed_point import Stopping
from implicit.modes import Solve
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
    found = analyse(load_run("parity-attracted"), starts=True).numbers()
    assert "**proved** at all 26 pairs" in PAGE
    assert "13 sets" in PAGE
    assert (found["sets"], found["all_latents"]["steps"]) == (13, 26)
    assert found["all_latents"]["largest_lipschitz_constant"] <= 0.09


@torch.no_grad()
def test_its_self_map_is_nearly_constant() -> None:
    """Φ(0) at 512 visited states, beside their fixed points to 1e-12, in units of the last norm's weights."""
    model = load_run("parity-attracted").model.double().implicit
    assert model is not None
    tokens = torch.randint(0, 2, (8, 64), generator=torch.Generator().manual_seed(0))
    solve = Solve("sequential", stopping=Stopping(rtol=1e-12, max_iterations=1000))
    fixed = model.run(tokens, solve=solve).solution.latents  # type: ignore[union-attr]
    before = {name: part[:, :-1].flatten(0, 1) for name, part in model.states_at(tokens, fixed).items()}
    image = model.problem(tokens.reshape(-1, 1), before).function(torch.zeros(512, 1, 8).double())
    weight = model.get_parameter("latent_norm.weight")
    wanted = fixed.reshape(512, 1, 8) / weight
    farthest = float(((image / weight - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max())
    assert "Φ(0) is within 3.5% of the fixed point" in PAGE
    assert 0.034 < farthest < 0.035
