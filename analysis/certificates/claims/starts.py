"""The simultaneous mode tends to the right answers from every start, by balls that hold all images of Φ.

What is shown of a ball is in `analysis.certificates.arb.image_ball`; that it is enough is the proposition of
`implicit.enclosed.image_ball`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from flint import arb

from analysis.certificates.arb.balls import exact_vector, precision
from analysis.certificates.arb.image_ball import ArbImageBall
from analysis.certificates.arb.mamba2 import ArbModel
from analysis.certificates.certificate import Automaton, Claim, Numbers, RefusedError, Work
from analysis.certificates.checking import Context, Weights, check_each
from analysis.certificates.claims.lengths import CoverChecker, Lengths
from analysis.certificates.iteration import MODELS, check_answers_of, work_of_steps

STATEMENTS = {
    "attraction": (
        "K holds the latents z with sum_i (z_i / w_i)^2 <= d, w the weights of the last norm, none of them "
        "zero, and d their number; all images of Phi lie in it. For every state of set i and token x, with "
        "c the row (i, x) of latents and r the entry (i, x) of image_radii, |(Phi(z) - c) / w| <= r for "
        "every z in K (Euclidean norm, division entry by entry), and the norm of the derivative of Phi, for "
        "latents divided by w, is below 1 at every z with |(z - c) / w| <= r. So Phi has one fixed point in "
        "K, and the damped iteration tends to it from every latent of K."
    ),
    "simultaneous": (
        "Hence, in exact arithmetic and without end, the simultaneous mode (all tokens of a word iterated "
        "together, with the damping of the configuration) tends to the fixed points of the sequential one on "
        "words of every length, from every start whose latents lie in K, zero among them; and the answers "
        "read from its limits are right. Nothing is claimed of its rounding, of a tolerance, or of a limit "
        "of its iterations."
    ),
}


OF_EVERY_START = (
    "in exact arithmetic and without end the simultaneous mode tends to the same answers, from every start "
    "whose latents z have sum (z_i / w_i)^2 <= d, w the weights of the last norm and d their number, zero "
    "among them; its rounding, tolerance and limit of iterations are not covered"
)


class Starts(Claim):
    """The simultaneous mode tends to the same answers from every start: radii of balls around the latents.

    They are those of the certificate's claim of every length, which it has to hold.

    Example:
        >>> list(Starts.model_fields)[-1]
        'image_radii'
    """

    models: ClassVar[tuple[str, ...]] = MODELS

    kind: Literal["starts"] = "starts"
    image_radii: Numbers

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003
        """Return the same for every run."""
        return STATEMENTS

    def work(self, context: Context) -> Work:
        """Bound the work: two evaluations for each set and token."""
        lengths = self._lengths(context)
        return work_of_steps(lengths, context, 2 * sum(map(len, lengths.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the balls; the claim of every length verifies the sets that they are about."""
        lengths = self._lengths(context)
        automaton, _ = check_answers_of(context)
        sets, tokens = len(lengths.labels), len(automaton.table[0])
        if self.image_radii.size != sets * tokens:
            raise RefusedError("image_radii", f"does not hold {sets * tokens} numbers, one per set and token")
        lengths.check_sizes(context)
        check_each(
            ImageBallChecker,
            (self, lengths, dict(context.weights), context.sizes, automaton, context.bits),
            ImageBallChecker.check,
            [(index, token) for index in range(sets) for token in range(tokens)],
            processes=context.processes,
            unit="step",
        )

    def verdict(self, config: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return what is said of the simultaneous mode."""
        return OF_EVERY_START

    @staticmethod
    def _lengths(context: Context) -> Lengths:
        found = context.claim("lengths")
        if not isinstance(found, Lengths):
            raise RefusedError(
                "image_radii", "are around latents of a claim of every length, of which there is none"
            )
        return found


class ImageBallChecker:
    """Shows of single sets that Φ maps all latents into a ball in which it contracts.

    Args:
        claim: what is claimed; its array has the right size.
        lengths: the cover.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        automaton: of the task.
        bits: the precision.

    Example:
        `Starts.check` makes one.
    """

    def __init__(
        self,
        claim: Starts,
        lengths: Lengths,
        weights: Weights,
        sizes: Mapping[str, Any],
        automaton: Automaton,
        bits: int,
    ) -> None:
        self.bits = bits
        self.cover = CoverChecker(lengths, weights, sizes, automaton, bits)
        with precision(bits):
            self.model = ArbModel(weights, sizes)
        self.radii = claim.image_radii.reshape(self.cover.latents.shape[:2])

    def check(self, index: int, token: int) -> None:
        """Check a set and a token.

        Raises:
            RefusedError: if it is not shown.
        """
        with precision(self.bits):
            ball = ArbImageBall(
                self.model,
                token,
                self.model.state(self.cover.box(index)),
                exact_vector(self.cover.latents[index, token]),
                arb(float(self.radii[index, token])),
            )
            line = f"image_radii[{index * self.radii.shape[1] + token}]"
            if not ball.holds_images():
                raise RefusedError(line, f"not all images of token {token} in set {index} are within it")
            if not ball.contracts():
                raise RefusedError(line, f"no contraction on it is shown of token {token} in set {index}")
