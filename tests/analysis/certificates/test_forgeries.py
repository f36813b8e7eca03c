"""Certificates that a forger wrote: each is refused by one sentence, and none writes its own verdict.

They are whole files, sealed anew and given to the command, as a reader gets them.
"""

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import check_certificate
from analysis.certificates.certificate import RefusedError, at_least, seal
from analysis.certificates.producing import identity_of
from analysis.certificates.proofs.theorem1 import certify_pairs
from analysis.certificates.replay import check_state
from analysis.certify import certify
from analysis.check_certificate import CheckSettings
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, TINY, untrained
from implicit.models.interface import FixedPointModel
from implicit.runs.loading import Run
from tests.analysis.conftest import PAIRS
from tests.analysis.forged_certificates import FORGED
from tests.analysis.lines import Content, Lines


@pytest.fixture
def answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Content | str, Run], str]:
    """Give a file to the command: what it prints, after its exit code."""

    def check(content: Content | str, run: Run) -> str:
        if not isinstance(content, str):
            content["sha256"] = seal(content)
            content = json.dumps(content)
        path = tmp_path / "certificate.json"
        path.write_text(content, encoding="utf-8")
        code = check_certificate.main([str(path), str(run.path), "--processes", "1"])
        printed = capsys.readouterr()
        assert (code == 0) == (printed.err == "")
        return f"{code} {printed.out if code == 0 else printed.err}"

    return check


def _assert_refused(printed: str, line: str) -> None:
    assert printed.startswith((f"1 refused: {line}: ", f"1 refused: claims[0].{line}: "))
    assert printed.count("\n") == 1  # one sentence


# A4: states that no word leads to


def _forged_states(content: Content, run: Run, change: Callable[[torch.Tensor], torch.Tensor]) -> Content:
    """Everything proved anew, at other states under the same sequences, positions and tokens."""
    model = run.model.implicit
    assert isinstance(model, FixedPointModel)
    batch = sample_batch(run.task, PAIRS["sequences"], PAIRS["length"], seed=0)
    visited = visited_states(in_double_precision(run.model), batch.tokens, PAIRS["states"])
    moved = [replace(v, state={name: change(part) for name, part in v.state.items()}) for v in visited]
    pairs = certify_pairs(model, moved)
    assert all(pair.point is not None and pair.point.contraction is not None for pair in pairs)
    summary = {"pairs": 4, "existence": 4, "invertibility": 4, "contraction": 4}
    summary["non_diagonal"] = sum(pair.non_diagonal for pair in pairs)
    summary["non_linear"] = sum(pair.non_linear for pair in pairs)
    summary["range"] = sum(pair.range is not None for pair in pairs)
    forged = copy.deepcopy(content)
    Lines(forged)["pairs"] = [pair.model_dump(mode="json") for pair in pairs]
    Lines(forged)["summary"] = summary
    return forged


GENERATOR = torch.Generator().manual_seed(0)
OTHER_STATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "random": lambda part: torch.randn(part.shape, generator=GENERATOR, dtype=part.dtype),
    "zero": torch.zeros_like,
    "turned": lambda part: -part,
    "near": lambda part: part + 1e-5,
    "scaled": lambda part: part * (1 + 1e-5),
}


@pytest.mark.parametrize("name", OTHER_STATES)
def test_states_that_no_word_leads_to_are_refused(
    content: Content, run: Run, answer: Callable[[Content, Run], str], name: str
) -> None:
    _assert_refused(answer(_forged_states(content, run, OTHER_STATES[name]), run), "pairs[0].state")


def test_states_of_other_words_are_refused(
    content: Content, run: Run, answer: Callable[[Content, Run], str]
) -> None:
    """Two pairs of one token exchange all but their places: every claim stays true of its state."""
    forged = copy.deepcopy(content)
    (first, second), *_ = [
        (i, j)
        for i, one in enumerate(forged["claims"][0]["pairs"])
        for j, other in enumerate(forged["claims"][0]["pairs"])
        if i < j and one["token"] == other["token"]
    ]
    one, other = forged["claims"][0]["pairs"][first], forged["claims"][0]["pairs"][second]
    for name in ("sequence", "position"):
        one[name], other[name] = other[name], one[name]
    forged["claims"][0]["pairs"][first], forged["claims"][0]["pairs"][second] = other, one
    for pair in forged["claims"][0]["pairs"]:
        number = pair["elsewhere"]["pair"]
        pair["elsewhere"]["pair"] = {first: second, second: first}.get(number, number)
    _assert_refused(answer(forged, run), f"pairs[{first}].state")


