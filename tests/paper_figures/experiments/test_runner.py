"""The runner: what is there is skipped, what fails is kept, what is missing is done, here or elsewhere."""

import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from implicit.runs.loading import Run, load_run
from implicit.train import train
from implicit.training.evaluation import evaluate
from paper_figures.experiments.grid import Experiment, Grid, Measurement, Point
from paper_figures.experiments.runner import carry_out, sentences
from paper_figures.experiments.store import Outcome, Store
from tests.paper_figures.experiments.tiny import LSTM, ROOT, Length, Log, accuracy, experiment, logged


def no_training(*arguments: Any, **options: Any) -> Run:
    raise AssertionError("trained again")


def modified(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_trains_and_measures_every_point(tmp_path: Path) -> None:
    """Against training and measuring by hand."""
    store, (measurement,) = Store(tmp_path / "new" / "store"), experiment().measurements
    outcomes = carry_out(experiment(), store)
    assert all(outcome.complete for outcome in outcomes)
    assert sentences(outcomes, store) == []
    for seed, outcome in enumerate(outcomes):
        by_hand = train(Point({**LSTM, "seed": seed}).config, tmp_path / f"{seed}", progress=False)
        run = load_run(store.run_folder(outcome.point))
        for name, weights in by_hand.model.state_dict().items():
            assert bool((run.model.state_dict()[name] == weights).all())
        found = evaluate(by_hand.model, by_hand.task, 8, sequences=8)
        assert outcome.values["accuracy"]["accuracy"] == found.accuracy
        np.testing.assert_array_equal(outcome.values["accuracy"]["per_position"], found.per_position)
        assert outcome.records["accuracy"]["run"] == outcome.records["training"]["run"]
        assert outcome.records["accuracy"]["environment"]["threads"] == 1
        files = store.file(outcome.point, None).parent.iterdir()
        assert {path.name for path in files} - {"lock"} == {"training.json", measurement.file_name}
        assert outcome.run["seed"] == seed
        assert outcome.run["settings"] == {"task": "parity", "model": "lstm", "seed": seed}


def test_more_seeds_and_measurements_do_what_is_missing(tmp_path: Path) -> None:
    carry_out(experiment(), Store(tmp_path))
    before = modified(tmp_path)
    more = (*experiment().measurements, Measurement("longer", accuracy, Length(length=16)))
    outcomes = carry_out(experiment(3, *more), Store(tmp_path))
    assert [sorted(outcome.values) for outcome in outcomes] == [["accuracy", "longer"]] * 3
    after = modified(tmp_path)
    assert all(after[path] == before[path] for path in before if path.name != "lock")


def test_a_run_that_was_removed_and_trains_to_other_weights_is_measured_anew(tmp_path: Path) -> None:
    (point,) = experiment(1).points
    carry_out(experiment(1), Store(tmp_path))
    record = tmp_path / "records" / point.identifier / "training.json"
    content = json.loads(record.read_text())
    content["run"]["weights_sha256"] = "0" * 64  # as if these had been the weights of another machine
    record.write_text(json.dumps(content))
    (outcome,) = carry_out(experiment(1), Store(tmp_path))
    assert outcome.values["accuracy"]["accuracy"] >= 0
    assert outcome.records["training"]["run"] == outcome.records["accuracy"]["run"]
    assert outcome.records["training"]["run"]["weights_sha256"] != "0" * 64


def odd_seeds_fail(run: Run, settings: None) -> int:
    if run.config.seed % 2:
        raise ValueError("odd\n  seed")
    return run.config.seed


def test_a_failed_measurement_is_kept_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = experiment(2, Measurement("even", odd_seeds_fail), *experiment().measurements)
    outcomes = carry_out(failing, Store(tmp_path))
    assert all(outcome.complete for outcome in outcomes)
    assert [outcome.failure for outcome in outcomes] == [None, "even: ValueError: odd seed"]
    assert [outcome.run["status"] for outcome in outcomes] == ["done", "failed"]
    assert all("accuracy" in outcome.values for outcome in outcomes)
    (sentence,) = sentences(outcomes, Store(tmp_path))
    assert "seed-1 failed (even: ValueError: odd seed)" in sentence
    before = modified(tmp_path)
    monkeypatch.setattr("paper_figures.experiments.grid.train", no_training)
    assert carry_out(failing, Store(tmp_path)) == outcomes  # not tried again
    assert modified(tmp_path) == before


def test_retry_does_what_failed_and_only_that_again(tmp_path: Path) -> None:
    carry_out(experiment(2, Measurement("even", odd_seeds_fail)), Store(tmp_path))
    before = modified(tmp_path)
    mended = experiment(2, Measurement("even", lambda run, settings: run.config.seed))
    assert [o.values for o in carry_out(mended, Store(tmp_path))] == [{"even": 0}, {}]
    outcomes = carry_out(mended, Store(tmp_path), retry_failed=True)
    assert [outcome.values for outcome in outcomes] == [{"even": 0}, {"even": 1}]
    changed = {path for path, time in modified(tmp_path).items() if before.get(path) != time}
    assert {path.name for path in changed} - {"lock"} == {mended.measurements[0].file_name}


def test_a_failed_training_is_kept_as_failed_and_the_others_go_on(tmp_path: Path) -> None:
    """The heads of the first do not divide its width, which only the model itself finds out."""
    settings = {**LSTM, "model": "mamba2", "d_state": 2, "head_size": 4}
    del settings["d_model"]
    grid = Grid({"d_model": [3, 4], "seed": [0]}, settings)
    bad, good = carry_out(Experiment("sizes", (grid,), experiment().measurements), Store(tmp_path))
    assert bad.complete
    assert good.complete
    assert re.match("training: InputError: .*head_size", bad.failure or "")
    assert (bad.values, bad.run["status"]) == ({}, "failed")
    assert (good.failure, list(good.values)) == (None, ["accuracy"])


def test_retry_trains_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a run whose training failed is left when it is tried again."""

    def fail_later(config: Any, out: Path, progress: bool, device: str) -> Run:
        out.mkdir(parents=True)
        (out / "config.json").write_text("{}")
        raise RuntimeError("no memory")

    monkeypatch.setattr("paper_figures.experiments.grid.train", fail_later)
    (outcome,) = carry_out(experiment(1), Store(tmp_path))
    assert outcome.failure == "training: RuntimeError: no memory"
    monkeypatch.setattr("paper_figures.experiments.grid.train", train)
    (outcome,) = carry_out(experiment(1), Store(tmp_path), retry_failed=True)
    assert outcome.failure is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_what_says_nothing_about_the_point_is_no_failure(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> Run:
        raise error

    monkeypatch.setattr("paper_figures.experiments.grid.train", stop)
    with pytest.raises(type(error)):
        carry_out(experiment(1), Store(tmp_path))
    monkeypatch.setattr("paper_figures.experiments.grid.train", train)
    assert carry_out(experiment(1), Store(tmp_path))[0].complete


def test_a_bad_point_anywhere_in_the_grid_begins_nothing(tmp_path: Path) -> None:
    grid = Grid({"learning_rate": [1e-3, -1.0]}, {**LSTM, "seed": 0})
    with pytest.raises(InputError, match="learning_rate is -1"):
        carry_out(Experiment("bad", (grid,), ()), Store(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


def numbers(outcomes: list[Outcome]) -> list[Any]:
    """Return the measurements and their weights, without dates and times."""
    return [(one.point.identifier, one.values, one.records["training"]["run"]) for one in outcomes]


FAKE_SLURM = {
    "sbatch": """
        # Runs every task of the array at once, as the batch file says, and answers as SLURM does.
        import os, subprocess, sys
        from pathlib import Path
        text = Path(sys.argv[1]).read_text()
        Path(os.environ["FAKE_SLURM"], "batch").write_text(text)
        tasks = int(text.split("#SBATCH --array=0-")[1].split("%")[0]) + 1
        for task in range(tasks):
            ids = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task)}
            subprocess.Popen(["bash", sys.argv[1]], env={**os.environ, **ids}, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print("Submitted batch job 7")
    """,
    "srun": """
        import os, sys
        command = sys.argv[sys.argv.index("-m") - 2:]
        os.environ.update(SLURM_NTASKS="1", SLURM_JOB_NUM_NODES="1", SLURM_NODEID="0", SLURM_PROCID="0",
                          SLURM_LOCALID="0")
        os.execv(command[0], command)
    """,
    "sacct": """
        print("JobID|State|NodeList")
    """,
}


@pytest.fixture
def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The three programs of SLURM that submitit calls, on the path."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in FAKE_SLURM.items():
        program = folder / name
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def test_slurm_gets_one_array_of_jobs_with_the_parameters(fake_slurm: Path, tmp_path: Path) -> None:
    slurm = ["partition=long", "account=00812", "timeout_min=90", "mem_gb=3"]
    outcomes = carry_out(experiment(2), Store(tmp_path / "cluster"), jobs=2, cluster="slurm", slurm=slurm)
    batch = (fake_slurm / "batch").read_text()
    for line in ("--array=0-1%2", "--partition=long", "--account=00812", "--time=90", "--mem=3GB"):
        assert f"#SBATCH {line}\n" in batch
    assert numbers(carry_out(experiment(2), Store(tmp_path / "here"))) == numbers(outcomes)


@pytest.mark.usefixtures("fake_slurm")
@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [("partitoin=long", "partitoin"), ("timeout_min=soon", "timeout_min"), ("nodes=two", "nodes")],
)
def test_slurm_parameters_that_it_lacks_are_refused(parameter: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence) as refused:
        carry_out(experiment(1), Store(tmp_path / "store"), cluster="slurm", slurm=[parameter])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "store").exists()


def test_a_machine_without_slurm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="this machine has no srun"):
        carry_out(experiment(1), Store(tmp_path / "store"), cluster="slurm")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"jobs": 0}, "jobs is 0; give at least 1"),
        ({"cluster": "slrum"}, "cluster 'slrum' is unknown; did you mean 'slurm'"),
        ({"slurm": ["mem_gb=1"]}, "give --cluster slurm"),
        ({"slurm": ["=3"]}, "slurm is '=3'; give KEY=VALUE"),
        ({"slurm": ["time="]}, "slurm is 'time='; give KEY=VALUE"),
        ({"device": "abacus"}, "device"),
    ],
    ids=str,
)
def test_refuses_bad_arguments(arguments: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        carry_out(experiment(1), Store(tmp_path / "store"), **arguments)
    assert list(tmp_path.iterdir()) == []


def test_submitit_is_needed_for_more_than_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(InputError, match=r"pip install 'implicit-ssm\[cluster\]'"):
        carry_out(experiment(1), Store(tmp_path), jobs=2)
    assert carry_out(experiment(1), Store(tmp_path))[0].complete


def test_without_a_terminal_each_run_that_ended_is_a_line_with_the_time_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    carry_out(experiment(1), Store(tmp_path))
    slow = Measurement("logged", logged, Log(path=str(tmp_path / "log"), seconds=0.6))
    carry_out(experiment(3, slow), Store(tmp_path))
    *_, first, second, last = capsys.readouterr().err.splitlines()
    assert re.match("tiny: 1 of 3 runs ended, 00:0[1-9]", first)  # two more of at least 0.6 s each
    assert second.startswith("tiny: 2 of 3 runs ended, 00:0")
    assert last == "tiny: 3 of 3 runs ended, 00:00 left"
