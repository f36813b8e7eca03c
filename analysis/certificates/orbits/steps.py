"""A step from a set of states, proved again in FLINT's balls: the checkers of words and of covers share it.

A set is {c + U u : ‖u‖₂ ≤ 1}. Derivatives are taken along the columns of U by `ArbModel.evaluate_along`, so
that the mean value theorem gives ‖W' (s' − c')‖₂ ≤ ‖W' (G(z*(c); c) − c')‖₂ + ‖W' J U‖₂, and the latent and
the next state may be off as `latent_error` and `step_error` say; `theory.rigorous.covers.invariant_cover` has
the theorems.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.linear import max_upper, norm_bound, spectral_bound
from analysis.certificates.arb.mamba2 import Vector, apply, exact_vector
from analysis.certificates.arb.model import ArbModel, entries_of
from analysis.certificates.arb.newton import contracting_newton_map
from analysis.certificates.arb.rounding import ArbRounding
from analysis.certificates.checking import Weights
from analysis.certificates.orbits.checker import OrbitChecker
from analysis.certificates.orbits.document import IterationDocument
from analysis.certificates.parts import RefusedError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepClaim:
    """What a certificate says of a set and a token.

    Attributes:
        token: what is read.
        centre: c.
        axes: U.
        latent: the middle of the box of fixed points.
        latent_radius: its radius, maximum norm.
        bundle: the bundle of orbits that holds those of the set.
        target_centre: c'.
        target_metric: W'; None for the identity.
        answer: the label that the token leads to.
        line: makes the name of a line of the certificate from that of its field.

    Example:
        The checkers of words and of covers make them.
    """

    token: int
    centre: Array
    axes: arb_mat
    latent: Array
    latent_radius: float
    bundle: int
    target_centre: Array
    target_metric: arb_mat | None
    answer: int
    line: Callable[[str], str]


class StepChecker:
    """Proves steps of a certificate again, and its bundles of orbits.

    Args:
        claims: the certificate; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Attributes:
        orbits: checks the bundles.

    Example:
        The checkers of words and of covers make one.
    """

    def __init__(
        self, claims: IterationDocument, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.claims, self.model = claims, ArbModel(weights, sizes)
        executed = claims.dtype != "real"
        self.program = ArbRounding(weights, self.model, claims.ulps) if executed else None
        self.orbits = OrbitChecker(claims, self.model, bits, self.program)

    def check(self, claim: StepClaim) -> tuple[arb, list[arb]]:
        """Return how far the image reaches from c' in the metric, and the least gaps to the other logits.

        Raises:
            RefusedError: if no fixed points, or no iteration that ends near them, are proved.
        """
        model, size, token = self.model, self.model.size, claim.token
        strayed, off = arb(self.claims.latent_error), arb(self.claims.step_error)
        directions = claim.axes.tolist()
        centre, latent = exact_vector(claim.centre), exact_vector(claim.latent)
        region = [c + arb(0, norm_bound(row)) for c, row in zip(centre, directions, strict=True)]
        radius = claim.latent_radius
        if not radius >= 0:
            raise RefusedError(claim.line("latent_radii"), "is negative")
        box = [number + arb(0, radius) for number in latent]
        _, rates, following = model.evaluate_along(token, box, model.state(region), directions)
        newton = contracting_newton_map(
            arb_mat([row[:size] for row in rates]),
            lambda reason: RefusedError(claim.line("latent_radii"), reason),
        )
        inverse, kappa = newton.inverse, newton.kappa
        image, _, _ = model.evaluate(token, latent, model.state(centre), None)
        step = apply(inverse, [a - b for a, b in zip(image, latent, strict=True)])
        moved = inverse * arb_mat([row[size:] for row in rates])
        central = max_upper([abs(entry) for entry in step])
        farthest = central + max_upper([norm_bound(row) for row in moved.tolist()])
        if not farthest / (1 - kappa) + strayed <= radius:
            raise RefusedError(
                claim.line("latents"), "no fixed points of the set are proved within its radius"
            )
        self.orbits.check_member(claim.line("bundle_of"), claim.bundle, token, region, latent, radius)
        # (I − A)⁻¹ B = (I − E)⁻¹ P B with E the defect: its series, the rest column by column within a norm
        response = moved + newton.defect * (moved + newton.defect * moved)
        response += _around(moved, kappa**3 / (1 - kappa))
        # z*(c) lies within κ / (1 − κ) of a step
        share = kappa / (1 - kappa)
        near = [a + b + arb(0, (share * central).upper()) for a, b in zip(latent, step, strict=True)]
        by_state = arb_mat([row[size:] for row in following])
        by_latent = arb_mat([row[:size] for row in following])
        _, _, found = model.evaluate(token, near, model.state(centre), None)
        landing = entries_of(model.following(found, model.state(centre)))
        away = [a - b for a, b in zip(landing, exact_vector(claim.target_centre), strict=True)]
        metric, stretch = claim.target_metric, arb(1)
        if metric is not None:
            away, by_state, by_latent = apply(metric, away), metric * by_state, metric * by_latent
            stretch = norm_bound([norm_bound(row) for row in metric.tolist()])
        along_set = spectral_bound(by_state + by_latent * response)
        reach = norm_bound(away) + along_set + spectral_bound(by_latent) * strayed + stretch * off
        logits = model.logits(near)
        slopes, heads = (model.head * response).tolist(), model.head.tolist()
        wrong = self._decoding(claim, box, region)
        gaps = []
        for other in range(len(logits)):
            if other != claim.answer:
                along, own = (
                    norm_bound([a - b for a, b in zip(rows[claim.answer], rows[other], strict=True)])
                    for rows in (slopes, heads)
                )
                gaps.append(logits[claim.answer] - logits[other] - along - own * strayed - 2 * wrong)
        return reach, gaps

    def _decoding(self, claim: StepClaim, box: Vector, region: Vector) -> arb:
        """How far off the program's logits are; that of its next state is checked."""
        if self.program is None:
            return arb(0)
        off = self.program.bound(claim.token, box, self.model.state(region))
        if not off.state <= arb(self.claims.step_error):
            raise RefusedError(
                "step_error", f"is less than the rounding of a next state: {claim.line('targets')}"
            )
        return off.logit


def _around(matrix: arb_mat, share: arb) -> arb_mat:
    """Balls around zero: in every column a share of its largest entry."""
    columns = matrix.transpose().tolist()
    row = [arb(0, (share * max_upper([abs(entry) for entry in column])).upper()) for column in columns]
    return arb_mat([row] * matrix.nrows())
