"""Verify a certificate: ``python -m analysis.check_certificate CERTIFICATE RUN``.

It may be one of visited states (``analysis.certify``), of all words up to a length (``analysis.all_words``),
of words of every length (``analysis.all_lengths``), or of those as floats execute them
(``analysis.executed``).
Exit code 0 only if every claim of the certificate is proved again from the run's weights; 1 with the first
line that fails otherwise; 2 for bad input.
"""

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from analysis.certificates.answers import Automaton
from analysis.certificates.cover.checker import check_cover
from analysis.certificates.cover.document import COVER_FORMAT, CoverCertificate
from analysis.certificates.executed.checker import check_executed
from analysis.certificates.executed.document import EXECUTED_FORMAT, ExecutedCertificate
from analysis.certificates.parts import RefusedError, read_json
from analysis.certificates.producing import automaton_of
from analysis.certificates.theorem1.checker import check
from analysis.certificates.theorem1.document import CHECKED, Certificate
from analysis.certificates.words.checker import check_words
from analysis.certificates.words.document import WORDS_FORMAT, WordsCertificate
from analysis.framework.visited_states import choose_positions, sample_batch
from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.compiled.compile import machine_of
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, load_run

AnyCertificate = Certificate | WordsCertificate | CoverCertificate | ExecutedCertificate
KINDS: dict[str, type[AnyCertificate]] = {
    WORDS_FORMAT: WordsCertificate,
    COVER_FORMAT: CoverCertificate,
    EXECUTED_FORMAT: ExecutedCertificate,
}
"""What is not of one of these formats is read as a certificate of Theorem 1, or refused as one."""
OF_ALL_WORDS = ("implicit-mamba2", "mamba2")
"""The models of which the checkers of answers have an evaluation."""
REFUSED = 1
LIMITS = {"sequences": (1, 10**4), "length": (1, 10**4), "seed": (0, 2**63 - 1), "states": (1, 10**6)}
"""What the settings of a certificate may be, so that a silly one is refused and not tried."""


class CheckSettings(BaseModel):
    """How a certificate is checked.

    Example:
        >>> CheckSettings().precision
        128
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    precision: PositiveInt = Field(default=128, ge=64, description="bits of the ball arithmetic")
    processes: PositiveInt = Field(default=2, description="processes that check in parallel")


def check_certificate(
    certificate: AnyCertificate,
    run: Run,
    settings: CheckSettings | None = None,
) -> None:
    """Verify a certificate against a run.

    Args:
        certificate: as read; of visited states, of all words, or of every length.
        run: the run that it claims to be about, loaded from its folder.
        settings: precision and processes.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.certificates.theorem1.document import CHECKED, Certificate
        >>> check_certificate(Certificate.parse({}), load_run("parity"))
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: format: field required
    """
    settings = settings or CheckSettings()
    if not isinstance(certificate, Certificate) and run.config.model not in OF_ALL_WORDS:
        raise RefusedError("config.model", f"is not one of which answers are proved, {OF_ALL_WORDS}")
    weights = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    sha256 = hashlib.sha256(RunFolder(run.path).weights_file.read_bytes()).hexdigest()
    config = run.config.as_json()
    how: dict[str, Any] = {"sha256": sha256, "config": config}
    how["bits"] = settings.precision
    if isinstance(certificate, ExecutedCertificate):
        machine, _ = machine_of(run.task)
        automaton = Automaton(initial_state=machine.initial, table=machine.table.tolist())
        check_executed(certificate, weights, automaton=automaton, answers=machine.answers.tolist(), **how)
        return
    how["processes"] = settings.processes
    if isinstance(certificate, CoverCertificate):
        check_cover(certificate, weights, automaton=automaton_of(run), **how)
    elif isinstance(certificate, WordsCertificate):
        check_words(certificate, weights, automaton=automaton_of(run), **how)
    else:
        check(certificate, weights, visited=visited_pairs(run.task, certificate.settings), **how)


def visited_pairs(task: Task, settings: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Return sequence, position and token of the pairs that settings stand for.

    Args:
        task: of the run.
        settings: those of the certificate.

    Raises:
        RefusedError: for settings with which no sequences can be drawn.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> settings = {"sequences": 2, "length": 4, "seed": 0, "states": 2}
        >>> visited_pairs(make_task("parity"), settings)
        [(1, 3, 0), (0, 2, 1)]
    """
    for name, (least, most) in LIMITS.items():
        if not least <= settings.get(name, -1) <= most:
            raise RefusedError(f"settings.{name}", f"is not a number from {least} to {most}")
    batch = sample_batch(task, settings["sequences"], settings["length"], settings["seed"])
    places = choose_positions(batch.tokens, settings["states"], lengths=batch.lengths)
    return [(sequence, position, int(batch.tokens[sequence, position])) for sequence, position in places]


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser(
        "python -m analysis.check_certificate", "Verify a certificate from the weights, by other means."
    )
    parser.add_argument("certificate", metavar="CERTIFICATE", help="the JSON file")
    parser.add_argument("run", metavar="RUN", help="run folder, or the name of a stored run")
    add_config_flags(parser, CheckSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(CheckSettings, given_fields(arguments, CheckSettings))
    run = load_run(arguments.run)
    began = time.monotonic()
    content = read_json(Path(arguments.certificate))
    if run.config.model not in CHECKED:
        raise InputError(
            f"the model of run {run.path.name} is {run.config.model}, for which no independent check exists; "
            f"give a certificate and its run of {' or '.join(CHECKED)}"
        )
    certificate = KINDS.get(str(content.get("format")), Certificate).parse(content)
    check_certificate(certificate, run, settings)
    print(f"The certificate holds ({certificate.sentence}); checked in {time.monotonic() - began:.0f} s.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Example:
        >>> main(["no/such/certificate.json", "parity"])
        2
    """
    try:
        return run_command(_command, argv)
    except RefusedError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return REFUSED


if __name__ == "__main__":
    sys.exit(main())
