"""docs/your_own_proof.md: the example proves what the page says, in its words."""

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis import check_certificate
from tests.docs.page import is_quoted, section
from theory import Transition, layer_jacobians, solve_fixed_point

TITLE = "Your own cell, proved"


@pytest.mark.filterwarnings("ignore:the curriculum ends at length")  # the page trains for few steps
def test_the_commands_of_the_page_run(
    run_page: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run_page(TITLE)
    printed = capsys.readouterr().out
    assert " ".join(printed.split()).count("No independent check exists for this cell") == 1
    assert "model: implicit-deltanet, with weights of SHA-256 " in printed
    assert "- exactly one fixed point in a ball around the latent: at 4\n" in printed
    content = json.loads(Path("out/parity-deltanet/certify/certificate.json").read_text())
    (claim,) = content["claims"]
    boxes = claim["summary"].pop("range")
    assert claim["summary"] == dict.fromkeys(claim["summary"], 4)
    assert 0 <= boxes <= 4  # some are smaller than the distance between float32 numbers, and do not count
    content = json.loads(Path("runs/proved-leaky/analysis/certify/certificate.json").read_text())
    assert "No independent check exists" in content["claims"][0]["statements"]["meaning"]
    unknown = ["runs/proved-leaky/analysis/certify/certificate.json", "runs/proved-leaky"]
    assert check_certificate.main(unknown) == 2
    assert "for which no independent check exists; give a certificate" in capsys.readouterr().err


def test_the_example_proves_what_float64_measures(
    run_page: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_quoted(TITLE, "proved_gru.py")
    example = import_module("proved_gru")
    proof = example.main()
    assert proof.proved
    assert len(proof.states) == 8
    (shown,) = re.findall(r"```\n(Of 8 states .*?)\n```", section(TITLE), re.DOTALL)
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
