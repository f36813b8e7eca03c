"""Weights from which numbers follow that overflow, or are too small, are refused by producer and checker.

A referee made such weights: both programs proved them right, and they answered at chance.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis.certificates.certificate import Certificate, RefusedError
from analysis.certificates.claims.executed import Boxes
from analysis.certify import certify
from automata.errors import InputError
from implicit.compiled import Wiring, compile_run
from implicit.compiled.compile import machine_of
from implicit.compiled.executed import executed_bounds_of
from implicit.compiled.weights import Constants, constants_of
from implicit.models.mamba2 import ImplicitMamba2
from implicit.modes import Solve
from implicit.runs.loading import Run
from tests.analysis.lines import check_as, line_of

LEAST_FLOAT = 1e-45
"""The least positive number of float32."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-S3")


@pytest.fixture(scope="module")
def wiring(run: Run) -> Wiring:
    return Wiring.one_hot(machine_of(run.task)[0])


@pytest.fixture(scope="module")
def constants(run: Run, wiring: Wiring) -> Constants:
    assert isinstance(run.model, ImplicitMamba2)
    return constants_of(run.model, wiring)


def with_numbers(run: Run, numbers: Constants, changed: Constants) -> ImplicitMamba2:
    """The model with other numbers at the places of its own."""
    model = ImplicitMamba2(run.model.config)  # type: ignore[arg-type]
    weights = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}

    def exchange(name: str, tensor: Tensor, *fields: str) -> None:
        new = tensor.clone()
        for field in fields:
            old = torch.tensor(getattr(numbers, field), dtype=torch.float32)
            new[tensor == old] = getattr(changed, field)
        weights[name] = new

    exchange("injections.0.weight", weights["injections.0.weight"], "gate")
    exchange("mixers.0.in_proj.weight", weights["mixers.0.in_proj.weight"], "slope")
    bias = weights["mixers.0.conv1d.bias"]
    exchange("mixers.0.conv1d.bias", bias, "threshold", "constant")
    weights["mixers.0.conv1d.bias"][-2:] = torch.tensor([changed.b, changed.c])
    exchange("mixers.0.dt_bias", weights["mixers.0.dt_bias"], "dt")
    exchange("mixers.0.A_log", weights["mixers.0.A_log"], "a_log")
    exchange("mixers.0.D", weights["mixers.0.D"], "skip", "skip_start")
    exchange("mixers.0.out_proj.weight", weights["mixers.0.out_proj.weight"], "out")
    exchange("head.weight", weights["head.weight"], "answer")
    model.load_state_dict(weights)
    return model.without_kernels()


def accepted(run: Run, certificate: Certificate, model: ImplicitMamba2) -> bool:
    """Whether the checker accepts weights, the hash apart."""
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    try:
        check_as(certificate, run, weights=weights)
    except RefusedError as refusal:
        line = line_of(refusal)
    else:
        return True
    assert line.split(".")[0] in ("weights", "boxes", "config"), line
    return False


@torch.no_grad()
def share_right(run: Run, model: ImplicitMamba2) -> float:
    """Of the answers to random words, in float32 as it is and where denormal numbers are flushed."""
    tokens = np.random.default_rng(0).integers(0, 6, (20, 20))
    right = torch.from_numpy(machine_of(run.task)[0].read(tokens))
    shares = []
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            answers = model.run(torch.from_numpy(tokens), solve=Solve("sequential")).logits.argmax(-1)
        finally:
            torch.set_flush_denormal(False)
        shares.append(float((answers == right).double().mean()))
    return min(shares)


def changes(numbers: Constants) -> dict[str, Constants]:
    """The referee's programs: they compute what the compiled one does, in real numbers."""
    memory = -numbers.skip  # C Δ B, with silu(v) about v/2 for small v and v for large ones
    rate = float(np.exp(numbers.a_log)) * float(np.log1p(np.exp(numbers.dt)))  # Δ A
    step = 1e7
    c = memory / (step * (LEAST_FLOAT / 2))
    return {
        "a layer that overflows": replace(numbers, out=1e20),
        "gates that overflow": replace(numbers, gate=numbers.gate * 1e20),
        "a silu that underflows": replace(
            numbers, b=LEAST_FLOAT, c=c, dt=step, a_log=float(np.log(rate / step))
        ),
        "logits that underflow": replace(numbers, answer=LEAST_FLOAT),
    }


@pytest.mark.parametrize(
    "name",
    ["a layer that overflows", "gates that overflow", "a silu that underflows", "logits that underflow"],
)
def test_they_are_refused_and_would_be_wrong(
    run: Run, wiring: Wiring, constants: Constants, name: str
) -> None:
    model = with_numbers(run, constants, changes(constants)[name])
    assert share_right(run, model) < 0.5
    with pytest.raises(InputError, match="not proved right"):
        executed_bounds_of(model, wiring)
    assert not accepted(run, certify(run, claim="executed"), model)


@pytest.mark.parametrize("number", list(vars(Constants(*[0.0] * 12))))
def test_what_either_side_accepts_is_right_whatever_the_size_of_a_number(
    run: Run, wiring: Wiring, constants: Constants, number: str
) -> None:
    true = certify(run, claim="executed")
    for power in (-40, -30, -20, -12, -6, -3, -1, 0, 1, 3, 6, 12, 20, 30, 37):
        value = getattr(constants, number) * 10.0**power
        if abs(value) > torch.finfo(torch.float32).max:
            continue
        changed = replace(constants, **{number: value})
        model = with_numbers(run, constants, changed)
        certificate = true
        try:
            bounds = vars(executed_bounds_of(model, wiring))
        except InputError:
            proved = False
        else:
            boxes = Boxes(**{name: bounds[name] for name in Boxes.model_fields})
            claim = true.only
            weaker = claim.model_copy(update={"boxes": boxes})
            certificate = true.model_copy(update={"claims": [weaker]}).sealed()
            proved = True
        if proved or accepted(run, certificate, model):
            assert share_right(run, model) == 1, power
        if power == 0:
            assert proved
            assert accepted(run, certificate, model)
