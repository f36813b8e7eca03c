"""The guides to tasks, models, cells, analyses, figures and proofs of one's own do what they say."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis import check_certificate
from analysis.framework.settings import SampleSettings
from analysis.framework.visited_states import sample_sequences
from automata.tasks.interface import Task
from automata.tasks.specification import task_from
from implicit.runs.loading import load_run
from tests.docs.page import EXAMPLES, page, section
from theory import Transition, layer_jacobians, solve_fixed_point

Run = Callable[[str], None]
Captured = pytest.CaptureFixture[str]


def assert_agree(found: Tensor, expected: Tensor) -> None:
    """In float64, for the same few operations in the same order; rows of a batch may be summed otherwise."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_a_regular_expression(run_page: Run, tmp_path: Path, capsys: Captured) -> None:
    run_page("Your own task: a regular expression")
    task = load_run("runs/pairs").task
    assert task.token_names == ("a", "b")
    assert len(task.target_names) == 4  # nothing is open, a or b is, and the sink
    capsys.readouterr()
    run = import_module("regex_task").main(str(tmp_path / "run"), steps=2)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("('a', 'b')")
    (measured,) = run.metrics[-1]["validation"].values()
    assert printed[1] == (
        f"length 32: {measured['accuracy']:.3f}, chance {measured['majority_baseline']:.3f}"
    )
    # After an even number of letters nothing is open: half of the targets are that one.
    assert measured["majority_baseline"] == pytest.approx(0.5, abs=1e-9)
    assert load_run(tmp_path / "run").config.task == {"regex": "(ab|ba)*", "alphabet": ["a", "b"]}


def test_a_file_an_object_and_a_class(run_page: Run) -> None:
    run_page("Your own task: a file, an object, a class")
    assert load_run("runs/light").task.target_names == ("red", "green", "yellow")
    assert load_run("runs/square", allow_code=True).config.task == {"object": "own_tasks:square"}
    assert load_run("runs/repetition", allow_code=True).task.name == "repetition"
    batch = import_module("own_tasks").Repetition().batch(5, 6, np.random.default_rng(0))
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert targets[1:] == [int(x == y) for x, y in pairwise(tokens)]
    assert not batch.counted[:, 0].any()


FOLLOWING = {
    "traffic_light.json": (["go", "go", "wait", "wait"], ["green", "green", "yellow", "red"]),
    "mod3.json": (["2", "2", "1"], ["2", "1", "2"]),
    "three_cups.json": (["swap", "swap", "rotate"], ["213", "123", "231"]),
    "coin.json": ([], []),
}


@pytest.mark.parametrize("name", [file.name for file in EXAMPLES.glob("*.json")])
def test_files_stand_for_what_the_page_says(name: str) -> None:
    tokens, targets = FOLLOWING[name]
    task = task_from({"file": str(EXAMPLES / name)})
    assert isinstance(task, Task)
    if tokens:
        machine = task.machine()
        assert machine is not None
        numbers = np.array([[task.token_names.index(token) for token in tokens]])
        assert [task.target_names[answer] for answer in machine.read(numbers)[0]] == targets


def test_an_automaton(run_commands: Run) -> None:
    text = page("your_own_automaton.md")
    run_commands(text)
    assert load_run("runs/light").task.target_names == ("red", "green", "yellow")
    code = "".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    comments = re.findall(r"^print.*  # (.*)$", code, flags=re.MULTILINE)
    assert printed.getvalue().splitlines() == comments


def test_a_model(run_page: Run) -> None:
    run_page("Your own model")
    run = load_run("runs/matrices", allow_code=True)
    assert run.config.model == "token_matrices:TokenMatrices"
    assert run.config.sizes == {"d_model": 4}
    (code,) = re.findall(r"```python\n(# From Python.*?)```", section("Your own model"), flags=re.DOTALL)
    exec(code.replace("steps=1000", "steps=2, warmup_steps=1, batch_size=4, length=4"), {})
    assert load_run("runs/matrices-s3", allow_code=True).task.name == "S3"


def test_a_model_in_thirty_lines_and_a_loop_of_ones_own(run_commands: Run, capsys: Captured) -> None:
    run_commands(page("your_own_model.md"))
    assert load_run("runs/own-gru", allow_code=True).config.model == "own_gru:OwnGRU"
    capsys.readouterr()
    import_module("own_loop").main(steps=2)
    printed = capsys.readouterr().out
    assert "non-linear; Theorem 1 does not apply (no fixed point); measured at 3 visited states." in printed


def test_the_own_gru_is_the_gru_of_torch(run_commands: Run) -> None:
    """With the same weights; the embedding stands for what torch's input projection makes of a token."""
    torch.manual_seed(0)
    module = import_module("own_gru")
    own = module.OwnGRU(module.Sizes(vocabulary_size=3, output_size=5, d_model=4)).double()
    theirs = torch.nn.GRU(3, 4, batch_first=True).double()
    weights = theirs.state_dict()
    with torch.no_grad():
        own.embedding.weight.copy_(weights["weight_ih_l0"].T + weights["bias_ih_l0"])
        own.recurrent.weight.copy_(weights["weight_hh_l0"])
        own.recurrent.bias.copy_(weights["bias_hh_l0"])
    tokens = torch.randint(3, (2, 6), generator=torch.Generator().manual_seed(0))
    outputs, _ = theirs(torch.nn.functional.one_hot(tokens, 3).double())
    assert_agree(own.states(tokens)["h"][:, 1:], outputs.detach())


