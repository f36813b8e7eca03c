import json
import pickle
import shlex
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from analysis import demo, report
from implicit.runs.loading import load_run
from implicit.train import train

TINY = shlex.split(
    "--steps 2 --states 2 --states-length 4 --lengths 4 12 --sequences 8 --agreement-sequences 2 "
    "--convergence-sequences 2 --mode-length 4 --max-iterations 50"
)


class Here(Executor):
    """Runs what two processes would, from and to bytes as there; their imports take longest."""

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        function, arguments, options = pickle.loads(pickle.dumps((function, arguments, options)))
        future: Future[Any] = Future()
        future.set_result(pickle.loads(pickle.dumps(function(*arguments, **options))))
        return future


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "two_processes", lambda: Here())
        assert demo.main(["--out", str(place), *TINY]) == 0
    return place


def test_the_report_holds_what_it_promises(folder: Path) -> None:
    content = json.loads((folder / "report.json").read_text())
    assert content["seconds"] > 0
    assert list(content["models"]) == ["implicit-mamba2", "mamba2", "lstm"]
    lengths = json.loads((folder / "analysis" / "length_generalization.json").read_text())["result"]
    for name, model in content["models"].items():
        assert list(model["accuracy"]) == ["4", "12"]
        assert model["accuracy"] == lengths[name]["accuracy"]
        jacobian = json.loads((folder / "analysis" / name / "jacobian.json").read_text())
        assert model["theorem1"] == jacobian["result"]["theorem1"]
        assert model["weights_sha256"] == jacobian["run"]["weights_sha256"]
        assert ("agreement" in model) == (name == "implicit-mamba2")
        assert model["training_steps"] == 2
    assert content["models"]["mamba2"]["theorem1"]["verdict"] == "does not apply"
    assert 0 <= content["models"]["implicit-mamba2"]["agreement"]["tokens"] <= 1


def test_every_figure_of_the_report_exists(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    linked = [part.split(")")[0] for part in text.split("](")[1:]]
    settings = report.ReportSettings()
    runs = [load_run(folder / "runs" / name) for name in ("implicit-mamba2", "mamba2", "lstm")]
    tasks = [task for run in runs for task in report.tasks_of(run, folder, settings)]
    assert len(linked) == len([*tasks, *report.comparison_tasks(runs, folder, settings)])
    for path in linked:
        for suffix in (".png", ".pdf", ".json"):
            assert (folder / path).with_suffix(suffix).stat().st_size > 1000


def test_a_finished_demo_is_not_trained_again(folder: Path) -> None:
    weights = folder / "runs" / "implicit-mamba2" / "model.safetensors"
    before = weights.stat().st_mtime_ns, weights.read_bytes()
    settings = demo.DemoSettings(steps=2)
    demo.train_controls(folder, settings)
    train(demo.demo_config(demo.IMPLICIT, settings), weights.parent)
    assert (weights.stat().st_mtime_ns, weights.read_bytes()) == before
