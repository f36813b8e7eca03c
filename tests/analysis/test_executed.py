"""Certificates of executed floats: true ones hold, and no line can be made to say more.

Numbers that overflow, or are too small, are refused by producer and checker. A referee made such weights:
both programs proved them right, and they answered at chance.
"""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis import executed
from analysis.certificates.arb.linear import precision
from analysis.certificates.certificate import Certificate, RefusedError, parse_certificate, seal
from analysis.certificates.claims.executed import Boxes, FloatingPoint, FloatingPointChecker, read_program
from analysis.certificates.producing import identity_of
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from automata.errors import InputError
from implicit.compiled import Wiring, compile_run
from implicit.compiled.compile import machine_of
from implicit.compiled.executed import executed_bounds_of
from implicit.compiled.weights import Constants, constants_of
from implicit.models.registry import ImplicitMamba2
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import (
    ONE_PROCESS,
    Content,
    Lines,
    check_as,
    forgeries,
    line_of,
    put,
    scaled,
    weights_of,
)


@pytest.fixture(scope="module")
def run(compiled: Run) -> Run:
    return compiled


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    return certify(run, claim="executed").model_dump(mode="json")


def test_true_certificates_and_weaker_ones_hold(run: Run, content: Content) -> None:
    """The check is of what is claimed, not of the producer's numbers."""
    for margin in (Lines(content)["boxes"]["margin"], (0.5).hex()):
        weaker = copy.deepcopy(content)
        put("boxes/margin", margin)(Lines(weaker))
        check_certificate(parse_certificate({**weaker, "sha256": seal(weaker)}), run, ONE_PROCESS)


@pytest.mark.parametrize("damping", [0.1, 0.8])
def test_damped_ones_hold_too(tmp_path: Path, damping: float) -> None:
    run = compile_run("parity", tmp_path / "run", damping=damping)
    check_certificate(certify(run, claim="executed"), run, ONE_PROCESS)


STRONGER = {  # by a percent to ten: all that lies between the producer's bounds and the checker's
    "leftover": 0.99,
    "leak": 0.9,
    "least_write": 1.01,
    "most_write": 0.99,
    "leaked": 0.97,
    "least_read": 1.01,
    "least_first": 1.01,
    "dominance": 1.01,
    "length": 0.999999,
    "off": 0.97,
    "margin": 1.01,
}


BOXES, RTOL = ("boxes.",), ("boxes.", "rtol")
FORGED = {
    **{f"stronger {name}": scaled(f"boxes/{name}", STRONGER[name], BOXES) for name in Boxes.model_fields},
    **{
        f"{name} of {value}": put(f"boxes/{name}", value.hex(), BOXES)
        for name in Boxes.model_fields
        for value in (0.0, -1.0, 1e300)
    },
    "answers": put("automaton", lambda old: old | {"answers": old["table"]}, ("automaton", "boxes.off")),
    "initial state": put("automaton/initial_state", 1, "automaton"),
    "type": put("dtype", "float16"),
    **{f"rtol of {rtol}": put("rtol", rtol.hex(), RTOL) for rtol in (0.2, 0.003, -1.0)},
    "more ulps": put("ulps", 64, BOXES),
    **{f"{ulps} ulps": put("ulps", ulps) for ulps in (1, 3, 1025)},
}
test_a_forged_line_is_refused = forgeries(FORGED)


def test_every_weight_is_looked_at(run: Run, content: Content) -> None:
    certificate = parse_certificate(content)
    true = weights_of(run.model)
    assert certificate.automaton is not None
    automaton, answers = certificate.automaton, certificate.automaton.table
    check_as(certificate, run, weights=true)
    rng = np.random.default_rng(0)
    for name, weight in true.items():
        for place in rng.integers(0, weight.size, 4):
            changed = weight.copy()
            changed.reshape(-1)[place] = np.nextafter(changed.reshape(-1)[place], np.float32(np.inf))
            try:
                check_as(certificate, run, weights={**true, name: changed})
            except RefusedError:
                continue
            # the only weight of its kind: a number of the proof, which holds for its neighbour too
            assert name in ("mixers.0.D", "mixers.0.conv1d.bias")
            arguments = content["config"]["sizes"], automaton, answers
            assert read_program({**true, name: changed}, *arguments) != read_program(true, *arguments)
    for name in ("mixers.0.out_proj.weight", "mixers.0.in_proj.weight", "injections.0.weight", "head.weight"):
        moved = np.roll(true[name], 1, axis=0)
        with pytest.raises(RefusedError, match="weights"):
            check_as(certificate, run, weights={**true, name: moved})


def test_weights_of_another_number_of_tokens_are_refused(run: Run, content: Content) -> None:
    """With a token less all else may be as it should be: that token is never asked about."""
    certificate = parse_certificate(content)
    weights = weights_of(run.model)
    inner = weights["mixers.0.out_proj.weight"].shape[1]
    (feature,) = np.flatnonzero(weights["embedding.weight"][-1])
    channels = np.flatnonzero(weights["injections.0.weight"][:inner, feature])
    weights["injections.0.weight"][:, feature] = 0
    weights["mixers.0.in_proj.weight"][inner + channels] = 0
    weights["mixers.0.conv1d.bias"][channels] = 0
    weights["mixers.0.out_proj.weight"][:, channels] = 0
    weights["embedding.weight"] = weights["embedding.weight"][:-1]
    with pytest.raises(RefusedError, match=r"embedding\.weight: has not one row for each token"):
        check_as(certificate, run, weights=weights)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.0])