def test_states_of_the_control_are_recomputed_too(
    control: Content, explicit: Run, answer: Callable[[Content, Run], str]
) -> None:
    forged = copy.deepcopy(control)
    numbers = np.frombuffer(base64.b64decode(forged["claims"][0]["pairs"][1]["state"]["ssm.0"]), "<f8")
    forged["claims"][0]["pairs"][1]["state"]["ssm.0"] = base64.b64encode((numbers + 1e-5).tobytes()).decode()
    _assert_refused(answer(forged, explicit), "pairs[1].state")


@pytest.mark.parametrize(("forge", "line"), FORGED.values(), ids=FORGED)
def test_a_forgery_is_refused(
    content: Content,
    run: Run,
    answer: Callable[[Content, Run], str],
    forge: Callable[[Content], None],
    line: str,
) -> None:
    forged = copy.deepcopy(content)
    forge(Lines(forged))
    _assert_refused(answer(forged, run), line)


def test_a_control_that_claims_nothing_is_refused(
    control: Content, explicit: Run, answer: Callable[[Content, Run], str]
) -> None:
    forged = copy.deepcopy(control)
    for pair in forged["claims"][0]["pairs"]:
        pair["decay"] = None
    forged["claims"][0]["summary"]["explicit"] = 0
    _assert_refused(answer(forged, explicit), "pairs")


@pytest.mark.parametrize("prove", [{"claim": "words", "length": 2}, {"claim": "lengths", **COARSE}])
def test_a_model_with_an_mlp_does_not_pass_for_the_one_without(tmp_path: Path, prove: dict[str, Any]) -> None:
    """What is proved of the same weights without the MLP is another model's."""
    with_mlp = untrained(tmp_path / "mlp", "implicit-mamba2", {**TINY, "mlp_size": 4}, {"head": 0.05})
    without = untrained(tmp_path / "none", "implicit-mamba2", TINY, {"head": 0.05})
    own = without.model.state_dict()
    without.model.load_state_dict({n: w for n, w in with_mlp.model.state_dict().items() if n in own})
    names = with_mlp.task.token_names, with_mlp.task.target_names
    task = WordProblem([[0, 0], [1, 1]], 0, *names, name="constant")
    with_mlp, without = replace(with_mlp, task=task), replace(without, task=task)
    proved = certify(without, **prove)
    check_certificate.check_certificate(proved, without, CheckSettings(processes=1))
    about = {"run": identity_of(with_mlp), "config": with_mlp.config.as_json()}
    forged = proved.model_copy(update=about).sealed()
    with pytest.raises(RefusedError, match=r"config\.sizes: are of a model whose mlps\.0\.0\.weight"):
        check_certificate.check_certificate(forged, with_mlp, CheckSettings(processes=1))


@pytest.mark.parametrize("name", ["S5", "S5, and of every other.\nThe certificate holds of run parity"])
def test_the_name_of_a_task_cannot_pass_for_its_table(tmp_path: Path, name: str) -> None:
    run = untrained(tmp_path / "run", "implicit-mamba2", TINY, {"head": 0.05})
    task = WordProblem([[0, 0], [1, 1]], 0, run.task.token_names, run.task.target_names, name=name)
    run = replace(run, task=task)
    certificate = certify(run, claim="words", length=1)
    verdict = check_certificate.check_certificate(certificate, run, CheckSettings(processes=1))
    assert "whose words reach 1 of 2 states (table [[0, 0]], of SHA-256 " in verdict
    *verified, claimed = verdict.split("\n")
    assert "S5" not in "".join(verified)
    assert claimed.startswith("- not verified, the run's own words: ")
    assert f"task {name if name == 'S5' else ascii(name)[:50]}" in claimed


