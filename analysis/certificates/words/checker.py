"""Whether a certificate of all words is true: every word followed again from the weights, in FLINT's balls.

The producer maps each ball of the certificate into the next by the mean value theorem, with all derivatives
by the state. Here no ball of the certificate is an argument of anything: the exact initial state is followed
through `arb_mamba2`, whose widths stay far below what is claimed because the precision is
high, and what comes out is compared with the claim. The theorem behind the fixed points is that of
`theory.rigorous.enclosure`: with Z the box of radius r around z̃, A enclosing ∂zΦ over Z and P ≈ (I − A)⁻¹,

    κ ≥ ‖I − P (I − A)‖_∞ < 1  and  d = ‖P (Φ(z̃) − z̃)‖_∞ / (1 − κ) ≤ r

prove one fixed point in Z, and every z ∈ Z has it within κ d(z) of z + P (Φ(z) − z).
"""

from collections.abc import Mapping
from typing import Any

from flint import arb, arb_mat

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.linear import max_upper, precision
from analysis.certificates.arb.mamba2 import Rows, Vector, apply, exact_vector
from analysis.certificates.arb.model import ArbModel, entries_of
from analysis.certificates.arb.newton import contracting_newton_map
from analysis.certificates.checking import Weights, check_answers, check_each, check_run, check_seal
from analysis.certificates.parts import RefusedError
from analysis.certificates.words.document import (
    WORDS_STATEMENTS,
    WordLevel,
    WordsCertificate,
    words_in_order,
)

SHARPENINGS = 3
"""Each divides the width of a fixed point's enclosure by κ, until rounding and the state's width are left."""
SPLIT_LENGTH = 4
"""Words of this length are handed out to processes, each with all that begin with it."""

Word = tuple[int, ...]
ArbState = dict[str, Rows]


class WordsChecker:
    """Follows words and compares what is proved of them with the claims.

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
            self.model = ArbModel(weights, sizes)

    def check_from(self, prefix: Word) -> None:
        """Check the beginnings of a word, the word, and all words of the certificate that begin with it.

        Raises:
            RefusedError: naming the first line that fails, depth first.
        """
        with precision(self.bits):
            size = sum(rows * columns for rows, columns in self.model.shapes.values())
            self._follow((), self.model.state([arb(0)] * size), prefix)

    def _follow(self, word: Word, state: ArbState, prefix: Word) -> None:
        if len(word) == len(self.levels):
            return
        tokens = prefix[len(word) : len(word) + 1] or range(self.tokens)
        for token in tokens:
            longer = (*word, token)
            self._follow(longer, self._check_word(longer, state), prefix)

    def _check_word(self, word: Word, before: ArbState) -> ArbState:
        """Check the claims about a word, given the state before its last token; return the state after it."""
        level, row = self.levels[len(word) - 1], 0
        for token in word:
            row = row * self.tokens + token
        latent = self._fixed_point(level, row, word, before)
        _, _, found = self.model.evaluate(word[-1], latent, before, None)
        after = self.model.following(found, before)

        numbers = entries_of(after)
        centre = exact_vector(level.states.reshape(-1, len(numbers))[row])
        # of upper bounds: FLINT has no square of a ball around zero, where the claimed number lies inside
        squares = sum((abs(a - b).upper() ** 2 for a, b in zip(numbers, centre, strict=True)), arb(0))
        radius = float(level.state_radii[row])
        if not (radius >= 0 and squares <= arb(radius) ** 2):
            raise _refusal("state_radii", row, word, "is less than the distance of the state")

        logits = self.model.logits(latent)
        answer, margin = self.automaton.after(word), float(level.margins[row])
        if not margin > 0:
            raise _refusal("margins", row, word, "is not positive")
        others = [logit for state, logit in enumerate(logits) if state != answer]
        if not all(logits[answer] - other >= margin for other in others):
            raise _refusal("margins", row, word, "is larger than what is proved")
        return after

    def _fixed_point(self, level: WordLevel, row: int, word: Word, state: ArbState) -> Vector:
        """Return an enclosure of the one fixed point in the box of the certificate."""
        size = self.model.size
        numbers, radius = level.latents.reshape(-1, size)[row], float(level.latent_radii[row])
        if not radius >= 0:
            raise _refusal("latent_radii", row, word, "is negative")
        region = [arb(float(number), radius) for number in numbers]
        _, slopes, _ = self.model.evaluate(word[-1], region, state, [0])
        newton = contracting_newton_map(
            arb_mat([rates[:size] for rates in slopes]),
            lambda reason: _refusal("latent_radii", row, word, reason),
        )
        inverse, kappa = newton.inverse, newton.kappa
        here = exact_vector(numbers)
        for attempt in range(1 + SHARPENINGS):
            image, _, _ = self.model.evaluate(word[-1], here, state, None)
            step = apply(inverse, [a - b for a, b in zip(image, here, strict=True)])
            distance = max_upper([abs(entry) for entry in step]) / (1 - kappa)
            if attempt == 0 and not distance <= radius:
                raise _refusal("latents", row, word, "no fixed point is proved within its radius")
            around = arb(0, (kappa * distance).upper())
            enclosure = [a + b + around for a, b in zip(here, step, strict=True)]
            here = [entry.mid() for entry in enclosure]
            if not all(box.contains(entry) for box, entry in zip(region, here, strict=True)):
                break
        return enclosure


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
    """Verify a certificate: its head, every word, its counts and its seal, in this order.

    Args:
        certificate: what is claimed.
        weights: the state dict of the run.
        sha256: the hash of its weights file.
        config: its configuration, as JSON.
        automaton: of its task.
        bits: the precision. Balls grow with the length of the words: 128 suffice for 12 tokens of the stored
            run, and a claim that is refused at one precision may be proved at a higher one.
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
    split = min(SPLIT_LENGTH, certificate.length) if processes > 1 else 1
    jobs = [(tuple(word),) for word in words_in_order(len(automaton.table[0]), split).tolist()]
    arguments = (certificate, dict(weights), config["sizes"], bits)
    check_each(WordsChecker, arguments, WordsChecker.check_from, jobs, processes=processes, unit="subtree")
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
    if certificate.length != len(certificate.levels):
        raise RefusedError("length", f"is not the number of levels, {len(certificate.levels)}")
    if certificate.words != sum(tokens ** (number + 1) for number in range(certificate.length)):
        raise RefusedError("words", "is not the number of words of the levels")
    if certificate.margin != min(level.margins.min() for level in certificate.levels):
        raise RefusedError("margin", "is not the least one of the levels")


def _refusal(name: str, row: int, word: Word, reason: str) -> RefusedError:
    return RefusedError(
        f"levels[{len(word) - 1}].{name}[{row}]", f"{reason} (word {' '.join(map(str, word))})"
    )
