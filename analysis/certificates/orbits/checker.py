"""Whether bundles of orbits end where a certificate says: followed again from zero, in FLINT's balls.

The theorem is that of `theory.rigorous.covers.orbits`; nothing of an orbit is taken from the certificate but
the box of states and the region in which it is to end. The names are those of that docstring.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.linear import identity, norm_bound, precision, spectral_bound
from analysis.certificates.arb.mamba2 import Vector, apply, exact_matrix, exact_vector
from analysis.certificates.arb.model import ArbModel, State
from analysis.certificates.arb.rounding import ArbRounding
from analysis.certificates.orbits.document import IterationDocument
from analysis.certificates.parts import LEAST_ULPS, MOST_ULPS, RefusedError

MOST_ITERATIONS = 10**5
"""That are followed in balls; the stored certificates have at most 173."""


@dataclass(frozen=True, eq=False)
class _Bundle:
    """A bundle as balls; `stretch` bounds ‖L‖₂ and `shrink` ‖L⁻¹‖₂."""

    token: int
    centre: State
    box: State
    widths: list[list[arb]]
    latent: Vector
    radius: arb
    metric: arb_mat
    inverse: arb_mat
    stretch: arb
    shrink: arb


class OrbitChecker:
    """Follows bundles of orbits.

    Args:
        claims: the certificate; the sizes of its arrays are those of `check_iteration`.
        model: from the weights of the run.
        bits: the precision.
        program: bounds the rounding that is claimed to be covered; None if none is.

    Example:
        The checkers of words and of covers make one.
    """

    def __init__(
        self, claims: IterationDocument, model: ArbModel, bits: int, program: ArbRounding | None = None
    ) -> None:
        self.claims, self.model, self.bits, self.program = claims, model, bits, program
        count, bundles = len(claims.bundles.tokens), claims.bundles
        names = ("centres", "widths", "latents", "metrics")
        self._rows = {name: getattr(bundles, name).reshape(count, -1) for name in names}

    def check_bundle(self, index: int) -> None:
        """Check that the orbits of a bundle end as it is claimed.

        Raises:
            RefusedError: naming the first line that fails.
        """
        with precision(self.bits):
            bundle, claims = self._bundle(index), self.claims
            tau, tolerance = self.model.damping, arb(claims.tolerance)
            off, error = arb(claims.step_error), arb(claims.latent_error)
            rate, moved = self._over(bundle, bundle.latent, bundle.radius)
            away = self._apart(bundle, self._image(bundle, bundle.latent), bundle.latent)
            if (
                not rate < 1
                or not rate * bundle.radius + moved + away + bundle.stretch * off <= bundle.radius
            ):
                raise RefusedError(
                    f"bundles.radii[{index}]",
                    "the iteration is not proved to contract to one fixed point in it",
                )
            self._check_rounding(index, bundle, bundle.latent, bundle.radius)
            length = norm_bound(bundle.latent)
            residual = tau * tolerance * (length + bundle.shrink * bundle.radius) + off
            if not bundle.shrink * bundle.stretch * residual / (1 - rate) <= error:
                raise RefusedError(
                    "latent_error", f"is less than the distance from a fixed point in bundle {index}"
                )
            entered = self._entered(index, bundle)
            left = claims.iterations - 1 - entered
            if left < 0:
                raise RefusedError("iterations", f"are over before bundle {index} is in its region")
            near = bundle.shrink * (2 * bundle.radius * rate**left + bundle.stretch * off / (1 - rate))
            least = tau * tolerance * (_length(bundle.latent) - bundle.shrink * bundle.radius)
            if not (near <= error and (1 + rate) * near + off <= least):
                raise RefusedError("iterations", f"are not enough for the tolerance in bundle {index}")

    def check_member(
        self, line: str, index: int, token: int, region: Vector, latent: Vector, latent_radius: float
    ) -> None:
        """Check that states and the fixed points that they have belong to a bundle.

        Args:
            line: what the certificate calls the claim.
            index: the bundle.
            token: of the states.
            region: a box that holds them.
            latent: the middle of the box of their fixed points.
            latent_radius: its radius, maximum norm.

        Raises:
            RefusedError: if they do not.
        """
        if index >= len(self.claims.bundles.tokens) or self.claims.bundles.tokens[index] != token:
            raise RefusedError(line, "is not a bundle of this token")
        rows = {name: exact_vector(numbers[index]) for name, numbers in self._rows.items()}
        for entry, middle, width in zip(region, rows["centres"], rows["widths"], strict=True):
            if not abs(entry - middle) <= width:
                raise RefusedError(line, "is a bundle that does not hold the states")
        box = [
            entry + arb(0, latent_radius) - middle
            for entry, middle in zip(latent, rows["latents"], strict=True)
        ]
        if not norm_bound(apply(self._metric(index), box)) <= float(self.claims.bundles.radii[index]):
            raise RefusedError(line, "is a bundle whose region does not hold the fixed points")

    def _entered(self, index: int, bundle: _Bundle) -> int:
        """After how many steps all orbits are in the region, none of them stopped before."""
        claims, tau = self.claims, self.model.damping
        off, tolerance = arb(claims.step_error), arb(claims.tolerance)
        centre, width = [arb(0)] * self.model.size, arb(0)
        for k in range(claims.iterations):
            if self._apart(bundle, centre, bundle.latent) + width <= bundle.radius:
                return k
            rate, moved = self._over(bundle, centre, width)
            self._check_rounding(index, bundle, centre, width)
            image = self._image(bundle, centre)
            following = [entry.mid() for entry in image]
            rounded = self._apart(bundle, image, following)
            after = (rate * width + moved + rounded + bundle.stretch * off).upper()
            step = [a - b for a, b in zip(following, centre, strict=True)]
            left = _length(step) - bundle.shrink * (width + after) - 2 * off
            if not left > tau * tolerance * (norm_bound(centre) + bundle.shrink * width):
                raise RefusedError(
                    f"bundles.latents[{index}]", "the iteration is not proved to get there before it may stop"
                )
            centre, width = following, after
        raise RefusedError("iterations", f"are over before bundle {index} is in its region")

    def _bundle(self, index: int) -> _Bundle:
        rows = {name: numbers[index] for name, numbers in self._rows.items()}
        radius = float(self.claims.bundles.radii[index])
        if not (radius > 0 and (rows["widths"] >= 0).all()):
            raise RefusedError(f"bundles.radii[{index}]", "is not positive, or a width is negative")
        metric = self._metric(index)
        try:
            inverse = metric.inv()
        except ZeroDivisionError:
            raise RefusedError(f"bundles.metrics[{index}]", "cannot be inverted") from None
        centre = exact_vector(rows["centres"])
        box = [middle + arb(0, width) for middle, width in zip(centre, rows["widths"].tolist(), strict=True)]
        return _Bundle(
            self.claims.bundles.tokens[index],
            self.model.state(centre),
            self.model.state(box),
            exact_matrix(np.diag(rows["widths"])).tolist(),
            exact_vector(rows["latents"]),
            arb(radius),
            metric,
            inverse,
            spectral_bound(metric),
            spectral_bound(inverse),
        )

    def _check_rounding(self, index: int, bundle: _Bundle, latent: Vector, radius: arb) -> None:
        """Check that the program's steps are off by no more than is claimed, wherever they are made."""
        if self.program is None:
            return
        off = self.program.bound(bundle.token, self._near(bundle, latent, radius), bundle.box).step
        if not off <= arb(self.claims.step_error):
            raise RefusedError("step_error", f"is less than the rounding of the program in bundle {index}")

    @staticmethod
    def _near(bundle: _Bundle, latent: Vector, radius: arb) -> Vector:
        """The latents within a radius."""
        reach = [(radius * norm_bound(row)).upper() for row in bundle.inverse.tolist()]
        return [entry + arb(0, far) for entry, far in zip(latent, reach, strict=True)]

    def _over(self, bundle: _Bundle, latent: Vector, radius: arb) -> tuple[arb, arb]:
        """‖L J L⁻¹‖₂ over the latents within a radius and the box of states, and ‖|L B| w‖₂."""
        size, tau = self.model.size, self.model.damping
        near = self._near(bundle, latent, radius)
        _, rates, _ = self.model.evaluate_along(bundle.token, near, bundle.box, bundle.widths)
        inner = identity(size) * (1 - tau) + arb_mat([row[:size] for row in rates]) * tau
        along = bundle.metric * arb_mat([row[size:] for row in rates]) * tau
        moved = norm_bound([sum((abs(entry) for entry in row), arb(0)) for row in along.tolist()])
        return spectral_bound(bundle.metric * inner * bundle.inverse), moved

    def _image(self, bundle: _Bundle, latent: Vector) -> Vector:
        """T at a latent and the middle of the box of states."""
        image, _, _ = self.model.evaluate(bundle.token, latent, bundle.centre, None)
        return [a + self.model.damping * (b - a) for a, b in zip(latent, image, strict=True)]

    def _apart(self, bundle: _Bundle, one: Vector, other: Vector) -> arb:
        return norm_bound(apply(bundle.metric, [a - b for a, b in zip(one, other, strict=True)]))

    def _metric(self, index: int) -> arb_mat:
        return triangle(self._rows["metrics"][index], self.model.size)


