"""What every proof of claims is, and the certificate that is written of what it found."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

from matplotlib.figure import Figure
from pydantic import BaseModel
from rich.table import Table

from analysis.certificates.certificate import (
    ARITHMETIC,
    FORMAT,
    PRODUCER_PRECISION,
    Arithmetic,
    Automaton,
    Certificate,
    Claim,
    Unchecked,
)
from analysis.framework.needs import Need
from analysis.framework.output import RunIdentity, json_ready
from automata.errors import InputError
from implicit.runs.environment import describe_environment
from implicit.runs.loading import Run


class Found(Protocol):
    """What a proof found.

    Example:
        `analysis.certify.certify` makes a certificate of it.
    """

    @property
    def seconds(self) -> float:
        """How long it took."""
        ...

    @property
    def claims(self) -> Sequence[Claim]:
        """What is proved; empty if nothing is."""
        ...

    @property
    def search(self) -> BaseModel | None:
        """With which settings it was looked for, if what is proved does not depend on them."""
        ...

    def numbers(self) -> dict[str, Any]:
        """Return everything that was computed, for JSON."""
        ...


Settings = TypeVar("Settings", bound=BaseModel)
Outcome = TypeVar("Outcome", bound=Found)


@dataclass(frozen=True, kw_only=True)
class Proof(Generic[Settings, Outcome]):
    """How claims are proved: the producer of a kind.

    Attributes:
        claim: what ``--claim`` calls it; several proofs may share it, for models of different kinds.
        question: one sentence.
        description: the first line of the help.
        settings: its fields become flags; the same for proofs that share a name.
        needs: what the models must have.
        prove: proves what it can of a run.
        tables: makes tables and lines for the terminal.
        draw: makes a figure, so many inches wide; None if there is none.
        caption: tells what the figure shows.

    Example:
        >>> from analysis.certify import PROOFS
        >>> sorted(PROOFS)
        ['executed', 'lengths', 'starts', 'theorem1', 'words']
    """

    claim: str
    question: str
    description: str
    settings: type[Settings]
    needs: Need
    prove: Callable[[Run, Settings], Outcome]
    tables: Callable[[Outcome], Sequence[Table | str]]
    draw: Callable[[Outcome, float], Figure] | None = None
    caption: Callable[[Outcome], str] = lambda _found: ""


def certificate_of(run: Run, found: Found) -> Certificate:
    """Return what is proved of a run as a document that `analysis.check_certificate` verifies by other means.

    Args:
        run: that something is proved of.
        found: what is.

    Raises:
        InputError: if nothing is.
    """
    if not found.claims:
        raise InputError(f"of run {run.path.name} nothing is proved; a certificate needs a claim")
    search = found.search
    return Certificate(
        format=FORMAT,
        run=identity_of(run),
        config=json_ready(run.config.as_json()),
        arithmetic=Arithmetic(producer=ARITHMETIC, precision=PRODUCER_PRECISION),
        automaton=automaton_of(run),
        claims=list(found.claims),
        unchecked=Unchecked(
            search={} if search is None else search.model_dump(mode="json"),
            environment=json_ready(describe_environment()),
            seconds=found.seconds,
        ),
        sha256="",
    ).sealed()


def stated(kind: type[Claim], run: Run) -> dict[str, str]:
    """Return the statements of a kind for a run.

    Example:
        >>> from analysis.certificates.claims.words import Words
        >>> from implicit.runs.loading import load_run
        >>> "margin" in stated(Words, load_run("parity-small"))
        True
    """
    return kind.stated(run.config.as_json())


def identity_of(run: Run) -> dict[str, str | int | bool]:
    """Return what a certificate says of its run, and a checker verifies: all but the name of its folder.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> identity_of(load_run("parity-small"))["model"]
        'implicit-mamba2'
    """
    return {name: value for name, value in asdict(RunIdentity.of(run)).items() if name != "name"}


def automaton_of(run: Run) -> Automaton | None:
    """Return the task of a run as certificates hold it; None if no finite machine gives its answers.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> automaton_of(load_run("parity-small"))
        Automaton(initial_state=0, table=[[0, 1], [1, 0]], answers=None)
    """
    machine = run.task.machine()
    if machine is None:
        return None
    table, answers = machine.table.tolist(), machine.answers.tolist()
    return Automaton(
        initial_state=machine.initial, table=table, answers=None if answers == table else answers
    )
