"""docs/your_own_analysis.md, "Your own analysis": as a command and from Python, with the right numbers."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.framework.settings import SampleSettings
from analysis.framework.visited_states import sample_sequences
from implicit.runs.loading import load_run
from tests.docs.page import is_quoted

TITLE = "Your own analysis"


def test_the_command_of_the_page_runs(
    run_page: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_quoted(TITLE, "state_size.py")
    run_page(TITLE)
    assert "is the largest part at last" in capsys.readouterr().out
    folder = Path("out/parity/state_size")
    content = json.loads((folder / "state_size.json").read_text())
    assert content["run"]["name"] == "parity"
    assert len(content["result"]["norms"]["ssm.0"]) == 33
    assert (folder / "state_size.pdf").is_file()


def test_the_numbers_are_those_of_the_states_step_by_step(run_page: Callable[[str], None]) -> None:
    run, settings = load_run("parity"), SampleSettings(sequences=3, length=4, seed=1)
    norms = import_module("state_size").measure(run, settings).norms["ssm.0"]
    tokens, _ = sample_sequences(run.task, 3, 4, 1)
    model = run.model.double()
    state, expected = model.init_state(3), []
    with torch.no_grad():
        for token in [*tokens.unbind(1), None]:
            expected.append(float(np.mean([np.linalg.norm(part.ravel()) for part in state["ssm.0"].numpy()])))
            if token is not None:
                state, _ = model.step(state, token)
    # One fixed point is found by both modes, to the configured relative tolerance of 1e-4.
    np.testing.assert_allclose(norms, expected, rtol=1e-3)


def test_a_model_whose_state_grows_is_refused(
    run_page: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from implicit import recipe, train

    sizes = {"d_model": 8, "heads": 2, "key_value_heads": 1, "head_size": 4}
    settings = {"steps": 1, "warmup_steps": 1, "batch_size": 2, "length": 4, "evaluation_sequences": 2}
    train(recipe("parity", "transformer", sizes=sizes, **settings), tmp_path / "run", progress=False)
    assert import_module("state_size").main([str(tmp_path / "run")]) == 2
    assert "is transformer, whose state grows with every token; give the run" in capsys.readouterr().err
