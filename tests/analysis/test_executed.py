"""Certificates of executed floats: true ones hold, and no line can be made to say more."""

import copy
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import check_certificate as command
from analysis import executed
from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.claims.executed import Boxes, FloatingPoint, FloatingPointChecker, read_program
from analysis.certificates.producing import identity_of
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from automata.errors import InputError
from implicit.compiled import compile_run
from implicit.runs.files import write_json
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import Lines, check_as, line_of

Content = MutableMapping[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-S3")


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    return certify(run, claim="executed").model_dump(mode="json")


def refusal(content: Content, run: Run) -> str:
    """The line that a resealed document is refused for."""
    sealed = {**content, "sha256": seal(content)}
    with pytest.raises(RefusedError) as refused:
        check_certificate(parse_certificate(sealed), run)
    return line_of(refused.value)


def test_true_certificates_hold(run: Run, content: Content) -> None:
    check_certificate(parse_certificate(content), run)


@pytest.mark.parametrize("damping", [0.1, 0.8])
def test_damped_ones_hold_too(tmp_path: Path, damping: float) -> None:
    run = compile_run("parity", tmp_path / "run", damping=damping)
    check_certificate(certify(run, claim="executed"), run)


STRONGER = {
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


@pytest.mark.parametrize("name", Boxes.model_fields)
def test_no_box_can_be_made_stronger(run: Run, content: Content, name: str) -> None:
    """By a percent to ten: that is all that lies between the producer's bounds and the checker's."""
    forged = copy.deepcopy(content)
    lines = Lines(forged)["boxes"]
    lines[name] = (float.fromhex(lines[name]) * STRONGER[name]).hex()
    assert refusal(forged, run).startswith("boxes.")


@pytest.mark.parametrize("name", Boxes.model_fields)
@pytest.mark.parametrize("value", [0.0, -1.0, 1e300])
def test_boxes_out_of_range_are_refused(run: Run, content: Content, name: str, value: float) -> None:
    forged = copy.deepcopy(content)
    Lines(forged)["boxes"][name] = value.hex()
    assert refusal(forged, run).startswith("boxes.")


def test_weaker_margins_are_accepted(run: Run, content: Content) -> None:
    """The check is of what is claimed, not of the producer's numbers."""
    weaker = copy.deepcopy(content)
    Lines(weaker)["boxes"]["margin"] = (0.5).hex()
    check_certificate(parse_certificate({**weaker, "sha256": seal(weaker)}), run)


def _initial(content: Content) -> None:
    content["automaton"]["initial_state"] = 1


FORGERIES: dict[str, Callable[[Content], None]] = {
    "automaton.answers": lambda content: content["automaton"].update(answers=content["automaton"]["table"]),
    "rtol": lambda content: content.update(rtol=(0.2).hex()),
    "dtype": lambda content: content.update(dtype="float16"),
}


@pytest.mark.parametrize("line", FORGERIES)
def test_forged_lines_are_named(run: Run, content: Content, line: str) -> None:
    forged = copy.deepcopy(content)
    FORGERIES[line](Lines(forged))
    assert refusal(forged, run) in (line, line.split(".")[0], "boxes.off")


def test_other_initial_states_tolerances_and_ulps_are_refused(run: Run, content: Content) -> None:
    forged = copy.deepcopy(content)
    _initial(forged)
    assert refusal(forged, run) == "automaton"
    for change in ({"rtol": (0.003).hex()}, {"ulps": 64}, {"rtol": (-1.0).hex()}):
        forged = copy.deepcopy(content)
        Lines(forged).update(change)
        assert refusal(forged, run).split(".")[0] in ("boxes", "rtol")
    for ulps in (1, 3, 1025):
        forged = copy.deepcopy(content)
        Lines(forged)["ulps"] = ulps
        assert refusal(forged, run) == "ulps"


def test_every_weight_is_looked_at(run: Run, content: Content) -> None:
    """The hash apart: a weight moved to another place, or changed by one float, is refused."""
    certificate = parse_certificate(content)
    true = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
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
    weights = {name: tensor.numpy().copy() for name, tensor in run.model.state_dict().items()}
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
    weights = {key: tensor.numpy().copy() for key, tensor in run.model.state_dict().items()}
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
    from analysis.certificates.arb.models import precision

    certificate = parse_certificate(content)
    weights = {key: tensor.numpy() for key, tensor in run.model.state_dict().items()}
    claim, automaton = certificate.only, certificate.automaton
    assert isinstance(claim, FloatingPoint)
    assert automaton is not None
    program = read_program(weights, content["config"]["sizes"], automaton, automaton.table)
    changed = replace(program, **{name: getattr(program, name) * factor})
    with precision(128), pytest.raises(RefusedError, match="boxes"):
        FloatingPointChecker(changed, claim.boxes, claim.ulps, claim.rtol, 1.0).check()


def test_runs_that_are_not_compiled_are_refused() -> None:
    with pytest.raises(InputError, match="run parity is not compiled"):
        executed.analyse(load_run("parity"))
    for name in ("parity", "parity-small", "s3-gated-deltanet"):
        with pytest.raises(RefusedError):
            check_certificate(parse_certificate(_stolen(load_run(name))), load_run(name))


def _stolen(run: Run) -> Content:
    """A document that says of a trained run what is true of a compiled one."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        compiled = compile_run("parity", Path(folder) / "run")
        certificate = certify(compiled, claim="executed")
    head = {"run": identity_of(run), "config": run.config.as_json()}
    return certificate.model_copy(update=head).sealed().model_dump(mode="json")


def test_too_much_to_allow_for_is_not_proved(run: Run) -> None:
    for chosen in ({"rtol": 0.1}, {"ulps": 1024}):
        with pytest.raises(InputError, match="the executed model is not proved right"):
            executed.analyse(run, **chosen)


def test_half_precision_is_refused(run: Run) -> None:
    changed = load_run(run.path)
    changed.model.to(torch.bfloat16)
    with pytest.raises(InputError, match="the weights are bfloat16; give a model in float32 or float64"):
        executed.analyse(changed)


def test_commands(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert executed.main([str(run.path), "--out", str(tmp_path)]) == 0
    assert "all words of every length" in capsys.readouterr().out.replace("\n", " ")
    document = tmp_path / "certificate.json"
    assert command.main([str(document), str(run.path)]) == 0
    content = parse_certificate(__import__("json").loads(document.read_bytes())).model_dump(mode="json")
    Lines(content)["boxes"]["margin"] = (0.9).hex()
    write_json(document, {**content, "sha256": seal(content)})
    assert command.main([str(document), str(run.path)]) == 1
    assert "refused: claims[0].boxes.margin: is too large" in capsys.readouterr().err
