"""Whether a certificate holds: the head, every claim by its own kind, the seal; and what the kinds share.

Claims are proved again by other means than they were made with (`analysis.certificates.arb`), one by one in
several processes. Nothing is started that would take more than is allowed of time or memory.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.certificates.certificate import (
    ARITHMETIC,
    PRODUCER_PRECISION,
    Automaton,
    Certificate,
    Claim,
    RefusedError,
    same_json,
    shown,
)
from automata.processes import spawned_workers

Weights = Mapping[str, NDArray[np.floating[Any]]]
EVALUATED = re.compile(
    r"(embedding|embedding_norm|latent_norm|final_norm|injections\.\d+|mixer_norms\.\d+)\.weight|"
    r"head\.(weight|bias)|"
    r"mixers\.\d+\.((in_proj|out_proj|norm|convolution)\.weight|conv1d\.(weight|bias)|dt_bias|A_log|D)"
)
"""The weights that the evaluations of Mamba-2 and DeltaNet read, and the last norm of explicit models, which
no state depends on."""
A_SECOND = 5 * 10.0**9
"""Operations times bits that one core does in a second, about."""
MOST_WORK = 2 * 10.0**14
"""Hours on one core; the largest certificate of a stored run takes less than a fifth of it."""
MOST_MEMORY = 16 * 10.0**9
"""Bytes."""


class Visit(NamedTuple):
    """A place in the sequences of a task: the word before it leads to a state, in which the token is read."""

    sequence: int
    position: int
    token: int
    word: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Context:
    """What a checker takes from the run, and how much it may do.

    Attributes:
        automaton: of the task; None if it has none.
    """

    weights: Weights
    config: Mapping[str, Any]
    automaton: Automaton | None
    visits: Callable[[Mapping[str, int]], list[Visit]]
    claims: tuple[Claim, ...] = ()
    bits: int = 128
    processes: int = 1
    most_work: float = MOST_WORK

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Of the model."""
        sizes: Mapping[str, Any] = self.config["sizes"]
        return sizes

    def claim(self, kind: str) -> Any:
        """Return the claim of a kind; None if there is none."""
        return next((claim for claim in self.claims if claim.kind == kind), None)


def check(certificate: Certificate, context: Context, identity: Mapping[str, str | int | bool]) -> None:
    """Verify a certificate: its head, its claims, and its seal, in order."""
    check_identity(certificate, identity)
    claims = [(f"claims[{number}].", claim) for number, claim in enumerate(certificate.claims)]
    if not claims:
        raise RefusedError("claims", "are none")
    for place, claim in claims:
        if claim.statements != claim.stated(context.config):
            raise RefusedError(
                f"{place}statements", "are not those of this format; make the certificate anew from the run"
            )
    check_head(certificate, context)
    for check_one in (_check_work, lambda claim, of: claim.check(of)):
        for place, claim in claims:
            try:
                check_one(claim, context)
            except RefusedError as refusal:
                first = re.split(r"[.\[]", refusal.line)[0]
                if first not in type(claim).model_fields:
                    raise
                raise RefusedError(f"{place}{refusal.line}", refusal.reason) from None
    if certificate.seal() != certificate.sha256:
        raise RefusedError("sha256", "is not the hash of the other lines")


def _check_work(claim: Claim, context: Context) -> None:
    work = claim.work(context)
    if not work.operations <= context.most_work:
        raise RefusedError(
            "kind",
            f"the check takes up to {work.operations:.1e} operations times bits, more than --work "
            f"{context.most_work:.1e}, some {context.most_work / A_SECOND / 3600:.1f} h; ask for more",
        )
    if not work.bytes * context.processes <= MOST_MEMORY:
        raise RefusedError(
            "kind", f"the check takes up to {work.bytes:.1e} bytes a process, of {MOST_MEMORY:.1e} for all"
        )


def check_head(certificate: Certificate, context: Context) -> None:
    """Verify that a certificate is about the settings and the task of a run."""
    config, bits = context.config, context.bits
    for name in sorted(set(config) | set(certificate.config)):
        ours, theirs = ({name: of.get(name)} if name in of else {} for of in (config, certificate.config))
        if not same_json(theirs, ours):
            raise RefusedError(f"config.{shown(name)}", f"is not that of the run, {config.get(name)}")
    if certificate.arithmetic.producer != ARITHMETIC:
        raise RefusedError("arithmetic.producer", "is not that of the format")
    if certificate.arithmetic.precision != PRODUCER_PRECISION:
        raise RefusedError("arithmetic.precision", f"is not {PRODUCER_PRECISION}, that of the format")
    if bits <= PRODUCER_PRECISION:
        raise RefusedError("arithmetic.precision", f"is not below that of the check, {bits}")
    if certificate.automaton != context.automaton:
        raise RefusedError("automaton", "is not that of the run's task")


def check_identity(certificate: Certificate, identity: Mapping[str, str | int | bool]) -> None:
    """Verify that what a certificate says of its run is what the run says, and no more."""
    if set(certificate.run) != set(identity):
        held, expected = (", ".join(map(shown, sorted(names))) for names in (certificate.run, identity))
        raise RefusedError("run", f"holds {held}, and should hold {expected}")
    for name, value in reversed([*identity.items()]):  # the weights first
        if not same_json(certificate.run[name], value):
            raise RefusedError(f"run.{name}", f"is not that of the run given, {value}")


def check_answers(context: Context, models: Collection[str]) -> Automaton:
    """Verify that right answers are claimed of a word problem, and of a model of one layer that is evaluated.

    Returns:
        The automaton, whose states are the answers.
    """
    model, automaton = context.config.get("model"), context.automaton
    if model not in models:
        raise RefusedError("config.model", f"is not one of which answers are proved, {', '.join(models)}")
    if automaton is None or automaton.answers is not None:
        raise RefusedError("automaton", "is not that of a word problem, whose answers are the next states")
    if len(automaton.table) < 2:
        raise RefusedError("automaton", "has one state only, so that right answers claim nothing")
    if context.sizes["layers"] != 1:
        raise RefusedError("config.sizes", "are not those of a model of one layer")
    return automaton


def check_weights(weights: Collection[str]) -> None:
    """Verify that a run has no weights but those that the checkers' evaluation of a model reads.

    Example:
        >>> check_weights(["embedding.weight", "mixers.0.A_log", "mlps.0.0.weight"])
        Traceback (most recent call last):
        analysis.certificates.certificate.RefusedError: config.sizes: are of a model whose ...
    """
    for name in weights:
        if not EVALUATED.fullmatch(name):
            raise RefusedError("config.sizes", f"are of a model whose {name} the checker cannot evaluate")


def check_each(
    context: Context,
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    jobs: Sequence[tuple[Any, ...]],
    *,
    unit: str,
    at_once: int = 16,
) -> None:
    """Give every job to ``make(*arguments).check``, in several processes, with a bar.

    A checker is made in each process, and as many jobs as ``at_once`` are handed to it together.
    """
    with tqdm(total=len(jobs), desc=f"{unit}s", unit=unit, leave=False, disable=None) as bar:
        if context.processes == 1:
            checker = make(*arguments)
            for job in jobs:
                checker.check(*job)
                bar.update()
            return
        with spawned_workers(context.processes, _begin, (make, arguments)) as pool:
            for _ in pool.map(_check_one, jobs, chunksize=at_once):
                bar.update()


_CHECKERS: list[Any] = []
"""That of a worker process."""


def _begin(make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _CHECKERS.append(make(*arguments))


def _check_one(job: tuple[Any, ...]) -> None:
    _CHECKERS[0].check(*job)
