"""Every fault of the caller: one sentence, exit code 2, nothing written."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis import (
    __main__,
    agreement,
    all_lengths,
    all_words,
    belief,
    certify,
    check_certificate,
    convergence,
    demo,
    error_control,
    extraction,
    jacobian,
    length_generalization,
    mechanism,
    modes,
    report,
)

Main = Callable[[Sequence[str]], int]
FLAGS = [
    (["--sequences", "-3"], "sequences is -3"),
    (["--sequences", "many"], "sequences is many"),
    (["--seed", "-1"], "seed is -1"),
    (["--sede", "1"], "the nearest is --seed"),
    (["extra", "--out"], "--out"),
    (["--out", "/dev/null/there"], "/dev/null is not a folder"),
]
# a question about one run, about several together, about each of several; and the report of all
MAINS: list[Main] = [jacobian.main, length_generalization.main, extraction.main, report.main]
CASES: list[tuple[Main, list[str], str]] = [
    *((main, ["RUN", *flags], sentence) for main in MAINS for flags, sentence in FLAGS),
    *((main, ["SPOILT"], "not valid safetensors") for main in MAINS),
    (jacobian.main, [], "required: RUN"),
    (__main__.main, ["RUN", "jacobian"], "give the question first, jacobian "),
    (jacobian.main, ["no/such/run"], "run no/such/run does not exist"),
    (jacobian.main, ["RUN", "--length", "0"], "length is 0"),
    (jacobian.main, ["RUN", "RUN"], "is one too many"),
    (convergence.main, ["RUN", "--rtol", "0"], "rtol is 0"),
    (convergence.main, ["RUN", "--rtol", "nan"], "rtol is nan"),
    (convergence.main, ["EXPLICIT"], "is mamba2, which has no fixed points"),
    (agreement.main, ["EXPLICIT"], "is mamba2, which has no fixed points"),
    (agreement.main, ["RUN", "--starts", "-1"], "starts is -1"),
    (length_generalization.main, ["RUN", "--lengths", "0"], "is 0; it should be greater than 0"),
    (length_generalization.main, ["RUN", "--mode", "both"], "mode is both"),
    (length_generalization.main, ["RUN", "--confidence", "1"], "confidence is 1"),
    (length_generalization.main, ["RUN", "RUN", "--out", "OUT"], "is given twice"),
    (extraction.main, ["RUN", "--demanded", "1.5"], "demanded is 1.5"),
    (extraction.main, ["RUN", "RUN", "--out", "OUT"], "is given twice"),
    (error_control.main, ["RUN", "--errors", "1"], "errors[0] is 1"),
    (error_control.main, ["RUN", "--sequences", "1", "--length", "4"], "sequences is 1, too few for two"),
    (error_control.main, ["GROWING"], "is transformer, whose state grows with every token; give the run of"),
    (error_control.main, ["REPL"], "was trained on the task repl-3-reveals, which is no word problem; give"),
    (belief.main, ["lazy-swaps-gated-deltanet", "--sequences", "1"], "sequences is 1; it should be greater"),
    (
        belief.main,
        ["lazy-swaps-gated-deltanet", "RUN", "--out", "OUT"],
        "has no hidden state with an exact belief",
    ),
    (belief.main, ["RUN", "--out", "OUT"], "was trained on the task parity, which has no hidden state"),
    (mechanism.main, ["RUN", "--sequences", "3"], "sequences is 3; it should be greater than or equal to 4"),
    (mechanism.main, ["RUN", "s3", "--out", "OUT"], "are not the same automaton; give runs of one"),
    (mechanism.main, ["GROWING"], "is transformer, whose state grows with every token; give the run of"),
    (mechanism.main, ["REPL"], "was trained on the task repl-3-reveals, which is no word problem; give"),
    (all_lengths.main, ["parity-small", "--rate", "1"], "rate is 1"),
    (all_lengths.main, ["EXPLICIT"], "is mamba2, which has no fixed points"),
    (all_lengths.main, ["parity", "--out", "OUT"], "numbers; give a run of at most 200"),
    (all_words.main, ["EXPLICIT"], "is mamba2, which has no fixed points"),
    (all_words.main, ["parity", "--out", "OUT"], "numbers; give a run of at most 200"),
    (report.main, ["RUN", "RUN", "--out", "OUT"], "is given twice"),
    (modes.main, ["EXPLICIT"], "is mamba2, which has no fixed points"),
    (jacobian.main, ["GROWING"], "is transformer, whose state grows with every token; give the run of"),
    (extraction.main, ["GROWING"], "is transformer, whose state grows with every token; give the run of"),
    (certify.main, ["GROWING"], "is transformer, of which there is no ball-arithmetic form"),
    (all_words.main, ["DELTA"], "of implicit-gated-deltanet rounding is not bounded"),
    (extraction.main, ["REPL"], "was trained on the task repl-3-reveals, which is no word problem; give"),
    (all_words.main, ["REPL"], "was trained on the task repl-3-reveals, which is no word problem; give"),
    (all_lengths.main, ["REPL"], "was trained on the task repl-3-reveals, which is no word problem; give"),
    (demo.main, ["--steps", "0", "--out", "OUT"], "steps is 0"),
    (
        check_certificate.main,
        ["no/certificate.json", "RUN"],
        "certificate no/certificate.json does not exist",
    ),
    (check_certificate.main, ["README.md", "no/such/run"], "run no/such/run does not exist"),
    (check_certificate.main, ["README.md", "RUN", "--precision", "53"], "precision is 53"),
    (check_certificate.main, ["README.md", "RUN", "--processes", "0"], "processes is 0"),
    (check_certificate.main, ["README.md"], "required: RUN"),
    (demo.main, ["--out", "/dev/null/demo"], "/dev/null is not a folder"),
]


RUNS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "RUN": (("implicit-mamba2",), {}),
    "EXPLICIT": (("mamba2",), {}),
    "GROWING": (("transformer",), {}),
    "DELTA": (("implicit-gated-deltanet",), {}),
    "SPOILT": (("implicit-mamba2",), {"name": "spoilt"}),
    "REPL": (("implicit-mamba2",), {"task": "repl-3-reveals", "name": "repl"}),
}
"""The runs that cases name."""


@pytest.mark.parametrize(("main", "argv", "sentence"), CASES)
def test_commands_refuse_bad_input(
    make_run: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    main: Main,
    argv: list[str],
    sentence: str,
) -> None:
    places = {word: str(make_run(*RUNS[word][0], **RUNS[word][1]).path) for word in RUNS if word in argv}
    if "SPOILT" in places:
        Path(places["SPOILT"], "model.safetensors").write_bytes(b"not safetensors")
    places["OUT"] = str(tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    assert main([places.get(word, word) for word in argv]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert sentence in line
    assert sorted(tmp_path.rglob("*")) == before
