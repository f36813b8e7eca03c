import hashlib
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from analysis import agreement, convergence, jacobian, length_generalization
from analysis.framework.figures import new_figure, save_figure, styled
from analysis.framework.output import RunIdentity, default_folder, json_ready, weights_sha256
from implicit.runs.loading import STORED_RUNS, Run

SMALL = ["--sequences", "3", "--length", "6"]
COMMANDS = {
    "jacobian": (jacobian.main, [*SMALL, "--states", "3"]),
    "convergence": (convergence.main, [*SMALL, "--rtol", "1e-4"]),
    "agreement": (agreement.main, [*SMALL, "--examples", "1", "--starts", "2"]),
    "length_generalization": (length_generalization.main, ["--lengths", "4", "6", "--sequences", "3"]),
}


def test_the_hash_is_that_of_the_weights_file(make_run: Any) -> None:
    run = make_run("implicit-mamba2")
    content = (run.path / "model.safetensors").read_bytes()
    assert weights_sha256(run.model) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_what_was_computed_beside_its_figure(
    make_run: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    main, flags = COMMANDS[name]
    assert main([str(run.path), *flags, "--seed", "7"]) == 0
    folder = run.path / "analysis" / name
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}.{kind}" for kind in ("caption.txt", "json", "pdf", "png")
    ]
    assert all(path.stat().st_size > 300 for path in folder.iterdir())
    assert f"{name}.json" in capsys.readouterr().out
    content = json.loads((folder / f"{name}.json").read_text())
    assert content["settings"]["seed"] == 7
    assert content["environment"]["torch"]
    identity = content["run"] if "run" in content else content["runs"][0]
    assert identity == RunIdentity.of(run).__dict__
    expected: Any = {
        "jacobian": lambda: jacobian.analyse(run, sequences=3, length=6, states=3, seed=7),
        "convergence": lambda: convergence.analyse(run, sequences=3, length=6, rtol=1e-4, seed=7),
        "agreement": lambda: agreement.analyse(run, sequences=3, length=6, examples=1, starts=2, seed=7),
        "length_generalization": lambda: length_generalization.analyse(
            run, lengths=(4, 6), sequences=3, seed=7
        ),
    }[name]()
    # the same computation in the same process: equal to the last bit
    assert content["result"] == json_ready(expected.numbers())


def test_results_of_a_stored_run_do_not_go_into_the_package(make_run: Any) -> None:
    run = make_run("lstm")
    stored = Run(STORED_RUNS / "parity", run.config, run.model, run.task, [])
    assert default_folder(stored, "jacobian") == Path("out/parity/jacobian")
    assert default_folder(run, "jacobian") == run.path / "analysis" / "jacobian"


def test_equal_figures_are_equal_files_and_the_caller_keeps_his_settings(tmp_path: Path) -> None:
    backend, settings = mpl.get_backend(), dict(mpl.rcParams)
    written = []
    for name in ("one", "two"):
        with styled():
            figure = new_figure(3, 2, "title")
            figure.subplots().plot(np.arange(3.0))
        (tmp_path / name).mkdir()
        written.append([path.read_bytes() for path in save_figure(figure, tmp_path / name, "figure")])
    assert written[0] == written[1]
    assert mpl.get_backend() == backend
    assert dict(mpl.rcParams) == settings
    assert not plt.get_fignums()
