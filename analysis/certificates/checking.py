"""What every checker of certificates does: the head, the claims one by one in several processes, the seal."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.certificates.answers import AnswersDocument, Automaton
from analysis.certificates.parts import (
    ARITHMETIC,
    PRODUCER_PRECISION,
    Document,
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
"""The weights that the evaluations in `analysis.certificates.arb` read, and the last norm of explicit models,
which no state depends on."""


def check_run(
    certificate: Document,
    statements: Mapping[str, str],
    *,
    sha256: str,
    config: Mapping[str, Any],
    bits: int,
) -> None:
    """Verify that a certificate makes the statements of its format, about the weights and settings of a run.

    Args:
        certificate: of any kind.
        statements: of its format.
        sha256: the hash of the run's weights file.
        config: the run's configuration, as JSON.
        bits: the precision of the check, which has to be above the producer's.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> check_run(analyse(run, length=1).certificate(run), {}, sha256="", config={}, bits=128)
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: statements: are not those of this format
    """
    if certificate.statements != statements:
        raise RefusedError("statements", "are not those of this format")
    if certificate.run.get("weights_sha256") != sha256:
        raise RefusedError("run.weights_sha256", f"is not that of the weights given, {sha256}")
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


def check_identity(certificate: Document, identity: Mapping[str, str | int | bool]) -> None:
    """Verify that what a certificate says of its run is what the run says, and no more.

    Args:
        certificate: of any kind.
        identity: of the run.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> check_identity(analyse(run, length=1).certificate(run), {"task": "S5"})
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: run: holds compiled, model, parameters, ...
    """
    if set(certificate.run) != set(identity):
        held, expected = (", ".join(map(shown, sorted(names))) for names in (certificate.run, identity))
        raise RefusedError("run", f"holds {held}, and should hold {expected}")
    for name, value in reversed([*identity.items()]):  # the weights first
        if not same_json(certificate.run[name], value):
            raise RefusedError(f"run.{name}", f"is not that of the run given, {value}")


def check_weights(weights: Collection[str]) -> None:
    """Verify that a run has no weights but those that the checkers' evaluation of a model reads.

    Args:
        weights: their names.

    Raises:
        RefusedError: for others, such as those of an MLP: the evaluation would be that of another model.

    Example:
        >>> check_weights(["embedding.weight", "mixers.0.A_log", "mlps.0.0.weight"])
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: config.sizes: are of a model whose mlps.0.0.weight the ...
    """
    for name in weights:
        if not EVALUATED.fullmatch(name):
            raise RefusedError("config.sizes", f"are of a model whose {name} the checker cannot evaluate")


def check_answers(
    certificate: AnswersDocument, weights: Weights, *, sizes: Mapping[str, Any], automaton: Automaton
) -> int:
    """Verify that a certificate of right answers is about the run's task, and that its model has one layer.

    Args:
        certificate: of all words or of every length.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        automaton: of its task.

    Returns:
        How many numbers a state of the model has.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> flips_never = Automaton(initial_state=0, table=[[0, 0], [1, 1]])
        >>> check_answers(analyse(run, length=1).certificate(run), {}, sizes={}, automaton=flips_never)
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: automaton: is not that of the run's task
    """
    if certificate.automaton != automaton:
        raise RefusedError("automaton", "is not that of the run's task")
    check_weights(weights)
    if len(automaton.table) < 2:
        raise RefusedError("automaton", "has one state only, so that right answers claim nothing")
    if "latent_norm.weight" not in weights or sizes["layers"] != 1:
        raise RefusedError("config.sizes", "are not those of an implicit model of one layer")
    channels, _, taps = weights["mixers.0.conv1d.weight"].shape
    inner = weights["mixers.0.out_proj.weight"].shape[1]
    return int(channels * (taps - 1) + inner * int(sizes["d_state"]))


def check_seal(certificate: Document) -> None:
    """Verify that nothing was changed since a certificate was sealed.

    Raises:
        RefusedError: if something was.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> check_seal(analyse(run, length=1).certificate(run).model_copy(update={"margin": 0.0}))
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: sha256: is not the hash of the other lines
    """
    if certificate.seal() != certificate.sha256:
        raise RefusedError("sha256", "is not the hash of the other lines")


def check_each(
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    check: Callable[..., object],
    claims: Sequence[tuple[Any, ...]],
    *,
    processes: int,
    unit: str,
    at_once: int = 1,
) -> None:
    """Check claims one after the other, or in several processes, with a bar that shows how far it is.

    Args:
        make: the checker's class.
        arguments: what a checker is made from; one is made in each process.
        check: the method of that class that checks one claim and raises if it fails.
        claims: its arguments, in order.
        processes: how many.
        unit: what the claims are called in the bar.
        at_once: claims that are handed to a process together.

    Example:
        >>> check_each(dict, (), dict.__setitem__, [("a", 1), ("b", 2)], processes=1, unit="pair")
    """
    with tqdm(total=len(claims), desc=f"{unit}s", unit=unit, leave=False, disable=None) as bar:
        if processes == 1:
            checker = make(*arguments)
            for claim in claims:
                check(checker, *claim)
                bar.update()
            return
        with spawned_workers(processes, _begin, (make, arguments)) as pool:
            for _ in pool.map(_check_one, [(check, claim) for claim in claims], chunksize=at_once):
                bar.update()


_CHECKERS: list[Any] = []
"""That of a worker process."""


def _begin(make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _CHECKERS.append(make(*arguments))


def _check_one(job: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
    check, claim = job
    check(_CHECKERS[0], *claim)
