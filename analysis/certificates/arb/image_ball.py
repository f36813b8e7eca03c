"""That Φ maps all latents into a ball and contracts in it, in FLINT's ball arithmetic.

The claims are those of the proposition of `implicit.enclosed.image_ball`, for every state of a box, with
distances of latents divided by the last norm's weights w. Nothing here is shared with what found the ball.
With û = z (mean z² + ε)^{−½} and u what the block adds to its stream,

    û moves by at most r     an entry of the input projection moves by at most |its row| r, the row being
                             taken times the weights of the norm before the block,
    |∂û/∂z| ≤ 1 / λ,  |∂ŝ/∂s| ≤ 1 / N     λ and N the least (mean z² + ε)^½ and (mean s² + ε)^½ on the set,

and ∂u/∂û is enclosed over these entries by derivatives that are worked out layer by layer.
"""

from flint import arb, arb_mat

from analysis.certificates.arb.balls import EPSILON, Rows, Vector, norm_bound, scaled_to_unit, spectral_bound
from analysis.certificates.arb.mamba2 import ArbModel, State


class ArbImageBall:
    """A ball of latents around c, at a token and a box of states.

    Args:
        model: from the weights of the run, of one layer.
        token: what is read.
        state: the box.
        centre: c.
        radius: ρ.

    Example:
        What a block adds that does not read the latent is one point.

        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> config = ImplicitMamba2Config(
        ...     vocabulary_size=2, output_size=2, d_model=2, head_size=4, d_state=1, residual=False
        ... )
        >>> weights = {name: value.numpy() for name, value in ImplicitMamba2(config).state_dict().items()}
        >>> weights["mixers.0.in_proj.weight"] *= 0
        >>> model = ArbModel(weights, config.model_dump())
        >>> state = model.state([arb(0)] * (6 * 3 + 4))
        >>> ball = ArbImageBall(model, 0, state, model.image(0, [arb(0), arb(0)], state), arb(0.01))
        >>> ball.holds_images(), ball.contracts()
        (True, True)
    """

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
