"""The simultaneous mode tends to the right answers from every start, by balls that hold all images of Φ.

That they are enough is the proposition of `implicit.enclosed.image_ball`; it is shown for every state of a
box, with distances of latents divided by the last norm's weights w. Nothing is shared with what found the
balls. With û = z (mean z² + ε)^{−½} and u what the block adds to its stream,

    û moves by at most r     an entry of the input projection moves by at most |its row| r, the row being
                             taken times the weights of the norm before the block,
    |∂û/∂z| ≤ 1 / λ,  |∂ŝ/∂s| ≤ 1 / N     λ and N the least (mean z² + ε)^½ and (mean s² + ε)^½ on the set,

and ∂u/∂û is enclosed over these entries by derivatives that are worked out layer by layer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from flint import arb, arb_mat

from analysis.certificates.arb.balls import (
    EPSILON,
    Rows,
    Vector,
    exact_vector,
    norm_bound,
    precision,
    scaled_to_unit,
    spectral_bound,
)
from analysis.certificates.arb.mamba2 import ArbModel, State
from analysis.certificates.certificate import Automaton, Claim, Numbers, RefusedError, Work
from analysis.certificates.checking import Context, Weights, check_each
from analysis.certificates.claims.lengths import Lengths, Sets
from analysis.certificates.iteration import MODELS, check_answers_of, work_of_steps


class ArbImageBall:
    """A ball of latents around c, at a token and a box of states."""

    def __init__(self, model: ArbModel, token: int, state: State, centre: Vector, radius: arb) -> None:
        (self.layer,) = model.layers
        self.model, self.size = model, model.size
        self.injection = model.injection(token)
        self.window, self.h = state["conv.0"], state["ssm.0"]
        self.centre, self.radius = centre, radius
        self.target = [c / w for c, w in zip(centre, model.last_norm, strict=True)]
        self.scale = _largest(model.last_norm)
        self.kept = self.scale if model.residual else arb(0)
        self.rows = [
            norm_bound([m * w for m, w in zip(row, self.layer.norm_before, strict=True)])
            for row in self.layer.in_proj.tolist()
        ]

    def holds_images(self) -> bool:
        """Return whether |Φ(z) − c| ≤ ρ is shown of all latents z that the last norm can give."""
        root, zero = arb(self.size).sqrt(), [arb(0)] * self.size
        added, slope = self._added(zero), self._slope(zero, root)
        moved = root * (self.kept + slope)
        away = [a - b for a, b in zip(scaled_to_unit(added, [arb(1)] * self.size), self.target, strict=True)]
        return bool(norm_bound(away) + moved / self._least_root(added, moved) <= self.radius)

    def contracts(self) -> bool:
        """Return whether the norm of the derivative is shown to be below 1 on the ball."""
        far = self.scale * self.radius
        at_centre = (sum((z * z for z in self.centre), arb(0)) / self.size + EPSILON).sqrt()
        least = (at_centre - far / arb(self.size).sqrt()).lower()
        if not least > 0:
            return False
        turn = far / least
        read = scaled_to_unit(self.centre, [arb(1)] * self.size)
        added, slope = self._added(read), self._slope(read, turn)
        stream = [z + v for z, v in zip(self.centre, added, strict=True)] if self.model.residual else added
        moved = self.kept * self.radius + slope * turn
        return bool((self.kept + slope * self.scale / least) / self._least_root(stream, moved) < 1)

    def _added(self, read: Vector) -> Vector:
        """What the block adds at û = read."""
        inputs = [w * entry for w, entry in zip(self.layer.norm_before, read, strict=True)]
        found = self.layer.read(inputs, [[]] * self.size, self.injection, self.window)
        return self.layer.output(found, self.h, None)[0]

    def _slope(self, read: Vector, radius: arb) -> arb:
        """A bound of ‖∂u/∂û‖ where |û − read| ≤ radius."""
        before = self.layer.norm_before
        slopes: Rows = [[w if i == k else arb(0) for k in range(self.size)] for i, w in enumerate(before)]
        entering = [
            entry + arb(0, (row * radius).upper())
            for entry, row in zip(self.injection, self.rows, strict=True)
        ]
        inputs = [w * entry for w, entry in zip(before, read, strict=True)]
        found = self.layer.read(inputs, slopes, entering, self.window)
        _, along = self.layer.output(found, self.h, None)
        return spectral_bound(arb_mat(along))

    def _least_root(self, stream: Vector, moved: arb) -> arb:
        """The least (mean s² + ε)^½ within a distance of a stream."""
        middle = sum((entry.mid() ** 2 for entry in stream), arb(0)).sqrt()
        left = (middle - norm_bound([entry - entry.mid() for entry in stream]) - moved).lower()
        return ((left * left if left > 0 else arb(0)) / self.size + EPSILON).sqrt().lower()


def _largest(weights: Vector) -> arb:
    """The largest absolute value."""
    found = arb(0)
    for weight in weights:
        if not abs(weight).upper() <= found:
            found = abs(weight).upper()
    return found


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
    """

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = STATEMENTS

    kind: Literal["starts"] = "starts"
    image_radii: Numbers

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
        arguments = (self, lengths, dict(context.weights), context.sizes, automaton, context.bits)
        places = [(index, token) for index in range(sets) for token in range(tokens)]
        check_each(context, ImageBallChecker, arguments, places, unit="step")

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
    """Shows of single sets that Φ maps all latents into a ball in which it contracts."""

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
        self.sets = Sets(lengths, automaton)
        self.radii = claim.image_radii.reshape(len(lengths.labels), -1)
        self.latents = lengths.latents.reshape(*self.radii.shape, -1)
        with precision(bits):
            self.model = ArbModel(weights, sizes)

    def check(self, index: int, token: int) -> None:
        """Check a set and a token."""
        with precision(self.bits):
            ball = ArbImageBall(
                self.model,
                token,
                self.model.state(self.sets.box(index)),
                exact_vector(self.latents[index, token]),
                arb(float(self.radii[index, token])),
            )
            line = f"image_radii[{index * self.radii.shape[1] + token}]"
            if not ball.holds_images():
                raise RefusedError(line, f"not all images of token {token} in set {index} are within it")
            if not ball.contracts():
                raise RefusedError(line, f"no contraction on it is shown of token {token} in set {index}")