@pytest.mark.filterwarnings("ignore:the curriculum ends at length")  # the page trains for few steps
def test_a_cell_and_its_implicit_twin(run_page: Run) -> None:
    run_page("A complete cell, and its implicit twin")
    explicit, implicit = (
        load_run(f"runs/{name}", allow_code=True).model for name in ("leaky", "implicit-leaky")
    )
    assert explicit.implicit is None
    assert implicit.implicit is implicit
    first, second = (
        {name for name, _ in model.named_parameters() if name.startswith("mixers")}
        for model in (explicit, implicit)
    )
    assert first == second


def test_an_analysis(run_page: Run, tmp_path: Path, capsys: Captured) -> None:
    from implicit import recipe, train

    run_page("Your own analysis")
    assert "is the largest part at the end" in capsys.readouterr().out
    folder = Path("out/parity/state_size")
    content = json.loads((folder / "state_size.json").read_text())
    assert content["run"]["name"] == "parity"
    assert len(content["result"]["norms"]["ssm.0"]) == 33
    assert (folder / "state_size.pdf").is_file()

    sizes = {"d_model": 8, "heads": 2, "key_value_heads": 1, "head_size": 4}
    settings = {"steps": 1, "warmup_steps": 1, "batch_size": 2, "length": 4, "evaluation_sequences": 2}
    train(recipe("parity", "transformer", sizes=sizes, **settings), tmp_path / "run", progress=False)
    assert import_module("state_size").main([str(tmp_path / "run")]) == 2
    assert "is transformer, whose state grows with every token; give the run" in capsys.readouterr().err


def test_the_numbers_of_the_analysis_are_those_of_the_states_step_by_step(run_page: Run) -> None:
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


def test_a_figure_is_trained_judged_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", section("Your own figure"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace('"steps": 500', '"steps": 2, "warmup_steps": 1'), names)
    assert names["FIGURE"].verdict(names["results"]).word == "not reproduced"
    assert [row.of for row in names["FIGURE"].rows(names["results"])] == [2, 2]
    assert (tmp_path / "widths.png").is_file()
    lines, marks = names["FIGURE"].picture(names["results"]).axes
    assert [label.get_text() for label in marks.get_yticklabels()] == ["wide", "narrow"]
    assert lines.get_ylim() != marks.get_ylim()  # of accuracies, not of rows


@pytest.mark.filterwarnings("ignore:the curriculum ends at length")  # the page trains for few steps
def test_certificates_of_a_cell(run_page: Run, capsys: Captured) -> None:
    run_page("Your own cell, proved")
    printed = capsys.readouterr().out
    assert " ".join(printed.split()).count("No independent check exists for this cell") == 1
    assert "model: implicit-deltanet, with weights of SHA-256 " in printed
    assert "- exactly one fixed point in a ball around the latent: at 3\n" in printed
    content = json.loads(Path("out/parity-deltanet/certify/certificate.json").read_text())
    (claim,) = content["claims"]
    boxes = claim["summary"].pop("range")
    assert claim["summary"].pop("non_linear") == 2  # one state of three is the only one of its token
    assert claim["summary"] == dict.fromkeys(claim["summary"], 3)
    assert 0 <= boxes <= 3  # some are smaller than the distance between float32 numbers, and do not count
    content = json.loads(Path("runs/proved-leaky/analysis/certify/certificate.json").read_text())
    assert "No independent check exists" in content["claims"][0]["statements"]["meaning"]
    unknown = ["runs/proved-leaky/analysis/certify/certificate.json", "runs/proved-leaky"]
    assert check_certificate.main(unknown) == 2
    assert "for which no independent check exists; give a certificate" in capsys.readouterr().err


def test_the_example_of_a_proof_proves_what_float64_measures(run_page: Run, capsys: Captured) -> None:
    example = import_module("proved_gru")
    proof = example.main()
    assert proof.proved
    assert len(proof.states) == 8
    (shown,) = re.findall(r"```\n(Of 8 states .*?)\n```", section("Your own cell, proved"), re.DOTALL)
    numbers = r"[0-9.]+e?-?[0-9]*"  # bounds differ in their last figures from machine to machine
    assert re.sub(numbers, "", capsys.readouterr().out.strip()) == re.sub(numbers, "", shown)
    transition = Transition(example.self_map, example.update, example.SIZE, (("h",),), damping=0.8)
    state = {"h": torch.zeros(example.SIZE, dtype=torch.float64)}
    for proved in proof.states:
        found = solve_fixed_point(transition, state)
        assert proved.here is not None
        # both sides err by what they bound: the proved error, and the residual over the singular value
        distance = np.abs(found.latent.numpy() - proved.here.latent).max()
        assert distance <= proved.here.error + found.residual / proved.here.singular_value
        ((row, column),), ((low, high),) = proved.places, proved.here.entries
        entry = layer_jacobians(transition, state, found.latent)[0].dense()[row, column].item()
        assert low - 1e-10 <= entry <= high + 1e-10  # the example's state is iterated to about 1e-16
        state = {"h": transition.state_update(found.latent, state)["h"].detach()}
