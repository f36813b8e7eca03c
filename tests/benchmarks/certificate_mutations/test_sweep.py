"""Mutations of certificates are refused or true; and a checker that looks away is found out."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.certificates.cover.checker import CoverChecker
from analysis.certificates.theorem1 import checker as theorem1
from analysis.certificates.theorem1.checker import Checker
from analysis.certificates.words.checker import WordsChecker
from benchmarks.certificate_mutations.__main__ import main
from benchmarks.certificate_mutations.exact_model import ExactModel, entries_of
from benchmarks.certificate_mutations.mutations import HEAD
from benchmarks.certificate_mutations.sweep import sweep, texts
from benchmarks.certificate_mutations.targets import Target, targets
from benchmarks.certificate_mutations.truth import Judge, differences
from theory import layer_jacobians, solve_fixed_point

COUNTS = {"explicit": 700, "pairs": 300, "words": 700, "every length": 300}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return {target.kind: target for target in targets(tmp_path_factory.mktemp("runs"))}


@pytest.mark.parametrize("kind", COUNTS)
def test_every_mutation_is_refused_or_leaves_a_true_statement(made: dict[str, Target], kind: str) -> None:
    found = sweep(made[kind], COUNTS[kind], seed=0)
    assert [fault for fault, _ in found.faults] == []
    assert found.mutations == COUNTS[kind]
    assert found.refused.total() > 0.8 * COUNTS[kind]
    assert found.true > 0.02 * COUNTS[kind]  # a checker that refuses everything would be of no use


BLIND: list[tuple[str, type, str]] = [
    ("explicit", Checker, "check_pair"),
    ("pairs", Checker, "check_pair"),
    ("words", WordsChecker, "check_from"),
    ("every length", CoverChecker, "check_set"),
]


@pytest.mark.parametrize(("kind", "checker", "method"), BLIND, ids=[kind for kind, _, _ in BLIND])
def test_a_checker_that_looks_away_is_found_out(
    made: dict[str, Target], monkeypatch: pytest.MonkeyPatch, kind: str, checker: type, method: str
) -> None:
    monkeypatch.setattr(checker, method, lambda *_: None)
    assert len(sweep(made[kind], 40, seed=0).faults) >= 1


def test_states_that_are_not_visited_are_found_out(
    made: dict[str, Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorem1, "check_states", lambda *_: None)
    assert any("state" in fault for fault, _ in sweep(made["explicit"], 300, seed=0).faults)


@pytest.mark.parametrize("kind", COUNTS)
def test_certificates_that_hold_are_true_and_head_lines_are_true_in_one_form(
    made: dict[str, Target], kind: str
) -> None:
    target = made[kind]
    assert target.refusal(json.dumps(target.content)) is None
    content = json.loads(json.dumps(target.content))
    for line in set(HEAD) & set(content) - {"unchecked", "settings", "sha256"}:
        assert Judge(target).fault({**content, line: "something else"}) is not None
    content["unchecked"]["seconds"] += 1
    assert len(differences(target.content, content)) == 1
    assert Judge(target).fault(content) is None
    assert Judge(target).fault({**content, "remark": 1}) is not None


def earlier(pair: dict[str, Any]) -> None:
    pair["point"]["orbit"]["iterations"] -= 2


def calmer(pair: dict[str, Any]) -> None:
    pair["point"]["contraction"]["growth"] = (0.5).hex()


def endless(pair: dict[str, Any]) -> None:
    pair["point"] |= {"contraction": None}


@pytest.mark.parametrize("change", [earlier, calmer, endless])
def test_false_orbits_are_found_out(
    made: dict[str, Target], change: Callable[[dict[str, Any]], None]
) -> None:
    content = json.loads(json.dumps(made["pairs"].content))
    assert Judge(made["pairs"]).fault(content) is None
    change(content["pairs"][0])
    fault = Judge(made["pairs"]).fault(content)
    assert fault is not None
    assert ".point." in fault


def test_mutations_are_of_many_kinds(made: dict[str, Target]) -> None:
    lines = list(texts(made["pairs"], 200, seed=3))
    assert len(set(lines)) > 180
    changed = [differences(made["pairs"].content, json.loads(line)) for line in lines if "NaN" not in line]
    assert len({path[0] for paths in changed for path in paths}) > 8


def test_the_exact_model_is_the_model(made: dict[str, Target]) -> None:
    for kind, tolerance in (("pairs", 1e-12), ("words", 1e-12)):  # float64 against 40 digits
        run = made[kind].run
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
        np.testing.assert_allclose([float(e) for e in z], expected.latent.numpy(), atol=tolerance * 100)
        (jacobian,) = layer_jacobians(transition, state, expected.latent)
        for place in ((0, 1), (1, 0), (1, 1)):
            entry = float(exact.entry(1, z, parts, place))
            assert math.isclose(entry, float(jacobian.dense()[place]), rel_tol=1e-8, abs_tol=1e-11)
        after = transition.state_update(expected.latent, state)
        joined = torch.cat([part.flatten() for part in after.values()]).detach().numpy()
        np.testing.assert_allclose(
            [float(e) for e in entries_of(exact.advance(1, z, parts)[1])], joined, atol=tolerance * 100
        )


def test_the_command_tells_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def some(kinds: tuple[str, ...]) -> Callable[[Path], Any]:
        return lambda folder: (target for target in targets(folder) if target.kind in kinds)

    monkeypatch.setattr("benchmarks.certificate_mutations.__main__.targets", some(("explicit",)))
    out = tmp_path / "found"
    assert main(["40", "--out", str(out)]) == 0
    assert not out.exists()
    monkeypatch.setattr(Checker, "check_pair", lambda *_: None)
    assert main(["60", "--out", str(out)]) == 1
    assert "explicit 0.json: " in capsys.readouterr().out
    assert list(out.iterdir())
