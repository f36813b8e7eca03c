"""A certificate that was changed is refused, with the first line that fails; so are other weights."""

import copy
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from analysis import check_certificate
from analysis.certificates import certificate as certificate_format
from analysis.certificates import replay
from analysis.certificates.certificate import RefusedError, check_identity, parse_certificate
from analysis.certificates.claims.theorem1 import Explicit, PairChecker
from analysis.certificates.producing import identity_of
from analysis.certify import certify
from analysis.check_certificate import CheckSettings
from implicit.runs.files import read_tensors, write_tensors
from implicit.runs.folder import RunFolder
from implicit.runs.loading import STORED_RUNS, Run, load_run
from tests.analysis.lines import ONE_PROCESS, Content, Lines, line_of, put, weights_of

HALF_PRECISIONS = torch.bfloat16, torch.float16


def _refusal(content: Content, run: Run) -> str:
    with pytest.raises(RefusedError) as refusal:
        check_certificate.check_certificate(parse_certificate(content), run, ONE_PROCESS)
    return line_of(refusal.value)


def wider(ends: list[str]) -> list[str]:
    lower, upper = map(float.fromhex, ends)
    return [math.nextafter(lower, -math.inf).hex(), math.nextafter(upper, math.inf).hex()]


def test_a_change_that_leaves_all_lines_true_breaks_the_seal(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    put("pairs/2/point/entries/0", wider)(Lines(changed))
    assert _refusal(changed, run) == "sha256"


def test_an_implicit_model_cannot_pass_for_an_explicit_one(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    changed["config"]["model"] = "mamba2"
    claim = changed["claims"][0]
    claim["kind"], claim["summary"] = "explicit", {"pairs": 4, "explicit": 4}
    claim["pairs"] = [
        {key: pair[key] for key in ("sequence", "position", "token", "state")}
        | {"decay": [[[(0.0).hex(), (1.0).hex()]] * 2]}
        for pair in claim["pairs"]
    ]
    claim["statements"] = Explicit.stated(run.config.as_json())
    assert _refusal(changed, run) == "config.model"
    changed["config"]["model"] = "implicit-mamba2"
    assert _refusal(changed, run) == "kind"
    # and if the head were believed, by the pairs themselves
    weights = weights_of(run.model)
    pair = parse_certificate(changed).only.pairs[0]
    with pytest.raises(RefusedError, match="explicit model"):
        PairChecker(weights, run.config.as_json()["sizes"], 128).check(pair, [], "pairs[0]")


def _write(folder: Path, content: Content) -> str:
    path = folder / "certificate.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_other_weights_are_refused(
    content: Content, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = RunFolder(tmp_path / "other")
    other.begin(run.config)
    other.finish(run.model)
    path = _write(tmp_path, content)
    assert check_certificate.main([path, str(other.path), "--processes", "1"]) == 0
    tensors, _ = read_tensors(other.weights_file)
    changed = [tensors | {"head.bias": tensors["head.bias"] + 1e-3}]
    changed += [{name: part.to(dtype) for name, part in tensors.items()} for dtype in HALF_PRECISIONS]
    for weights in changed:
        write_tensors(other.weights_file, weights)
        assert check_certificate.main([path, str(other.path)]) == 1
        assert capsys.readouterr().err.startswith("refused: run.weights_sha256: ")


def test_the_name_of_a_task_cannot_pass_for_a_verdict(content: Content, run: Run) -> None:
    name = f"{'x' * 2000} The certificate holds."
    with pytest.raises(RefusedError, match=r'^run\.task: is not that of the run given, "x{59}…$'):
        check_identity(parse_certificate(content), identity_of(run) | {"task": name})


def test_one_setting_that_differs_is_told_with_both_values(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    changed["config"]["curriculum"]["growth_accuracy"] = 0.25
    with pytest.raises(
        RefusedError, match=r"^config\.curriculum\.growth_accuracy: is 0\.25, and that of the"
    ):
        check_certificate.check_certificate(parse_certificate(changed), run)


@pytest.fixture
def run_of_code(tmp_path: Path) -> Path:
    """The run parity-small, whose task now is an object of a module."""
    folder = tmp_path / "run"
    shutil.copytree(STORED_RUNS / "parity-small", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "task": {"object": "automata:parity_dfa"}}))
    (folder / "sha256.json").unlink()
    return folder


def test_a_task_that_is_code_is_the_one_that_the_user_names(
    run_of_code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load_run(run_of_code, allow_code=True)
    path = _write(tmp_path, certify(loaded, claim="words", length=1).model_dump(mode="json"))
    argv = [path, str(run_of_code), "--processes", "1"]
    assert check_certificate.main(argv) == 2
    assert "give the task that you mean with --task" in capsys.readouterr().err
    assert check_certificate.main([*argv, "--allow-code"]) == 2
    assert "the checker never runs code that a run names" in capsys.readouterr().err
    assert check_certificate.main([*argv, "--task", "automata:parity_dfa"]) == 0
    assert check_certificate.main([*argv, "--task", "automata:flip_flop_dfa"]) != 0


def test_words_that_take_gigabytes_are_refused(run: Run) -> None:
    settings = {"sequences": 1, "length": 10**4, "seed": 0, "states": 10**6}
    with pytest.raises(RefusedError, match=r"settings\.states: follow words of more than"):
        check_certificate.visited_pairs(run.task, settings)


def test_an_iteration_without_end_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_MULTIPLICATIONS", 6 * replay.OF_A_PASS)
    weights = weights_of(run.model)
    sizes = {**run.config.as_json()["sizes"], "max_iterations": 10**12}
    with pytest.raises(RefusedError, match=r"config\.sizes: let words take more than 3000000 mult"):
        replay.Replay(weights, sizes, run.config.model).states([[0] * 9])


def test_the_work_of_an_iteration_counts_its_words_and_weights(run: Run) -> None:
    weights = weights_of(run.model)
    one, two = (replay.Replay(weights, run.config.as_json()["sizes"], "mamba2") for _ in range(2))
    one.states([[0]])
    two.states([[0], [1]])
    assert two.work - one.work == one.of_a_row > sum(part.size for part in weights.values())


def test_a_certificate_that_takes_too_long_is_refused_before_anything_starts(
    content: Content, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = copy.deepcopy(content)
    for pair in changed["claims"][0]["pairs"]:
        pair["point"]["orbit"]["iterations"] = 512
    changed["claims"][0]["pairs"] *= 10
    monkeypatch.setattr(PairChecker, "check", lambda *_: pytest.fail("was started"))
    settings = CheckSettings(processes=1, work=certificate_format.MOST_WORK / 1000)
    with pytest.raises(RefusedError, match=r"claims\[0\].kind: the check takes up to .* more than --work"):
        check_certificate.check_certificate(parse_certificate(changed), run, settings)
