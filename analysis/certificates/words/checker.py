"""Whether a certificate of all words is true: the step of every word proved again, in FLINT's balls.

A word is a step from the ball of states that the tokens before its last one lead to; the first ball is the
zero state alone. What is proved of a step is in `analysis.certificates.orbits.steps`, and of the iteration in
`analysis.certificates.orbits.checker`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flint import arb

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.linear import identity, precision
from analysis.certificates.checking import Weights, check_answers, check_each, check_run, check_seal
from analysis.certificates.orbits.checker import check_iteration
from analysis.certificates.orbits.steps import StepChecker, StepClaim
from analysis.certificates.parts import RefusedError
from analysis.certificates.words.document import WORDS_STATEMENTS, WordsCertificate

WORDS_AT_ONCE = 16


class WordsChecker:
    """Proves bundles of orbits and the last steps of single words again.

    Args:
        certificate: the claims; their number fits the number of words.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Example:
        `check_words` makes one.
    """

    def __init__(
        self, certificate: WordsCertificate, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.levels, self.automaton, self.bits = certificate.levels, certificate.automaton, bits
        self.tokens = len(self.automaton.table[0])
        with precision(bits):
            self.steps = StepChecker(certificate, weights, sizes, bits)

    def check(self, kind: str, index: int, row: int) -> None:
        """Check a bundle of orbits, or a word.

        Args:
            kind: ``"bundle"`` or ``"word"``.
            index: which bundle, or which level.
            row: which word of the level.

        Raises:
            RefusedError: naming the first line that fails.
        """
        if kind == "bundle":
            self.steps.orbits.check_bundle(index)
            return
        with precision(self.bits):
            self._check_word(index, row)

    def _check_word(self, index: int, row: int) -> None:
        level = self.levels[index]
        word = tuple(int(token) for token in np.unravel_index(row, (self.tokens,) * (index + 1)))
        told = f"(word {' '.join(map(str, word))})"
        states = level.states.reshape(len(level.margins), -1)
        centre, radius = np.zeros(states.shape[1]), 0.0
        if index:
            before, parent = self.levels[index - 1], row // self.tokens
            centre = before.states.reshape(len(before.margins), -1)[parent]
            radius = float(before.state_radii[parent])
        answer = self.automaton.after(word)
        claim = StepClaim(
            token=word[-1],
            centre=centre,
            axes=identity(len(centre)) * arb(radius),
            latent=level.latents.reshape(len(level.margins), -1)[row],
            latent_radius=float(level.latent_radii[row]),
            bundle=level.bundle_of[row],
            target_centre=states[row],
            target_metric=None,
            answer=answer,
            line=lambda field: f"levels[{index}].{field}[{row}]",
        )
        reach, gaps = self.steps.check(claim)
        if not reach <= float(level.state_radii[row]):
            raise RefusedError(claim.line("state_radii"), f"is less than the distance of the state {told}")
        margin = float(level.margins[row])
        if not margin > 0:
            raise RefusedError(claim.line("margins"), f"is not positive {told}")
        if not all(gap >= margin for gap in gaps):
            raise RefusedError(claim.line("margins"), f"is larger than what is proved {told}")


def check_words(
    certificate: WordsCertificate,
    weights: Weights,
    *,
    sha256: str,
    config: Mapping[str, Any],
    automaton: Automaton,
    bits: int = 128,
    processes: int = 1,
) -> None:
    """Verify a certificate: its head and counts, the bundles of orbits, every word, and its seal, in order.

    Args:
        certificate: what is claimed.
        weights: the state dict of the run.
        sha256: the hash of its weights file.
        config: its configuration, as JSON.
        automaton: of its task.
        bits: the precision.
        processes: how many work in parallel.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from analysis.all_words import analyse
        >>> from analysis.framework.output import RunIdentity
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> check_words(
        ...     analyse(run, length=2).certificate(run),
        ...     {name: tensor.numpy() for name, tensor in run.model.state_dict().items()},
        ...     sha256=RunIdentity.of(run).weights_sha256,
        ...     config=run.config.as_json(),
        ...     automaton=Automaton(initial_state=0, table=[[0, 1], [1, 0]]),
        ... )
    """
    check_run(certificate, WORDS_STATEMENTS, sha256=sha256, config=config, bits=bits)
    state_size = check_answers(certificate, weights, sizes=config["sizes"], automaton=automaton)
    _check_sizes(certificate, state_size, int(config["sizes"]["d_model"]))
    tokens = len(automaton.table[0])
    check_iteration(certificate, config["sizes"], state=state_size, tokens=tokens)
    jobs = [("bundle", number, 0) for number in range(len(certificate.bundles.tokens))]
    jobs += [
        ("word", level, row) for level in range(certificate.length) for row in range(tokens ** (level + 1))
    ]
    check_each(
        WordsChecker,
        (certificate, dict(weights), config["sizes"], bits),
        WordsChecker.check,
        jobs,
        processes=processes,
        unit="word",
        at_once=WORDS_AT_ONCE,
    )
    check_seal(certificate)


def _check_sizes(certificate: WordsCertificate, state: int, latent: int) -> None:
    """Whether arrays hold what they should, and the counts are those of the arrays."""
    tokens = len(certificate.automaton.table[0])
    numbers = {"latents": latent, "latent_radii": 1, "states": state, "state_radii": 1, "margins": 1}
    for number, level in enumerate(certificate.levels):
        words = tokens ** (number + 1)
        for name, size in numbers.items():
            if getattr(level, name).size != words * size:
                raise RefusedError(
                    f"levels[{number}].{name}", f"does not hold {words * size} numbers for {words} words"
                )
        if len(level.bundle_of) != words:
            raise RefusedError(
                f"levels[{number}].bundle_of", f"does not hold a number for each of {words} words"
            )
    if certificate.length != len(certificate.levels):
        raise RefusedError("length", f"is not the number of levels, {len(certificate.levels)}")
    if certificate.words != sum(tokens ** (number + 1) for number in range(certificate.length)):
        raise RefusedError("words", "is not the number of words of the levels")
    if certificate.margin != min(level.margins.min() for level in certificate.levels):
        raise RefusedError("margin", "is not the least one of the levels")