def triangle(numbers: NDArray[np.float64], size: int) -> arb_mat:
    """Return the upper triangular matrix whose rows are given one after the other.

    Example:
        >>> triangle(np.array([1.0, 2.0, 3.0]), 2).det() == 3
        True
    """
    rows = np.zeros((size, size))
    rows[np.triu_indices(size)] = numbers
    return exact_matrix(rows)


def check_iteration(
    certificate: IterationDocument, sizes: Mapping[str, Any], *, state: int, tokens: int
) -> None:
    """Check what a certificate says of the iteration, but for the bundles themselves.

    Args:
        certificate: the claims.
        sizes: ``sizes`` of the run's configuration.
        state: how many numbers a state has.
        tokens: how many tokens there are.

    Raises:
        RefusedError: naming the first line that fails.
    """
    for name in ("damping", "rtol", "max_iterations"):
        if name not in sizes:
            raise RefusedError(f"config.sizes.{name}", "is not there, so that the iteration is not known")
    if not 0 < certificate.tolerance < 1:  # bounds of rounding take it for less than 1
        raise RefusedError("tolerance", "is not positive and below 1")
    for name in ("latent_error", "step_error"):
        if not getattr(certificate, name) >= 0:
            raise RefusedError(name, "is negative")
    if not LEAST_ULPS <= certificate.ulps <= MOST_ULPS:
        raise RefusedError("ulps", f"is not from {LEAST_ULPS} to {MOST_ULPS}")
    limit = int(sizes["max_iterations"])
    if certificate.iterations > MOST_ITERATIONS:
        raise RefusedError("iterations", f"are more than {MOST_ITERATIONS}")
    if not certificate.iterations <= limit:
        raise RefusedError("iterations", f"are more than the limit of the run, {limit}")
    bundles, latent = certificate.bundles, int(sizes["d_model"])
    if not bundles.tokens or max(bundles.tokens) >= tokens:
        raise RefusedError("bundles.tokens", f"are none, or not all among {tokens} tokens")
    numbers = {
        "centres": state,
        "widths": state,
        "latents": latent,
        "metrics": latent * (latent + 1) // 2,
        "radii": 1,
    }
    for name, size in numbers.items():
        if getattr(bundles, name).size != len(bundles.tokens) * size:
            raise RefusedError(f"bundles.{name}", f"does not hold {size} numbers for each bundle")


def _length(vector: Vector) -> arb:
    """The Euclidean norm, from below too."""
    squares = (entry.abs_lower() ** 2 for entry in vector)
    return sum(squares, arb(0)).sqrt()
