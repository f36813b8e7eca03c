"""Mutations of certificates are refused or true; and a checker that looks away is found out."""

import base64
import copy
import itertools
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.certificates import certificate as certificate_format
from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.claims import theorem1
from analysis.certificates.claims.executed import FloatingPointChecker
from analysis.certificates.claims.lengths import CoverChecker
from analysis.certificates.claims.theorem1 import PairChecker
from analysis.certificates.claims.words import OrbitChecker, WordsChecker
from analysis.check_certificate import CheckSettings, check_certificate
from benchmarks.certificate_mutations.__main__ import main
from benchmarks.certificate_mutations.exact_model import ExactModel, entries_of
from benchmarks.certificate_mutations.mutations import HEAD, mutated, numbers_of
from benchmarks.certificate_mutations.sweep import sweep, texts
from benchmarks.certificate_mutations.targets import Target, targets
from benchmarks.certificate_mutations.truth import Judge, differences
from tests.analysis.lines import ONE_PROCESS, Content, Lines
from theory import layer_jacobians, solve_fixed_point

COUNTS = {"explicit": 150, "pairs": 80, "words": 30, "every length": 20}
COUNTS |= {"image balls": 20, "executed": 25}
ANSWERS = ("words", "every length")


Made = dict[str, tuple[Target, Judge]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Certificates, each with the judge of what is true."""
    return {target.kind: (target, Judge(target)) for target in targets(tmp_path_factory.mktemp("runs"))}


def changed(target: Target, change: Callable[[Content], None]) -> dict[str, Any]:
    """The certificate after a change of its lines, with the seal that belongs to it."""
    content = copy.deepcopy(target.content)
    change(Lines(content))
    content["sha256"] = seal(content)
    return content


@pytest.mark.parametrize("kind", COUNTS)
def test_every_mutation_is_refused_or_leaves_a_true_statement(made: Made, kind: str) -> None:
    target, judge = made[kind]
    found = sweep(target, COUNTS[kind], seed=0, judge=judge)
    assert [fault for fault, _ in found.faults] == []
    assert found.mutations == COUNTS[kind]
    assert found.refused.total() > 0.8 * COUNTS[kind]
    assert found.true > 0.02 * COUNTS[kind]  # a checker that refuses everything would be of no use


BLIND: list[tuple[str, type, str]] = [
    ("explicit", PairChecker, "check"),
    ("pairs", PairChecker, "check"),
    ("words", WordsChecker, "check"),
    ("every length", CoverChecker, "check"),
    ("words", OrbitChecker, "check_bundle"),
    ("every length", OrbitChecker, "check_member"),
    ("executed", FloatingPointChecker, "check"),
]


@pytest.mark.parametrize(("kind", "checker", "method"), BLIND)
def test_a_checker_that_looks_away_is_found_out(
    made: Made, monkeypatch: pytest.MonkeyPatch, kind: str, checker: type, method: str
) -> None:
    monkeypatch.setattr(checker, method, lambda *_: None)
    target, judge = made[kind]
    assert any(sweep(target, count, seed=0, judge=judge).faults for count in (25, 80))  # most need 25


def test_states_that_are_not_visited_are_found_out(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem1, "check_states", lambda *_: None)
    assert any("state" in fault for fault, _ in sweep(made["explicit"][0], 100, seed=0).faults)


@pytest.mark.parametrize("kind", COUNTS)
def test_every_kind_bounds_its_work(made: Made, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    target, _ = made[kind]
    certificate = parse_certificate(target.content)
    with pytest.raises(RefusedError, match=r"kind: the check takes up to .* more than --work 1.0e"):
        check_certificate(certificate, target.run, CheckSettings(work=1e-3))
    if kind != "executed":  # it holds the weights alone
        monkeypatch.setattr(certificate_format, "MOST_MEMORY", 0.0)
        with pytest.raises(RefusedError, match=r"kind: the check takes up to .* bytes a process"):
            check_certificate(certificate, target.run, ONE_PROCESS)


@pytest.mark.parametrize("kind", COUNTS)
def test_certificates_that_hold_are_true_and_head_lines_are_true_in_one_form(made: Made, kind: str) -> None:
    target, judge = made[kind]
    assert target.refusal(json.dumps(target.content)) is None
    content = json.loads(json.dumps(target.content))
    for line in set(HEAD) & set(content) - {"unchecked", "sha256"}:
        assert judge.fault({**content, line: "something else"}) is not None
    for line in ("kind", "statements"):
        claims = [{**claim, line: "something else"} for claim in content["claims"]]
        assert judge.fault({**content, "claims": claims}) is not None
    content["unchecked"]["seconds"] += 1
    assert len(differences(target.content, content)) == 1
    assert judge.fault(content) is None
    assert judge.fault({**content, "remark": 1}) is not None


def scaled(text: str, factor: float, row: int | None = None) -> str:
    numbers = numbers_of(text)
    numbers[slice(None) if row is None else row] *= factor
    return base64.b64encode(numbers.tobytes()).decode()


def bundles(part: str, factor: float) -> Callable[[Content], None]:
    """Multiply the numbers of a part of all bundles."""
    return lambda c: c["bundles"].update({part: scaled(c["bundles"][part], factor)})


def other_bundle(content: Content) -> None:
    rows = content["levels"][1] if "levels" in content else {"bundle_of": content["bundle_of"][1]}
    rows["bundle_of"].reverse()


FALSE: dict[str, Callable[[Content], None]] = {
    "few iterations": lambda c: c.update(iterations=8),
    "more iterations than the run has": lambda c: c.update(iterations=1001),
    "coarse tolerance": lambda c: c.update(tolerance=(1e-2).hex()),
    "small latent error": lambda c: c.update(latent_error=(float.fromhex(c["latent_error"]) / 1000).hex()),
    "large step error": lambda c: c.update(step_error=(1e-3).hex()),
    "large region": bundles("radii", 3000.0),
    "small region": bundles("radii", 1e-6),
    "region elsewhere": bundles("latents", 1.3),
    "other metric": bundles("metrics", 1e7),
    "wide boxes": bundles("widths", 1e7),
    "no boxes": bundles("widths", 0.0),
    "boxes elsewhere": bundles("centres", 1.5),
    "other token": lambda c: c["bundles"]["tokens"].__setitem__(0, c["bundles"]["tokens"][0] ^ 1),
    "other bundle": other_bundle,
    "more of a bundle": lambda c: c["bundles"].update(remark=1),
}


@pytest.mark.parametrize(
    ("factor", "said"), [(0.1, "an image is not within"), (4.0, "no contraction on it"), (1.001, None)]
)
def test_balls_that_hold_no_image_or_too_much_are_found_out_by_both(
    made: Made, factor: float, said: str | None
) -> None:
    target, judge = made["image balls"]
    content = copy.deepcopy(target.content)
    starts = content["claims"][1]
    starts["image_radii"] = scaled(starts["image_radii"], factor)
    content["sha256"] = seal(content)
    refusal, fault = target.refusal(json.dumps(content)), judge.fault(content)
    assert (refusal is None) == (fault is None) == (said is None)
    if said is not None:
        assert str(refusal).startswith("claims[1].image_radii[")
        assert said in str(fault)


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("change", FALSE.values(), ids=FALSE)
def test_false_iterations_are_found_out_by_both(
    made: Made, kind: str, change: Callable[[Content], None]
) -> None:
    target, judge = made[kind]
    content = changed(target, change)
    assert target.refusal(json.dumps(content)) is not None
    assert judge.fault(content) is not None


def less_than_proved(lines: Content) -> None:
    lines["iterations"] += 1
    lines["step_error"] = (float.fromhex(lines["step_error"]) / 2).hex()


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_less_than_proved_is_true(made: Made, kind: str) -> None:
    target, judge = made[kind]
    content = changed(target, less_than_proved)
    assert target.refusal(json.dumps(content)) is None
    assert judge.fault(content) is None


ORBITS: dict[str, Callable[[dict[str, Any]], None]] = {
    "earlier": lambda point: point["orbit"].update(iterations=point["orbit"]["iterations"] - 2),
    "calmer": lambda point: point["contraction"].update(growth=(0.5).hex()),
    "endless": lambda point: point.update(contraction=None),
}


@pytest.mark.parametrize("change", ORBITS.values(), ids=ORBITS)
def test_false_orbits_are_found_out(made: Made, change: Callable[[dict[str, Any]], None]) -> None:
    target, judge = made["pairs"]
    assert judge.fault(target.content) is None
    fault = judge.fault(changed(target, lambda lines: change(lines["pairs"][0]["point"])))
    assert fault is not None
    assert ".point." in fault


def test_a_number_may_be_changed_after_another_change_made_it_nan() -> None:
    for seed in range(50):
        assert mutated(dict.fromkeys("abcdefgh", math.nan), random.Random(seed))


def test_mutations_are_of_many_kinds(made: Made) -> None:
    target, _ = made["pairs"]
    lines = list(texts(target, 200, seed=3))
    assert len(set(lines)) > 180
    paths = [
        path for line in lines if "NaN" not in line for path in differences(target.content, json.loads(line))
    ]
    assert len({path[2] if path[0] == "claims" and len(path) > 2 else path[0] for path in paths}) > 8


@pytest.mark.parametrize("kind", ["pairs", "words"])
def test_the_exact_model_is_the_model(made: Made, kind: str) -> None:
    """To what float64 leaves of 40 digits, over the smallest singular value."""
    run = made[kind][0].run
    model = run.model.double()
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    exact = ExactModel(weights, run.config.as_json()["sizes"])
    generator = torch.Generator().manual_seed(0)
    state = {
        name: torch.randn(part.shape[1:], generator=generator, dtype=torch.float64)
        for name, part in model.init_state(1).items()
    }
    parts = exact.state_of({name: part.flatten().tolist() for name, part in state.items()})
    transition = model.transition(1)
    expected = solve_fixed_point(transition, state)
    z = exact.fixed_point(1, parts)
    np.testing.assert_allclose([float(e) for e in z], expected.latent.numpy(), atol=1e-10)
    (jacobian,) = layer_jacobians(transition, state, expected.latent)
    for place in ((0, 1), (1, 0), (1, 1)):
        entry = float(exact.entry(1, z, parts, place))
        assert math.isclose(entry, float(jacobian.dense()[place]), rel_tol=1e-8, abs_tol=1e-11)
    after = transition.state_update(expected.latent, state)
    joined = torch.cat([part.flatten() for part in after.values()]).detach().numpy()
    found = [float(e) for e in entries_of(exact.advance(1, z, parts)[1])]
    np.testing.assert_allclose(found, joined, atol=1e-10)


def test_the_command_tells_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "benchmarks.certificate_mutations.__main__.targets",
        lambda folder: itertools.islice(targets(folder), 1),
    )
    out = tmp_path / "found"
    assert main(["40", "--out", str(out)]) == 0
    assert not out.exists()
    monkeypatch.setattr(PairChecker, "check", lambda *_: None)
    assert main(["60", "--out", str(out)]) == 1
    assert "explicit 0.json: " in capsys.readouterr().out
    assert list(out.iterdir())
