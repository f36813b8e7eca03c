"""Prove what a trained model does: ``python -m analysis.certify RUN --claim KIND``.

The result is a certificate, a JSON file that ``python -m analysis.check_certificate CERTIFICATE RUN``
verifies from the weights by other means. The kinds' claims stand in `analysis.certificates.claims`,
their proofs in `analysis.certificates.proofs`, a file each. The default is Theorem 1 at visited states.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from analysis.certificates import proofs
from analysis.certificates.certificate import CERTIFICATE, Certificate
from analysis.certificates.producing import Found, Proof, certificate_of
from analysis.framework.analysis import RunAnalysis
from analysis.framework.needs import Need
from analysis.framework.output import default_folder
from analysis.framework.settings import settings_from
from automata.errors import unknown_name
from implicit.command_line import CommandParser
from implicit.runs.loading import Run

DEFAULT = "theorem1"


def _found_proofs() -> dict[str, list[Proof[Any, Any]]]:
    """The proofs by the name of their claim; those that share one are for different models."""
    found: dict[str, list[Proof[Any, Any]]] = {}
    for module in iter_modules(proofs.__path__):
        for proof in getattr(import_module(f"{proofs.__name__}.{module.name}"), "PROOFS", ()):
            found.setdefault(proof.claim, []).append(proof)
    return found


PROOFS = _found_proofs()


def proof_of(run: Run, claim: str) -> Proof[Any, Any]:
    """Return the proof of a claim for the model of a run.

    InputError for an unknown claim, or a model of which it cannot be proved.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> proof_of(load_run("parity-small"), "length")
        Traceback (most recent call last):
        automata.errors.InputError: claim 'length' is unknown; did you mean 'lengths'? Known: ...
    """
    if claim not in PROOFS:
        raise unknown_name("claim", claim, PROOFS)
    several = PROOFS[claim]
    fitting = [proof for proof in several if proof.needs.met_by(run.model)]
    if not fitting:
        several[0].needs.require(run)
    return fitting[0]


def certify(run: Run, settings: Any = None, *, claim: str = DEFAULT, **chosen: Any) -> Certificate:
    """Prove a claim of a run, and return the certificate.

    Settings are those of the claim, as an object or by name. InputError for a bad setting, a model of which
    the claim cannot be proved, or if nothing is proved.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> certificate = certify(load_run("parity-small"), claim="words", length=2)
        >>> certificate.claims[0].kind, certificate.claims[0].words
        ('words', 6)
    """
    proof = proof_of(run, claim)
    return certificate_of(run, proof.prove(run, settings_from(proof.settings, chosen, settings)))


Outcome = TypeVar("Outcome", bound=Found)


@dataclass(frozen=True, kw_only=True)
class Proving(RunAnalysis[Any, Any]):
    """The command for one claim; ``claim`` is None for an old command, which is for one claim alone."""

    claim: str | None = None

    def _written(self, folders: Sequence[Path], outcomes: Sequence[Any]) -> list[Path]:
        """Return also the certificates: what a checker takes."""
        found = zip(folders, outcomes, strict=True)
        certificates = [folder / CERTIFICATE for folder, outcome in found if outcome.claims]
        return list(dict.fromkeys([*certificates, *super()._written(folders, outcomes)]))

    def folders(self, runs: Sequence[Run], out: Path | None) -> list[Path]:
        """Return a folder for each run; each claim but the default has one of its own."""
        if out is not None or self.claim in (None, DEFAULT):
            return super().folders(runs, out)
        return [default_folder(run, f"{self.name}_{self.claim}") for run in runs]

    def command(self, argv: Sequence[str] | None) -> None:
        """Run as a command, for the claim that ``--claim`` names."""
        given = list(sys.argv[1:] if argv is None else argv)
        if self.claim is None:
            super().command(given)
            return
        parser = CommandParser(f"python -m analysis.{self.name}", "", add_help=False)
        parser.add_argument("--claim", default=self.claim)
        chosen, rest = parser.parse_known_args(given)
        of_claim = self if chosen.claim == self.claim else command_of(chosen.claim, self.name)
        super(Proving, of_claim).command(rest)


def command_of(claim: str, name: str = "certify", *, old: bool = False) -> Proving:
    """Return the command for a claim; an ``old`` one has a name of its own, an alias for one release."""
    if claim not in PROOFS:
        raise unknown_name("claim", claim, PROOFS)
    several = PROOFS[claim]
    first = several[0]
    met = [proof.needs.met_by for proof in several]
    fits = Need(lambda model: any(fit(model) for fit in met), first.needs.lack, first.needs.remedy)
    more = f"This is --claim {claim}; the others are {', '.join(sorted(set(PROOFS) - {claim}))}."
    if old:
        more = f"The same as python -m analysis.certify RUN --claim {claim}."

    def documents(run: Run, found: Found) -> Mapping[str, Any]:
        if not found.claims:
            return {}
        return {CERTIFICATE: certificate_of(run, found).model_dump(mode="json")}

    return Proving(
        name=name,
        claim=None if old else claim,
        question=first.question,
        description=f"{first.description} {more}",
        settings=first.settings,
        needs=fits,
        any_length=claim != DEFAULT,
        measure=lambda run, settings: proof_of(run, claim).prove(run, settings),
        draw=first.draw,
        shows=first.shows,
        documents=documents,
        file=CERTIFICATE if first.draw is None else None,
    )


ANALYSIS = command_of(DEFAULT)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
