"""Verify a certificate: ``python -m analysis.check_certificate CERTIFICATE RUN``.

It may be one of visited states (``analysis.certify``), of all words up to a length (``analysis.all_words``),
of words of every length (``analysis.all_lengths``; where it says so, of the simultaneous mode too), or of
those as floats execute them (``analysis.executed``).
Exit code 0 only if every claim of the certificate is verified from the run's weights, and there is one
(states are computed again in float64, claims about them proved again: `docs/certificates.md`); 1 with the
first line that fails, on a line that begins with ``refused:``; 2 for bad input; 70 if the checker itself
fails, which says nothing of the certificate.
"""

import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from analysis.certificates.answers import Automaton
from analysis.certificates.checking import check_identity
from analysis.certificates.cover.checker import check_cover
from analysis.certificates.cover.document import COVER_FORMAT, CoverCertificate
from analysis.certificates.executed.checker import check_executed
from analysis.certificates.executed.document import EXECUTED_FORMAT, ExecutedCertificate
from analysis.certificates.image_balls.checker import check_images
from analysis.certificates.image_balls.document import IMAGES_FORMAT, ImagesCertificate
from analysis.certificates.parts import RefusedError
from analysis.certificates.producing import automaton_of, identity_of
from analysis.certificates.replay import Visit
from analysis.certificates.strict_json import read_json
from analysis.certificates.theorem1.checker import check
from analysis.certificates.theorem1.document import CHECKED, Certificate
from analysis.certificates.verdict import AnyCertificate, described, readable, verdict
from analysis.certificates.words.checker import check_words
from analysis.certificates.words.document import WORDS_FORMAT, WordsCertificate
from analysis.framework.visited_states import choose_positions, sample_batch
from automata.checks import printable, shown
from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.compiled.compile import machine_of
from implicit.config.references import named_code
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, find_run, load_run

KINDS: dict[str, type[AnyCertificate]] = {
    WORDS_FORMAT: WordsCertificate,
    COVER_FORMAT: CoverCertificate,
    IMAGES_FORMAT: ImagesCertificate,
    EXECUTED_FORMAT: ExecutedCertificate,
}
"""What is not of one of these formats is read as a certificate of Theorem 1, or refused as one."""
OF_ALL_WORDS = ("implicit-mamba2", "mamba2")
"""The models of which the checkers of answers have an evaluation."""
REFUSED = 1
INTERNAL_ERROR = 70
"""That of sysexits.h for software that failed."""
LIMITS = {"sequences": (1, 10**4), "length": (1, 10**4), "seed": (0, 2**63 - 1), "states": (1, 10**6)}
"""What the settings of a certificate may be, so that a silly one is refused and not tried."""
MOST_TOKENS = 10**6
MOST_TOKENS_OF_WORDS = 10**7


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
) -> str:
    """Verify a certificate against a run.

    Args:
        certificate: as read; of visited states, of all words, or of every length.
        run: the run that it claims to be about, loaded from its folder.
        settings: precision and processes.

    Returns:
        The verdict: what was verified, in words that are none of the certificate's.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.certificates.theorem1.document import Certificate
        >>> check_certificate(Certificate.parse({}), load_run("parity"))
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: format: field required
    """
    settings = settings or CheckSettings()
    if not isinstance(certificate, Certificate) and run.config.model not in OF_ALL_WORDS:
        raise RefusedError("config.model", f"is not one of which answers are proved, {OF_ALL_WORDS}")
    weights = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    identity = identity_of(run)
    check_identity(certificate, identity)
    how: dict[str, Any] = {"sha256": identity["weights_sha256"], "config": run.config.as_json()}
    how |= {"bits": settings.precision, "processes": settings.processes}
    if isinstance(certificate, CoverCertificate):
        check_cover(certificate, weights, automaton=automaton_of(run), **how)
    elif isinstance(certificate, ImagesCertificate):
        check_images(certificate, weights, automaton=automaton_of(run), **how)
    elif isinstance(certificate, ExecutedCertificate):
        machine, _ = machine_of(run.task)
        automaton = Automaton(initial_state=machine.initial, table=machine.table.tolist())
        del how["processes"]
        check_executed(certificate, weights, automaton=automaton, answers=machine.answers.tolist(), **how)
    elif isinstance(certificate, WordsCertificate):
        check_words(certificate, weights, automaton=automaton_of(run), **how)
    else:
        check(certificate, weights, visited=visited_pairs(run.task, certificate.settings), **how)
    machine_of_task = run.task.machine()
    made = "trained" if run.config.compiled is None else "compiled"
    names = [readable(name) for name in (run.path.resolve().name, run.task.name)]
    return verdict(
        certificate,
        f"{run.config.model} with weights of SHA-256 {identity['weights_sha256']}",
        None if machine_of_task is None else described(machine_of_task),
        f"folder {names[0]}, task {names[1]}, weights {made}",
    )


