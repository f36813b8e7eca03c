"""Whether a certificate of every length is true: each step between sets proved again, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}; the inverse of W is enclosed here. What is proved of a step is
in `analysis.certificates.orbits.steps`, and of the iteration in `analysis.certificates.orbits.checker`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flint import arb, arb_mat

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.linear import norm_bound, precision
from analysis.certificates.arb.mamba2 import Vector, apply, exact_vector
from analysis.certificates.checking import Weights, check_answers, check_each, check_run, check_seal
from analysis.certificates.cover.document import COVER_STATEMENTS, CoverCertificate, CoverDocument
from analysis.certificates.orbits.checker import check_iteration, triangle
from analysis.certificates.orbits.steps import StepChecker, StepClaim
from analysis.certificates.parts import RefusedError

SETS_AT_ONCE = 16


class CoverChecker:
    """Proves bundles of orbits and the steps of single sets again.

    Args:
        certificate: the claims; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Example:
        `check_cover` makes one.
    """

    def __init__(
        self, certificate: CoverDocument, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.claims, self.bits = certificate, bits
        count, tokens = len(certificate.labels), len(certificate.automaton.table[0])
        self.centres = certificate.centres.reshape(count, -1)
        self.size = self.centres.shape[1]
        self.triangles = certificate.metrics.reshape(count, -1)
        self.latents = certificate.latents.reshape(count, tokens, -1)
        self.latent_radii = certificate.latent_radii.reshape(count, tokens)
        with precision(bits):
            self.steps = StepChecker(certificate, weights, sizes, bits)

    def check(self, kind: str, index: int) -> None:
        """Check a bundle of orbits, or a set and what every token makes of it.

        Args:
            kind: ``"bundle"`` or ``"set"``.
            index: which.

        Raises:
            RefusedError: naming the first line that fails.
        """
        if kind == "bundle":
            self.steps.orbits.check_bundle(index)
            return
        with precision(self.bits):
            axes, radius = self.axes(index), float(self.claims.radii[index])
            if (
                index == 0
                and not norm_bound(apply(self._metric(0), exact_vector(-self.centres[0]))) <= radius
            ):
                raise RefusedError("centres[0]", "is not near the zero state")
            for token in range(self.latents.shape[1]):
                self._check_step(index, token, axes)

    def axes(self, index: int) -> arb_mat:
        """Return U of a set.

        Raises:
            RefusedError: if it has none.
        """
        radius = float(self.claims.radii[index])
        if not radius > 0:
            raise RefusedError(f"radii[{index}]", "is not positive")
        try:
            return self._metric(index).inv() * arb(radius)
        except ZeroDivisionError:
            raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None

    def box(self, index: int) -> Vector:
        """Return a box that holds a set, in the precision that is set.

        Raises:
            RefusedError: if the set has no axes.
        """
        reach = [norm_bound(row) for row in self.axes(index).tolist()]
        centre = exact_vector(self.centres[index])
        return [entry + arb(0, far) for entry, far in zip(centre, reach, strict=True)]

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claims = self.claims
        place = f"[{index}][{token}]"
        target = claims.targets[index][token]
        label = claims.automaton.table[claims.labels[index]][token]
        if target >= len(claims.labels) or claims.labels[target] != label:
            raise RefusedError(f"targets{place}", "is not a set of the state that the automaton is in")
        claim = StepClaim(
            token=token,
            centre=self.centres[index],
            axes=axes,
            latent=self.latents[index, token],
            latent_radius=float(self.latent_radii[index, token]),
            bundle=claims.bundle_of[index][token],
            target_centre=self.centres[target],
            target_metric=self._metric(target),
            answer=label,
            line=lambda field: field + place,
        )
        reach, gaps = self.steps.check(claim)
        if not reach <= float(claims.radii[target]):
            raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
        if not all(gap >= claims.margin for gap in gaps):
            raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")

    def _metric(self, index: int) -> arb_mat:
        return triangle(self.triangles[index], self.size)


def check_cover(
    certificate: CoverCertificate,
    weights: Weights,
    *,
    sha256: str,
    config: Mapping[str, Any],
    automaton: Automaton,
    bits: int = 128,
    processes: int = 1,
) -> None:
    """Verify a certificate: its head, the bundles of orbits, every step of every set, and its seal, in order.

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
        `analysis.check_certificate` calls it.
    """
    check_run(certificate, COVER_STATEMENTS, sha256=sha256, config=config, bits=bits)
    check_sets(certificate, weights, config["sizes"], automaton, bits=bits, processes=processes)
    check_seal(certificate)


def check_sets(
    certificate: CoverDocument,
    weights: Weights,
    sizes: Mapping[str, Any],
    automaton: Automaton,
    *,
    bits: int,
    processes: int,
) -> None:
    """Verify what a certificate says of its sets of states, its bundles of orbits and the answers.

    Args:
        certificate: what is claimed.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        automaton: of its task.
        bits: the precision.
        processes: how many work in parallel.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        `check_cover` calls it.
    """
    state_size = check_answers(certificate, weights, sizes=sizes, automaton=automaton)
    _check_sizes(certificate, state_size, int(sizes["d_model"]))
    check_iteration(certificate, sizes, state=state_size, tokens=len(automaton.table[0]))
    jobs = [("bundle", number) for number in range(len(certificate.bundles.tokens))]
    jobs += [("set", number) for number in range(len(certificate.labels))]
    check_each(
        CoverChecker,
        (certificate, dict(weights), sizes, bits),
        CoverChecker.check,
        jobs,
        processes=processes,
        unit="set",
        at_once=SETS_AT_ONCE,
    )


def _check_sizes(certificate: CoverDocument, state: int, latent: int) -> None:
    sets, (labels, tokens) = len(certificate.labels), np.shape(certificate.automaton.table)
    if not sets or certificate.labels[0] != certificate.automaton.initial_state:
        raise RefusedError("labels", "do not begin with the initial state of the automaton")
    if max(certificate.labels) >= labels:
        raise RefusedError("labels", "are not states of the automaton")
    for name in ("targets", "bundle_of"):
        rows = getattr(certificate, name)
        if len(rows) != sets or any(len(row) != tokens for row in rows):
            raise RefusedError(name, f"do not hold {tokens} numbers for each of {sets} sets")
    numbers = {
        "centres": state,
        "metrics": state * (state + 1) // 2,
        "radii": 1,
        "latents": tokens * latent,
        "latent_radii": tokens,
    }
    for name, size in numbers.items():
        if getattr(certificate, name).size != sets * size:
            raise RefusedError(name, f"does not hold {size} numbers for each of {sets} sets")
    if not certificate.margin > 0:
        raise RefusedError("margin", "is not positive")
