"""Run folders of small models, certificates, and a model made by hand whose tokens have two fixed points."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from analysis.certify import certify
from automata.tasks.registry import make_task, registered_task
from benchmarks.certificate_mutations import targets
from implicit.compiled import compile_run
from implicit.config.recipes import recipe
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from implicit.models.stack import Injections
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, initial_model, load_run
from tests.small_models import small_sizes
from theory import State

SMALL: dict[str, dict[str, Any]] = {
    "implicit-mamba2": {"d_model": 4, "d_state": 2, "head_size": 4},
    "mamba2": {"d_model": 4, "d_state": 2, "head_size": 4},
    "lstm": {"d_model": 6},
}

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write the run folder of a small model with random weights and load it."""

    def make(
        model: str, *, task: str = "parity", contracting: bool = False, name: str = "", **overrides: Any
    ) -> Run:
        config = recipe(task, model, seed=2, **{**SMALL.get(model, small_sizes(model)), **overrides})
        folder = RunFolder(tmp_path / (name or model))
        folder.begin(config)
        network = initial_model(config, registered_task(task))
        if contracting:
            # The next latent then depends less on the last one, and more on the state: about 30 iterations.
            with torch.no_grad():
                network.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
                network.get_parameter("mixers.0.out_proj.weight").mul_(16)
        folder.finish(network)
        return load_run(folder.path)

    return make


@pytest.fixture
def restless(make_run: MakeRun) -> Run:
    """A self-map so steep that it has cycles where it should have fixed points."""
    run = make_run("implicit-mamba2", name="steep", max_iterations=60)
    with torch.no_grad():
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(40)
        run.model.get_parameter("mixers.0.out_proj.weight").mul_(40)
    return run


PAIRS: dict[str, Any] = {"states": 4, "sequences": 4, "length": 6}
"""Settings of the certificates below."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An untrained implicit model, small, of which every pair of a state and a token can be proved."""
    folder = tmp_path_factory.mktemp("runs") / "implicit"
    return targets.untrained(folder, "implicit-mamba2", targets.SMALL, {"out_proj": 16.0})


@pytest.fixture(scope="session")
def explicit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its explicit control."""
    return targets.untrained(tmp_path_factory.mktemp("runs") / "explicit", "mamba2", targets.SMALL)


@pytest.fixture(scope="session")
def content(run: Run) -> dict[str, Any]:
    """The certificate of it; to be copied before it is changed."""
    certificate = certify(run, **PAIRS)
    assert certificate.only.summary == dict.fromkeys(certificate.only.summary, 4)
    return certificate.model_dump(mode="json")


@pytest.fixture(scope="session")
def control(explicit: Run) -> dict[str, Any]:
    """The certificate of the control; to be copied before it is changed."""
    return certify(explicit, **PAIRS).model_dump(mode="json")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The automaton of S3, compiled."""
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-s3")


class Bistable(ImplicitMamba2):
    """Φ(z; s) = tanh(2 z + s/2 + b) with b = ±5/16 by token, and s' = z: two attracting ones per token.

    The class decoded is whether z is positive. Sequential evaluation starts from z = 0 with the final s;
    simultaneous evaluation starts while the token before is still near 0, and may fall to the other side.
    """

    DRIVES = (0.3125, -0.3125)  # exact in float32

    def __init__(self) -> None:
        sizes = {
            "vocabulary_size": 2,
            "output_size": 2,
            "d_model": 1,
            "head_size": 1,
            "d_state": 1,
            "expand": 1,
        }
        super().__init__(ImplicitMamba2Config(**cast(Any, sizes), d_conv=1))
        self.register_buffer("drives", torch.tensor(self.DRIVES))
        self.latent_norm = cast(Any, nn.Identity())
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.head.bias.zero_()

    def _inject(self, tokens: Tensor) -> list[Tensor]:
        return [cast(Tensor, self.drives)[tokens][..., None]]

    def sweep(
        self, stream: Tensor, injections: Injections, state: State, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        before = torch.cat([state["ssm.0"][:, 0, :, 0][:, None], stream[:, :-1]], dim=1)
        image = torch.tanh(2 * stream + before / 2 + cast(Tensor, injections[0]))
        return image, {**state, "ssm.0": stream[:, -1, None, :, None]}

    def advance(self, stream: Tensor, injections: Injections, state: State) -> tuple[Tensor, State]:
        image = torch.tanh(2 * stream + state["ssm.0"][:, 0, :, 0] / 2 + cast(Tensor, injections[0]))
        return image, {**state, "ssm.0": stream[:, None, :, None]}


@pytest.fixture
def bistable_run(tmp_path: Path) -> Run:
    config = recipe("parity", "implicit-mamba2")
    return Run(tmp_path / "bistable", config, Bistable().eval(), make_task("parity"), [])