def parse_certificate(content: Mapping[str, Any]) -> AnyCertificate:
    """Return the certificate that the JSON of a file holds.

    Args:
        content: what `analysis.certificates.strict_json.read_json` returns.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> parse_certificate({"format": WORDS_FORMAT})
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: statements: field required
    """
    kind = KINDS.get(str(content.get("format")), Certificate)
    return kind.parse(content)


def visited_pairs(task: Task, settings: Mapping[str, int]) -> list[Visit]:
    """Return the places of the pairs that settings stand for, with the words before them.

    Args:
        task: of the run.
        settings: those of the certificate.

    Raises:
        RefusedError: for settings with which no sequences can be drawn.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> settings = {"sequences": 2, "length": 4, "seed": 0, "states": 2}
        >>> visited_pairs(make_task("parity"), settings)
        [Visit(sequence=1, position=3, token=0, word=(...)), Visit(...)]
    """
    if set(settings) != set(LIMITS):
        raise RefusedError("settings", f"are not {', '.join(LIMITS)}")
    for name, (least, most) in LIMITS.items():
        if not least <= settings[name] <= most:
            raise RefusedError(f"settings.{name}", f"is not a number from {least} to {most}")
    if settings["sequences"] * settings["length"] > MOST_TOKENS:
        raise RefusedError("settings.sequences", f"times length is above {MOST_TOKENS}")
    batch = sample_batch(task, settings["sequences"], settings["length"], settings["seed"])
    places = choose_positions(batch.tokens, settings["states"], lengths=batch.lengths)
    if sum(position for _, position in places) > MOST_TOKENS_OF_WORDS:
        raise RefusedError(
            "settings.states", f"follow words of more than {MOST_TOKENS_OF_WORDS} tokens in all"
        )
    rows = batch.tokens.tolist()
    return [
        Visit(sequence, position, rows[sequence][position], tuple(rows[sequence][:position]))
        for sequence, position in places
    ]


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser(
        "python -m analysis.check_certificate", "Verify a certificate from the weights, by other means."
    )
    parser.add_argument("certificate", metavar="CERTIFICATE", help="the JSON file")
    parser.add_argument("run", metavar="RUN", help="run folder, or the name of a stored run")
    parser.add_argument(
        "--task", help="the task of a run that names it as module:name, which is imported only as given here"
    )
    add_config_flags(parser, CheckSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(CheckSettings, given_fields(arguments, CheckSettings))
    run = _loaded(arguments.run, arguments.task)
    began = time.monotonic()
    content = read_json(Path(arguments.certificate))
    certificate = parse_certificate(content)
    print(check_certificate(certificate, run, settings))
    print(f"Checked in {time.monotonic() - began:.0f} s.")


def _loaded(path: str, task: str | None) -> Run:
    """The run, whose configuration is data here: nothing that it names is imported."""
    folder = RunFolder(find_run(path))
    named = folder.read_values()
    if named.get("model") not in CHECKED:
        raise InputError(
            f"the model of run {folder.path.name} is {shown(named.get('model'))}, for which no independent "
            f"check exists; give a certificate and its run of {' or '.join(CHECKED)}"
        )
    if task is None and (code := named_code(named)):
        raise InputError(
            f"the task of run {folder.path.name} is code, {shown(code[0])}, which a checker does not import; "
            "give the task that you mean with --task"
        )
    return load_run(folder.path, task=task)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Example:
        >>> main(["no/such/certificate.json", "parity"])
        2
    """
    try:
        return run_command(_command, argv)
    except RefusedError as refusal:
        print(f"refused: {printable(' '.join(str(refusal).split()))}", file=sys.stderr)
        return REFUSED
    except Exception:  # so that what is wrong with the checker does not pass for a refusal
        traceback.print_exc()
        print("internal error: the checker failed; nothing is said of the certificate", file=sys.stderr)
        return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(main())
