"""Small certificates of all kinds, and the checker that they are given to, as files are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from analysis.certificates.certificate import RefusedError, parse_certificate, parse_json
from analysis.certify import certify
from analysis.check_certificate import CheckSettings, check_certificate
from automata.tasks.word_problem import WordProblem
from implicit.compiled import compile_run
from implicit.config.recipes import recipe
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, initial_model, load_run

Content = dict[str, Any]
ONE_PROCESS = CheckSettings(processes=1)
PAIRS: dict[str, Any] = {"states": 3, "sequences": 2, "length": 4}
COARSE: dict[str, Any] = {"distance": 1e-2, "fraction": 0.02, "rate": 0.9, "gain": 0.95}
"""Few sets; with a larger share they are too wide for orbits to be followed."""
TINY = {"d_model": 2, "head_size": 2, "d_state": 1, "d_conv": 2, "expand": 1}
SMALL = {"d_model": 4, "head_size": 4, "d_state": 2}


@dataclass(frozen=True, eq=False)
class Target:
    kind: str
    run: Run
    content: Content

    def refusal(self, text: str) -> str | None:
        """Return the line that the checker refuses a text with; None if it accepts it."""
        try:
            check_certificate(parse_certificate(parse_json(text.encode())), self.run, ONE_PROCESS)
        except RefusedError as refusal:
            return refusal.line
        return None


def targets(folder: Path) -> Iterator[Target]:
    """Make a certificate of every kind, of untrained models of 2 or 4 features and of a compiled one."""
    explicit = untrained(folder / "explicit", "mamba2", SMALL)
    yield Target("explicit", explicit, certify(explicit, **PAIRS).model_dump(mode="json"))
    coupled = untrained(folder / "coupled", "implicit-mamba2", SMALL, {"out_proj": 16.0})
    yield Target("pairs", coupled, certify(coupled, **PAIRS).model_dump(mode="json"))
    forgetful = untrained(folder / "forgetful", "implicit-mamba2", TINY, {"head": 0.05})
    run = constant(forgetful)
    yield Target("words", run, certify(run, claim="words", length=2).model_dump(mode="json"))
    content = certify(run, claim="lengths", **COARSE).model_dump(mode="json")
    yield Target("every length", run, content)
    scales = {"out_proj": 16.0, "head": 0.05, "in_proj": 0.2}
    run = constant(untrained(folder / "gathered", "implicit-mamba2", TINY, scales))
    yield Target("image balls", run, certify(run, claim="starts", **COARSE).model_dump(mode="json"))
    run = compile_run("S3", folder / "compiled")
    yield Target("executed", run, certify(run, claim="executed").model_dump(mode="json"))


def constant(run: Run) -> Run:
    """Return a run on the task whose answer is the same to every word."""
    names = run.task.token_names, run.task.target_names
    return replace(run, task=WordProblem([[0, 0], [1, 1]], 0, *names, name="constant"))


def untrained(folder: Path, model: str, sizes: dict[str, int], scales: dict[str, float] | None = None) -> Run:
    """Store a model with its initial weights as a finished run, some of them at another scale."""
    config = recipe("parity", model, seed=2, **sizes)
    run = RunFolder(folder)
    run.begin(config)
    network = initial_model(config, config.build_task())
    with torch.no_grad():
        for name, scale in (scales or {}).items():
            network.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
            if name != "head":
                network.get_parameter(f"mixers.0.{name}.weight").mul_(scale)
            else:
                network.get_parameter("mixers.0.A_log").add_(3.0)
                network.get_parameter("head.weight").mul_(scale)
                network.get_parameter("head.bias").copy_(torch.tensor([3.0, -3.0]))
    run.finish(network)
    return load_run(folder)
