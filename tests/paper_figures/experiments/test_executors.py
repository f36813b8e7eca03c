"""Workers in other processes give the numbers of this one; bad input is one sentence; SLURM gets an array."""

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from automata.errors import InputError
from paper_figures.experiments import executors
from paper_figures.experiments.executors import Executor, parse_parameters
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import Report, carry_out
from tests.paper_figures.experiments.tiny import ROOT, Log, experiment, logged


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the workers import is what these tests import."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def numbers(report: Report) -> list[Any]:
    """What was measured and of which weights: all but when and how long."""
    return [
        (outcome.point.identifier, outcome.values, outcome.records["training"].run)
        for outcome in report.outcomes
    ]


def test_local_jobs_give_the_numbers_of_this_process(tmp_path: Path) -> None:
    """Each point once, by more than this process, with the same bits; what submitit wrote is gone."""
    log = Measurement("logged", logged, Log(path=str(tmp_path / "log")))
    tiny = experiment(3, *experiment().measurements, log)
    report = carry_out(tiny, Store(tmp_path / "jobs"), Executor(jobs=2))
    assert report.complete
    assert report.sentences() == []
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(name for _, name in lines) == sorted(point.identifier for point in tiny.points)
    assert str(os.getpid()) not in {process for process, _ in lines}
    assert list((tmp_path / "jobs" / "logs").iterdir()) == []
    assert numbers(carry_out(tiny, Store(tmp_path / "here"))) == numbers(report)


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
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def test_slurm_gets_one_array_of_jobs_with_the_parameters(fake_slurm: Path, tmp_path: Path) -> None:
    parameters = parse_parameters(["partition=long", "timeout_min=90", "mem_gb=3"])
    executor = Executor(jobs=2, cluster="slurm", parameters=parameters)
    report = carry_out(experiment(2), Store(tmp_path / "cluster"), executor)
    assert report.complete
    batch = (fake_slurm / "batch").read_text()
    for line in ("--array=0-1%2", "--partition=long", "--time=90", "--mem=3GB", "--job-name=implicit-ssm"):
        assert f"#SBATCH {line}\n" in batch
    assert numbers(carry_out(experiment(2), Store(tmp_path / "here"))) == numbers(report)


@pytest.mark.parametrize("text", ["00812", "1e5", "1_000", "1.50", "inf", "True", "٣"])
def test_slurm_gets_texts_as_given(text: str) -> None:
    assert str(parse_parameters([f"account={text}"])["account"]) == text


@pytest.mark.usefixtures("fake_slurm")
@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [("partitoin=long", "partitoin"), ("timeout_min=soon", "timeout_min"), ("nodes=two", "nodes")],
)
def test_slurm_parameters_that_it_lacks_are_refused(parameter: str, sentence: str, tmp_path: Path) -> None:
    executor = Executor(cluster="slurm", parameters=parse_parameters([parameter]))
    with pytest.raises(InputError, match=sentence) as refused:
        carry_out(experiment(1), Store(tmp_path / "store"), executor)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "store").exists()


def test_a_machine_without_slurm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="this machine has no srun"):
        carry_out(experiment(1), Store(tmp_path / "store"), Executor(cluster="slurm"))
    assert list(tmp_path.iterdir()) == []


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "no job": (lambda: Executor(jobs=0), "jobs is 0; give at least 1"),
    "fewer": (lambda: Executor(jobs=-2), "jobs is -2; give at least 1"),
    "unknown cluster": (lambda: Executor(cluster="pbs"), "cluster 'pbs' is unknown"),
    "parameters of slurm": (lambda: Executor(parameters={"mem_gb": 1}), "give --cluster slurm"),
    "no key": (lambda: parse_parameters(["=3"]), "slurm is '=3'; give KEY=VALUE"),
    "no value": (lambda: parse_parameters(["time="]), "slurm is 'time='; give KEY=VALUE"),
}


@pytest.mark.parametrize(("make", "sentence"), FAULTS.values(), ids=FAULTS)
def test_refuses_bad_input(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_submitit_is_needed_for_more_than_one_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "find_spec", lambda name: None)
    assert Executor(jobs=1).in_process
    for wanted in ({"jobs": 2}, {"cluster": "slurm"}):
        with pytest.raises(InputError, match=r"pip install 'implicit-ssm\[cluster\]'"):
            Executor(**wanted)
