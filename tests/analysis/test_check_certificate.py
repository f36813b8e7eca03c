"""A certificate that was changed is refused, with the first line that fails; so are other weights."""

import ast
import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import check_certificate
from analysis.certificates import answers, checking, replay
from analysis.certificates.arb import deltanet as arb_deltanet
from analysis.certificates.arb import linear as arb_linear
from analysis.certificates.arb import mamba2 as arb_mamba2
from analysis.certificates.arb import model as arb_model
from analysis.certificates.arb import newton as arb_newton
from analysis.certificates.arb import orbits as arb_orbits
from analysis.certificates.arb import rounding as arb_rounding
from analysis.certificates.cover import checker as cover_checker
from analysis.certificates.orbits import checker as orbit_checker
from analysis.certificates.orbits import steps
from analysis.certificates.parts import RefusedError, seal
from analysis.certificates.theorem1 import checker
from analysis.certificates.theorem1.document import Certificate
from analysis.certificates.words import checker as words_checker
from analysis.check_certificate import CheckSettings
from implicit.runs.files import read_tensors, write_tensors
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run
from tests.analysis.false_certificates import FALSE, Content, point


def _refusal(content: Content, run: Run) -> str:
    with pytest.raises(RefusedError) as refusal:
        check_certificate.check_certificate(Certificate.parse(content), run, CheckSettings(processes=1))
    return refusal.value.line


@pytest.mark.parametrize(("tamper", "line"), FALSE, ids=lambda case: getattr(case, "__name__", None))
def test_a_false_line_is_named_even_under_a_new_seal(
    content: Content, run: Run, tamper: Callable[[Content], None], line: str
) -> None:
    changed = copy.deepcopy(content)
    tamper(changed)
    changed["sha256"] = seal(changed)
    assert _refusal(changed, run) == line


def test_the_untouched_certificate_holds(content: Content, run: Run) -> None:
    check_certificate.check_certificate(Certificate.parse(content), run, CheckSettings(processes=1))


def test_a_change_that_leaves_all_lines_true_breaks_the_seal(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    lower, upper = map(float.fromhex, point(changed)["entries"][0])
    wider = [math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf)]
    point(changed)["entries"][0] = [number.hex() for number in wider]
    assert _refusal(changed, run) == "sha256"


def test_the_control_is_checked_too(control: Content, explicit: Run) -> None:
    check_certificate.check_certificate(Certificate.parse(control), explicit, CheckSettings(processes=1))
    changed = copy.deepcopy(control)
    lower, upper = map(float.fromhex, changed["pairs"][1]["decay"][0][0])
    changed["pairs"][1]["decay"][0][0] = [(2 * upper - lower).hex(), (3 * upper).hex()]
    assert _refusal(changed, explicit) == "pairs[1].decay[0]"
    changed = copy.deepcopy(control)
    changed["pairs"][1]["decay"] = None
    assert _refusal(changed, explicit) == "summary.explicit"


def test_an_implicit_model_cannot_pass_for_an_explicit_one(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    changed["config"]["model"] = "mamba2"
    changed["pairs"] = [
        {key: pair[key] for key in ("sequence", "position", "token", "state")}
        | {"decay": [[[(0.0).hex(), (1.0).hex()]] * 2]}
        for pair in changed["pairs"]
    ]
    changed["summary"] = {"pairs": 4, "explicit": 4}
    assert _refusal(changed, run) == "config.model"
    # and if the head were believed, by the pairs themselves
    weights = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    pair = Certificate.parse(changed).pairs[0]
    with pytest.raises(RefusedError, match="explicit model"):
        checker.Checker(weights, run.config.as_json()["sizes"], 128).check_pair(pair, [], "pairs[0]")


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
    tensors["head.bias"] += 1e-3
    write_tensors(other.weights_file, tensors)
    assert check_certificate.main([path, str(other.path)]) == 1
    assert capsys.readouterr().err.startswith("refused: run.weights_sha256: ")


def test_a_truncated_file_is_refused(
    content: Content, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(_write(tmp_path, content))
    path.write_bytes(path.read_bytes()[:-100])
    assert check_certificate.main([str(path), str(run.path)]) == 1
    assert capsys.readouterr().err.startswith("refused: file: is not JSON")


BAD_INPUT: list[tuple[list[str], str]] = [
    (["no/such/certificate.json", "RUN"], "certificate no/such/certificate.json does not exist"),
    (["CERTIFICATE", "no/such/run"], "run no/such/run does not exist"),
    (["CERTIFICATE", "RUN", "--precision", "53"], "precision is 53"),
    (["CERTIFICATE", "RUN", "--processes", "0"], "processes is 0"),
    (["CERTIFICATE"], "required: RUN"),
]


@pytest.mark.parametrize(("argv", "sentence"), BAD_INPUT)
def test_bad_input(
    content: Content,
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    sentence: str,
) -> None:
    places = {"CERTIFICATE": _write(tmp_path, content), "RUN": str(run.path)}
    assert check_certificate.main([places.get(argument, argument) for argument in argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert sentence in error


CHECKING = [
    *(checker, checking, cover_checker, words_checker, orbit_checker, steps, answers, replay),
    *(arb_deltanet, arb_linear, arb_mamba2, arb_model, arb_newton, arb_orbits, arb_rounding),
]


@pytest.mark.parametrize("module", CHECKING, ids=lambda module: module.__name__.split(".", 2)[2])
def test_the_checker_imports_nothing_that_the_producer_computes_with(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    ours = {name for name in imported if name.split(".")[0] in ("analysis", "implicit", "theory", "automata")}
    shared = {"answers", "theorem1.document", "cover.document", "words.document", "orbits.document", "parts"}
    own = {
        "arb.deltanet",
        "arb.linear",
        "arb.mamba2",
        "arb.model",
        "arb.newton",
        "arb.orbits",
        "arb.rounding",
        "checking",
        "orbits.checker",
        "orbits.steps",
        "replay",
    }
    workers = "automata.processes"  # starts them, and computes nothing
    assert ours <= {workers, *(f"analysis.certificates.{name}" for name in shared | own)}
