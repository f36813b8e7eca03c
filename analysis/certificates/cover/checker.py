"""Whether a certificate of every length is true: each step between sets proved again, in FLINT's balls.

With U = ρ W⁻¹ the set is {c + U u : ‖u‖₂ ≤ 1}. Derivatives are taken along the columns of U by `arb_mamba2`,
so that the mean value theorem gives ‖W' (s' − c')‖₂ ≤ ‖W' (G(z*(c); c) − c')‖₂ + ‖W' J U‖₂;
`theory.rigorous.covers.invariant_cover` has the theorems. The inverse of W is enclosed here, and the spectral
norm is bounded by repeated squaring of the Gram matrix.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flint import arb, arb_mat

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.linear import max_upper, precision, row_sum
from analysis.certificates.arb.mamba2 import Vector, apply, exact_matrix, exact_vector
from analysis.certificates.arb.model import ArbModel, entries_of
from analysis.certificates.arb.newton import contracting_newton_map
from analysis.certificates.checking import Weights, check_answers, check_each, check_run, check_seal
from analysis.certificates.cover.document import COVER_STATEMENTS, CoverCertificate
from analysis.certificates.parts import RefusedError

SQUARINGS = 8
SETS_AT_ONCE = 16


class CoverChecker:
    """Proves the steps of single sets again.

    Args:
        certificate: the claims; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Example:
        `check_cover` makes one.
    """

    def __init__(
        self, certificate: CoverCertificate, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.claims, self.bits = certificate, bits
        count, tokens = len(certificate.labels), len(certificate.automaton.table[0])
        self.centres = certificate.centres.reshape(count, -1)
        self.size = self.centres.shape[1]
        self.triangles = certificate.metrics.reshape(count, -1)
        self.latents = certificate.latents.reshape(count, tokens, -1)
        self.latent_radii = certificate.latent_radii.reshape(count, tokens)
        with precision(bits):
            self.model = ArbModel(weights, sizes)

    def check_set(self, index: int) -> None:
        """Check the set and what every token makes of it.

        Raises:
            RefusedError: naming the first line that fails.
        """
        claims = self.claims
        with precision(self.bits):
            radius = float(claims.radii[index])
            if not radius > 0:
                raise RefusedError(f"radii[{index}]", "is not positive")
            try:
                axes = self._metric(index).inv() * arb(radius)
            except ZeroDivisionError:
                raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None
            if index == 0 and not _length(apply(self._metric(0), exact_vector(-self.centres[0]))) <= radius:
                raise RefusedError("centres[0]", "is not near the zero state")
            for token in range(self.latents.shape[1]):
                self._check_step(index, token, axes)

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claims, model, size = self.claims, self.model, self.model.size
        place = f"[{index}][{token}]"
        target = claims.targets[index][token]
        label = claims.automaton.table[claims.labels[index]][token]
        if target >= len(claims.labels) or claims.labels[target] != label:
            raise RefusedError(f"targets{place}", "is not a set of the state that the automaton is in")
        directions = axes.tolist()
        centre = exact_vector(self.centres[index])
        region = [c + arb(0, _length(row).upper()) for c, row in zip(centre, directions, strict=True)]
        radius = float(self.latent_radii[index, token])
        if not radius >= 0:
            raise RefusedError(f"latent_radii{place}", "is negative")
        latent = exact_vector(self.latents[index, token])
        box = [number + arb(0, radius) for number in latent]
        _, rates, following = model.evaluate_along(token, box, model.state(region), directions)
        newton = contracting_newton_map(
            arb_mat([row[:size] for row in rates]),
            lambda reason: RefusedError(f"latent_radii{place}", reason),
        )
        inverse, kappa = newton.inverse, newton.kappa
        image, _, _ = model.evaluate(token, latent, model.state(centre), None)
        step = apply(inverse, [a - b for a, b in zip(image, latent, strict=True)])
        moved = inverse * arb_mat([row[size:] for row in rates])
        central = max_upper([abs(entry) for entry in step])
        farthest = central + max_upper([_length(row) for row in moved.tolist()])
        if not farthest / (1 - kappa) <= radius:
            raise RefusedError(f"latents{place}", "no fixed points of the set are proved within its radius")
        # (I − A)⁻¹ B within κ / (1 − κ) ‖P B‖ of P B, column by column; z*(c) within κ / (1 − κ) of a step
        share = kappa / (1 - kappa)
        response = _spread(moved, share)
        near = [a + b + arb(0, (share * central).upper()) for a, b in zip(latent, step, strict=True)]
        jacobian = arb_mat([row[size:] for row in following])
        jacobian += arb_mat([row[:size] for row in following]) * response
        _, _, found = model.evaluate(token, near, model.state(centre), None)
        landing = entries_of(model.following(found, model.state(centre)))
        metric = self._metric(target)
        away = [a - b for a, b in zip(landing, exact_vector(self.centres[target]), strict=True)]
        reach = _length(apply(metric, away)) + spectral_bound(metric * jacobian)
        if not reach <= float(claims.radii[target]):
            raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
        logits = model.logits(near)
        slopes = (model.head * response).tolist()
        for other in range(len(logits)):
            spread = _length([a - b for a, b in zip(slopes[label], slopes[other], strict=True)])
            if other != label and not logits[label] - logits[other] - spread >= claims.margin:
                raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")

    def _metric(self, index: int) -> arb_mat:
        rows = np.zeros((self.size, self.size))
        rows[np.triu_indices(self.size)] = self.triangles[index]
        return exact_matrix(rows)


def spectral_bound(matrix: arb_mat) -> arb:
    """Return an upper bound of ‖M‖₂ that is too large by at most n^(1/512): ‖(MᵀM)^(2^k)‖_∞^(1/2^(k+1)).

    Example:
        >>> bool(2 <= spectral_bound(arb_mat([[2, 0], [0, 1]])) < 2.01)
        True
    """
    gram = matrix.transpose() * matrix
    for _ in range(SQUARINGS):
        gram = gram * gram
    bound = row_sum(gram)
    for _ in range(SQUARINGS + 1):
        bound = bound.sqrt()
    return bound.upper()


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
    """Verify a certificate: its head, every step of every set, and its seal, in this order.

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
    state_size = check_answers(certificate, weights, sizes=config["sizes"], automaton=automaton)
    _check_sizes(certificate, state_size, int(config["sizes"]["d_model"]))
    arguments = (certificate, dict(weights), config["sizes"], bits)
    jobs = [(number,) for number in range(len(certificate.labels))]
    check_each(
        CoverChecker,
        arguments,
        CoverChecker.check_set,
        jobs,
        processes=processes,
        unit="set",
        at_once=SETS_AT_ONCE,
    )
    check_seal(certificate)


def _check_sizes(certificate: CoverCertificate, state: int, latent: int) -> None:
    sets, (labels, tokens) = len(certificate.labels), np.shape(certificate.automaton.table)
    if not sets or certificate.labels[0] != certificate.automaton.initial_state:
        raise RefusedError("labels", "do not begin with the initial state of the automaton")
    if max(certificate.labels) >= labels:
        raise RefusedError("labels", "are not states of the automaton")
    if len(certificate.targets) != sets or any(len(row) != tokens for row in certificate.targets):
        raise RefusedError("targets", f"do not hold {tokens} numbers for each of {sets} sets")
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


def _length(vector: Vector) -> arb:
    """An upper bound of the Euclidean norm; the square of a ball around zero would reach below zero."""
    return sum((abs(entry).upper() ** 2 for entry in vector), arb(0)).sqrt().upper()


def _spread(matrix: arb_mat, share: arb) -> arb_mat:
    """The matrix with every column widened by a share of its largest entry."""
    columns = matrix.transpose().tolist()
    widened = []
    for column in columns:
        around = arb(0, (share * max_upper([abs(entry) for entry in column])).upper())
        widened.append([entry + around for entry in column])
    return arb_mat(widened).transpose()
