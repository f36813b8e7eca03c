"""Verify a certificate: ``python -m analysis.check_certificate CERTIFICATE RUN``.

It may claim anything of `analysis.certificates.claims`; ``python -m analysis.certify`` makes one.
Exit code 0 only if every claim of the certificate is verified from the run's weights, and there is one
(states are computed again in float64, claims about them proved again: `docs/certificates.md`); 1 with the
first line that fails, on a line that begins with ``refused:``; 2 for bad input; 70 if the checker itself
fails, which says nothing of the certificate.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from analysis.certificates import claims as claims  # the kinds of claims, which are known once imported
from analysis.certificates.certificate import (
    CERTIFICATE,
    MOST_WORK,
    Certificate,
    Claim,
    Context,
    RefusedError,
    Visit,
    check,
    parse_certificate,
    read_json,
)
from analysis.certificates.naming import described, readable
from analysis.certificates.producing import automaton_of, identity_of
from analysis.framework.visited_states import choose_positions, sample_batch
from automata.checks import shown
from automata.command_line import say
from automata.errors import InputError, printable_lines
from automata.tasks.interface import Task
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.config.references import named_code
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, find_run, load_run

REFUSED = 1
INTERNAL_ERROR = 70  # the exit code of sysexits.h for software that failed
LIMITS = {"sequences": (1, 10**4), "length": (1, 10**4), "seed": (0, 2**63 - 1), "states": (1, 10**6)}
"""Ranges of the settings of a certificate, so that a silly one is refused and not tried."""
MOST_TOKENS = 10**6
MOST_TOKENS_OF_WORDS = 10**7


class CheckSettings(BaseModel):
    """Settings of a check."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    precision: PositiveInt = Field(default=128, ge=64, description="bits of the ball arithmetic")
    processes: PositiveInt = Field(default=2, description="processes that check in parallel")
    work: PositiveFloat = Field(
        default=MOST_WORK,
        description="operations times bits that a claim may take, some 5e9 a second and process",
    )


def check_certificate(certificate: Certificate, run: Run, settings: CheckSettings | None = None) -> str:
    """Verify a certificate against the run that it claims to be about, loaded from its folder.

    The verdict says what was verified in one sentence, and a line for each condition; no word is the
    certificate's. RefusedError names the first line that fails.

    Example:
        >>> from analysis.certify import certify
        >>> run = load_run("parity-small")
        >>> print(check_certificate(certify(run, claim="words", length=2), run, CheckSettings(processes=1)))
        The certificate holds: the answers to all 6 words of up to 2 tokens are right.
        - model: implicit-mamba2, with weights of SHA-256 ...
        - task: an automaton of 2 tokens whose words reach 2 of 2 states ...
        - iteration: sequential, from zero (damping 0.8, rtol <= 1e-07, a limit of at least ... a token)
        ...
        - not verified, the run's own words: folder parity-small, task parity, weights trained
    """
    settings = settings or CheckSettings()
    config, identity = run.config.as_json(), identity_of(run)
    context = Context(
        weights={
            # NumPy lacks bfloat16; as float64 it is not taken for float32 as executed
            name: (tensor.double() if tensor.dtype == torch.bfloat16 else tensor).numpy()
            for name, tensor in run.model.state_dict().items()
        },
        config=config,
        automaton=automaton_of(run),
        visits=partial(visited_pairs, run.task),
        claims=tuple(certificate.claims),
        bits=settings.precision,
        processes=settings.processes,
        most_work=settings.work,
    )
    check(certificate, context, identity)
    machine = run.task.machine()
    task = "a task without an automaton" if machine is None else described(machine)
    made = "trained" if run.config.compiled is None else "compiled"
    folder, name = map(readable, (run.name, run.task.name))
    verdicts = [claim.verdict(config) for claim in certificate.claims]
    conditions = [
        f"model: {run.config.model}, with weights of SHA-256 {identity['weights_sha256']}",
        f"task: {task}",
        *(condition for verdict in verdicts for condition in verdict.conditions),
        f"not verified, the run's own words: folder {folder}, task {name}, weights {made}",
    ]
    sentence = f"The certificate holds: {'; '.join(verdict.claim for verdict in verdicts)}."
    return "\n".join([sentence, *(f"- {condition}" for condition in conditions)])


