"""The command: one figure and one file of numbers for runs of several tasks."""

import json
from pathlib import Path
from typing import Any

from analysis import belief

FLAGS = ["--sequences", "4", "--probe-sequences", "8", "--probe-validation", "4", "--window", "4"]


def test_runs_of_several_tasks_and_models_stand_in_one_figure(make_run: Any, tmp_path: Path) -> None:
    runs = [
        make_run("lstm", task="noisy-parity-states", length=8),
        make_run("transformer", task="lazy-swaps-3-reveals", length=16),
    ]
    out = tmp_path / "out"
    argv = [*(str(run.path) for run in runs), "--multiples", "1", "2", *FLAGS, "--out", str(out)]
    assert belief.main(argv) == 0
    content = json.loads((out / "belief.json").read_text())
    assert content["result"]["lstm"]["lengths"] == [8, 16]
    assert content["result"]["transformer"]["lengths"] == [16, 32]
    assert content["result"]["transformer"]["norms"] is None
    # a state is asked after every token: as many places as tokens
    by_length = content["result"]["lstm"]["predictions"]["by_length"]
    assert [by_length[length]["kl"]["places"] for length in ("8", "16")] == [32, 32]
