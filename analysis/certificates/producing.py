"""The interface of proofs, and the certificate of the claims that a proof found."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from matplotlib.figure import Figure
from pydantic import BaseModel

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
from analysis.framework.finding import Answer, Finding, Rows
from analysis.framework.needs import Need
from analysis.framework.output import RunIdentity, json_ready
from automata.errors import InputError
from implicit.runs.environment import describe_environment
from implicit.runs.loading import Run


@dataclass(frozen=True, eq=False, kw_only=True)
class Found(Answer, ABC):
    """The result of a proof: claims on a run, and the finding that tells them."""

    run: RunIdentity
    config: Mapping[str, Any]
    settings: BaseModel
    seconds: float

    @property
    @abstractmethod
    def claims(self) -> Sequence[Claim]:
        """The claims that are proved; empty if none is."""

    @property
    def sentence(self) -> str:
        """The claims in the words of a verdict, or the reason why there is none."""
        claims = "; ".join(claim.verdict(self.config).claim for claim in self.claims)
        return f"proved: {claims}" if claims else f"nothing is proved: {self.fault}"

    @property
    def fault(self) -> str:
        """The reason why nothing is proved."""
        return ""

    @abstractmethod
    def rows(self) -> Sequence[Rows]:
        """Return tables for the terminal."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """Return everything that was computed, for JSON."""

    @property
    def finding(self) -> Finding:
        """The same as other analyses tell what they find."""
        claims = self.claims
        limits = [text for claim in claims for text in claim.verdict(self.config).conditions]
        if claims:
            known = claims[0].models
            limits.append(
                "verify it: python -m analysis.check_certificate CERTIFICATE RUN (this file, this run)"
                if self.run.model in known
                else f"no independent check exists for this cell; one does for {', '.join(known)}"
            )
        text = " ".join(f"{part[:1].upper()}{part[1:]}." for part in limits)
        return Finding(self.sentence, self.rows(), text, holds=bool(claims))


Settings = TypeVar("Settings", bound=BaseModel)
Outcome = TypeVar("Outcome", bound=Found)


@dataclass(frozen=True, kw_only=True)
class Proof(Generic[Settings, Outcome]):
    """The producer of one kind of claims.

    Attributes:
        claim: what ``--claim`` calls it; several proofs may share it, for models of different kinds.
        settings: its fields become flags; the same for proofs that share a name.
        draw: makes a figure, so many inches wide; None if there is none.
        shows: what the figure shows.
    """

    claim: str
    question: str
    description: str
    settings: type[Settings]
    needs: Need
    prove: Callable[[Run, Settings], Outcome]
    draw: Callable[[Outcome, float], Figure] | None = None
    shows: str = ""


def about(run: Run, settings: BaseModel, began: float) -> dict[str, Any]:
    """Return the common fields of a `Found` of a proof that began at a time of ``time.monotonic``."""
    seconds = time.monotonic() - began
    config = run.config.as_json()
    return {"run": RunIdentity.of(run), "config": config, "settings": settings, "seconds": seconds}


def certificate_of(run: Run, found: Found) -> Certificate:
    """Return the claims on a run as a document for `analysis.check_certificate`."""
    if not found.claims:
        raise InputError(f"of run {run.name} nothing is proved; a certificate needs a claim")
    return Certificate(
        format=FORMAT,
        run=identity_of(run),
        config=json_ready(run.config.as_json()),
        arithmetic=Arithmetic(producer=ARITHMETIC, precision=PRODUCER_PRECISION),
        automaton=automaton_of(run),
        claims=list(found.claims),
        unchecked=Unchecked(
            search=found.settings.model_dump(mode="json"),
            environment=json_ready(describe_environment()),
            seconds=found.seconds,
        ),
        sha256="",
    ).sealed()


def identity_of(run: Run) -> dict[str, str | int | bool]:
    """Return the identity of a run, which a checker verifies: all but the name of its folder."""
    identity = asdict(RunIdentity.of(run)).items()
    return {name: value for name, value in identity if name != "name" and value is not None}


def automaton_of(run: Run) -> Automaton | None:
    """Return the task of a run as certificates hold it; None if no finite machine gives its answers."""
    machine = run.task.machine()
    if machine is None:
        return None
    table, answers = machine.table.tolist(), machine.answers.tolist()
    return Automaton(
        initial_state=machine.initial, table=table, answers=None if answers == table else answers
    )