def visited_pairs(task: Task, settings: Mapping[str, int]) -> list[Visit]:
    """Return the positions of the pairs that settings of a certificate stand for, with the words before them.

    RefusedError for settings with which no sequences can be drawn.
    """
    if set(settings) != set(LIMITS):
        raise RefusedError("settings", f"are not {', '.join(LIMITS)}")
    for name, (least, most) in LIMITS.items():
        if not least <= settings[name] <= most:
            raise RefusedError(f"settings.{name}", f"is not a number from {least} to {most}")
    if settings["sequences"] * settings["length"] > MOST_TOKENS:
        raise RefusedError("settings.sequences", f"times length is above {MOST_TOKENS}")
    batch = sample_batch(task, settings["sequences"], settings["length"], settings["seed"])
    positions = choose_positions(batch.tokens, settings["states"], lengths=batch.lengths)
    if sum(position for _, position in positions) > MOST_TOKENS_OF_WORDS:
        raise RefusedError(
            "settings.states", f"follow words of more than {MOST_TOKENS_OF_WORDS} tokens in all"
        )
    rows = batch.tokens.tolist()
    return [
        Visit(sequence, position, rows[sequence][position], tuple(rows[sequence][:position]))
        for sequence, position in positions
    ]


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser(
        "python -m analysis.check_certificate", "Verify a certificate from the weights, by other means."
    )
    parser.add_argument("certificate", metavar="CERTIFICATE", help="certificate.json, or its folder")
    parser.add_argument("run", metavar="RUN", help="run folder, or the name of a stored run")
    parser.add_argument(
        "--task", help="the task of a run that names it as module:name, which is imported only as given here"
    )
    parser.add_argument("--allow-code", action="store_true", help=argparse.SUPPRESS)  # usual elsewhere
    add_config_flags(parser, CheckSettings, title="settings")
    arguments = parser.parse_args(argv)
    if arguments.allow_code:
        raise InputError(
            "flag --allow-code is not taken: the checker never runs code that a run names, and of a model "
            "that is one's own code there is no independent check; name a task that is code with --task"
        )
    settings = validated(CheckSettings, given_fields(arguments, CheckSettings))
    run = _loaded(arguments.run, arguments.task)
    began = time.monotonic()
    file = Path(arguments.certificate)
    file = file / CERTIFICATE if file.is_dir() else file
    content, beside = read_json(file), file.with_name(CERTIFICATE)
    if isinstance(content, dict) and "claims" not in content and file != beside and beside.is_file():
        raise InputError(f"{file} holds no certificate; give {beside}")
    certificate = parse_certificate(content)
    print(printable_lines(check_certificate(certificate, run, settings)))
    print(f"Checked in {time.monotonic() - began:.0f} s.")


def _loaded(path: str, task: str | None) -> Run:
    """The run, whose configuration is data here: nothing that it names is imported."""
    folder = RunFolder(find_run(path))
    named = folder.read_values()
    checked = sorted({model for kind in Claim.kinds.values() for model in kind.models})
    if named.get("model") not in checked:
        raise InputError(
            f"the model of run {folder.path.name} is {shown(named.get('model'))}, for which no independent "
            f"check exists; give a certificate and its run of {' or '.join(checked)}"
        )
    if task is None and (code := named_code(named)):
        raise InputError(
            f"the task of run {folder.path.name} is code, {shown(code[0])}, which a checker does not import; "
            "give the task that you mean with --task"
        )
    return load_run(folder.path, task=task)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return run_command(_command, argv)
    except RefusedError as refusal:
        return say("refused", str(refusal), REFUSED)
    except Exception:  # so that what is wrong with the checker does not pass for a refusal
        traceback.print_exc()
        print("internal error: the checker failed; nothing is said of the certificate", file=sys.stderr)
        return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(main())