@pytest.mark.parametrize("name", ["mixers.0.conv1d.bias", "mixers.0.D", "mixers.0.out_proj.weight"])
def test_channels_that_no_token_opens_are_looked_at(
    run: Run, content: Content, name: str, value: float
) -> None:
    """A number that is not finite times 0 is not 0."""
    certificate = parse_certificate(content)
    weights = weights_of(run.model)
    weights[name][..., -1 if name != "mixers.0.conv1d.bias" else -3] = value
    with pytest.raises(RefusedError, match=r"weights|boxes"):
        check_as(certificate, run, weights=weights)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("slope", 0.6), ("threshold", 0.5), ("skip", 1.001), ("skip_start", 1.2), ("out", 0.1), ("gate", 0.01)],
)
def test_programs_with_other_numbers_are_refused(
    run: Run, content: Content, name: str, factor: float
) -> None:
    certificate = parse_certificate(content)
    weights = weights_of(run.model)
    claim, automaton = certificate.only, certificate.automaton
    assert isinstance(claim, FloatingPoint)
    assert automaton is not None
    program = read_program(weights, content["config"]["sizes"], automaton, automaton.table)
    changed = replace(program, **{name: getattr(program, name) * factor})
    with precision(128), pytest.raises(RefusedError, match="boxes"):
        FloatingPointChecker(changed, claim.boxes, claim.ulps, claim.rtol, 1.0).check()


def test_runs_that_are_not_compiled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run parity is not compiled"):
        executed.analyse(load_run("parity"))
    certificate = certify(compile_run("parity", tmp_path / "run"), claim="executed")
    for name in ("parity", "parity-small", "s3-gated-deltanet"):  # what is true of a compiled run
        run = load_run(name)
        head = {"run": identity_of(run), "config": run.config.as_json()}
        with pytest.raises(RefusedError):
            check_certificate(certificate.model_copy(update=head).sealed(), run, ONE_PROCESS)


def test_too_much_to_allow_for_is_not_proved(run: Run) -> None:
    for chosen in ({"rtol": 0.1}, {"ulps": 1024}):
        with pytest.raises(InputError, match="the executed model is not proved right"):
            executed.analyse(run, **chosen)


def test_half_precision_is_refused(run: Run, content: Content) -> None:
    changed = load_run(run.path)
    changed.model.to(torch.bfloat16)
    with pytest.raises(InputError, match="the weights are bfloat16; give a model in float32 or float64"):
        executed.analyse(changed)
    forged = parse_certificate(content).model_copy(update={"run": identity_of(changed)}).sealed()
    with pytest.raises(RefusedError, match="dtype: is not that of all weights"):
        check_certificate(forged, changed, ONE_PROCESS)


LEAST_FLOAT = 1e-45
"""The least positive number of float32."""


@pytest.fixture(scope="module")
def wiring(run: Run) -> Wiring:
    return Wiring.one_hot(machine_of(run.task)[0])


@pytest.fixture(scope="module")
def constants(run: Run, wiring: Wiring) -> Constants:
    assert isinstance(run.model, ImplicitMamba2)
    return constants_of(run.model, wiring)


PLACES = {
    "injections.0.weight": ["gate"],
    "mixers.0.in_proj.weight": ["slope"],
    "mixers.0.conv1d.bias": ["threshold", "constant"],
    "mixers.0.dt_bias": ["dt"],
    "mixers.0.A_log": ["a_log"],
    "mixers.0.D": ["skip", "skip_start"],
    "mixers.0.out_proj.weight": ["out"],
    "head.weight": ["answer"],
}
"""The weights that hold a number of the program; two more end the bias."""


def with_numbers(run: Run, numbers: Constants, changed: Constants) -> ImplicitMamba2:
    """The model with other numbers at the places of its own."""
    model = ImplicitMamba2(run.model.config)  # type: ignore[arg-type]
    model.load_state_dict(run.model.state_dict())
    for name, fields in PLACES.items():
        weight, old = model.get_parameter(name).data, run.model.get_parameter(name)
        for field in fields:
            weight[old == torch.tensor(getattr(numbers, field))] = getattr(changed, field)
    model.get_parameter("mixers.0.conv1d.bias").data[-2:] = torch.tensor([changed.b, changed.c])
    return model.without_kernels()


def accepted(run: Run, certificate: Certificate, model: ImplicitMamba2) -> bool:
    """Tell whether the checker accepts weights, the hash apart."""
    try:
        check_as(certificate, run, weights=weights_of(model))
    except RefusedError as refusal:
        line = line_of(refusal)
    else:
        return True
    assert line.split(".")[0] in ("weights", "boxes", "config"), line
    return False


@torch.no_grad()
def share_right(run: Run, model: ImplicitMamba2) -> float:
    """The share of right answers to random words, in float32, also with denormal numbers flushed."""
    tokens = np.random.default_rng(0).integers(0, 6, (50, 8))
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


def test_programs_that_overflow_or_underflow_are_refused_and_would_be_wrong(
    run: Run, content: Content, wiring: Wiring, constants: Constants
) -> None:
    for name, changed in changes(constants).items():
        model = with_numbers(run, constants, changed)
        assert share_right(run, model) < 0.5, name
        with pytest.raises(InputError, match="not proved right"):
            executed_bounds_of(model, wiring)
        assert not accepted(run, parse_certificate(content), model), name


@pytest.mark.parametrize("number", list(vars(Constants(*[0.0] * 12))))
def test_what_either_side_accepts_is_right_whatever_the_size_of_a_number(
    run: Run, content: Content, wiring: Wiring, constants: Constants, number: str
) -> None:
    true = parse_certificate(content)
    for power in (-40, -6, -1, 0, 1, 6, 37):
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