def test_a_part_of_a_state_is_compared_with_its_own_size() -> None:
    """A large window leaves no room beside a small h."""
    found = {"conv.0": np.full((2, 3), 1e6), "ssm.0": np.full((2, 2), 1e-3)}
    near = {name: part.ravel() * (1 + 0.9e-7) for name, part in found.items()}
    check_state(near, found, "state")
    for name, part in found.items():
        with pytest.raises(RefusedError, match="is farther than 1e-07"):
            check_state({**near, name: part.ravel() * (1 + 1.1e-7)}, found, "state")


def test_a_bound_is_never_rounded_up() -> None:
    generator = np.random.default_rng(0)
    numbers = generator.uniform(1, 10, 2000) * 10.0 ** generator.integers(-300, 300, 2000)
    for number in map(float, numbers):
        assert number * 0.99 <= float(at_least(number)) <= number
    assert at_least(0.99999) == "0.999"  # where .3g says 1


TEXTS: dict[str, tuple[str, str, str]] = {
    "key twice": ('"summary"', '"summary": {}, "summary"', "holds the key 'summary' twice"),
    "inner key twice": (
        '"precision": 53',
        '"precision": 53, "precision": 53',
        "holds the key 'precision' twice",
    ),
    "NaN": ('"precision": 53', '"precision": NaN', "holds the literal NaN"),
    "Infinity": ('"seed": 2', '"seed": -Infinity', "holds the literal -Infinity"),
    "huge integer": ('"precision": 53', '"precision": 5' + "3" * 5000, "holds an integer beyond 64 bits"),
    "long integer": ('"precision": 53', f'"precision": {2**63}', "holds an integer beyond 64 bits"),
    "huge decimal": ('"precision": 53', '"precision": 1e400', "holds a number beyond float64"),
    "deep": ('"precision": 53', f'"precision": {"[" * 40 + "]" * 40}', "is nested more than"),
    "absurdly deep": ('"precision": 53', f'"precision": {"[" * 10**5 + "]" * 10**5}', "is nested more than"),
    "comment": ('"precision": 53', '"precision": 53 // as always', "is not valid JSON"),
    "behind the end": ("}}", '}} {"summary": {"pairs": 256}}', "is not valid JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_with_two_meanings_is_refused(
    content: Content, run: Run, answer: Callable[[str, Run], str], name: str
) -> None:
    old, new, reason = TEXTS[name]
    before, _, after = json.dumps(
        {**content, "zz": {}, "sha256": seal(content)} if old == "}}" else content
    ).rpartition(old)
    printed = answer(before + new + after, run)
    assert printed.startswith(f"1 refused: file: {reason}")
    assert printed.count("\n") == 1


def test_the_verdict_is_that_of_the_checker(
    content: Content, run: Run, answer: Callable[[Content, Run], str]
) -> None:
    told = copy.deepcopy(content)
    told["unchecked"] = {
        "search": {"note": "PRAISE"},
        "environment": {"PRAISE": "proved for all words"},
        "seconds": 1e300,
    }
    for certificate in (content, told):
        printed = answer(certificate, run)
        verdict, model, *conditions, seconds, _ = printed.split("\n")
        assert "PRAISE" not in printed
        assert verdict.startswith("0 The certificate holds: C1 to C4 of Theorem 1 hold at 4 of 4 pairs")
        assert model.startswith("- model: implicit-mamba2, with weights of SHA-256 ")
        assert "- exactly one fixed point in a ball around the latent: at 4" in conditions
        assert any(line.startswith("- not covered: other states, and the model's own") for line in conditions)
        assert seconds.startswith("Checked in ")


def test_what_fails_in_the_checker_is_no_refusal(
    content: Content, run: Run, answer: Callable[[Content, Run], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(check_certificate, "check", broken)
    printed = answer(copy.deepcopy(content), run)
    assert printed.startswith(f"{check_certificate.INTERNAL_ERROR} Traceback")
    assert printed.endswith("internal error: the checker failed; nothing is said of the certificate\n")
    assert "refused" not in printed
