"""Whether a certificate of every length and start is true: its cover, and falling latents, in FLINT's balls.

What is shown of latents is in `analysis.certificates.arb.latent_cells`. That it is enough is the second
proposition of `theory.rigorous.attraction`, with the regions of bundles, which the check of the cover has
proved to be mapped into themselves by contractions.
"""

from collections.abc import Mapping
from typing import Any

from flint import arb

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.latent_cells import ArbLatentCells, Region
from analysis.certificates.arb.linear import precision
from analysis.certificates.arb.mamba2 import exact_vector
from analysis.certificates.arb.model import ArbModel
from analysis.certificates.attraction.document import LATENTS_STATEMENTS, LatentsCertificate
from analysis.certificates.checking import Weights, check_each, check_run, check_seal
from analysis.certificates.cover.checker import CoverChecker, check_sets
from analysis.certificates.orbits.checker import triangle
from analysis.certificates.parts import RefusedError

MOST_CELLS = 10**5
"""Of latents, at one set and token; what takes more is not checked."""


class AttractionChecker:
    """Shows of single sets that latents fall.

    Args:
        certificate: the claims; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Example:
        `check_latents` makes one.
    """

    def __init__(
        self, certificate: LatentsCertificate, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.claims, self.bits = certificate, bits
        self.cover = CoverChecker(certificate, weights, sizes, bits)
        with precision(bits):
            self.model = ArbModel(weights, sizes)
        bundles, count = certificate.bundles, len(certificate.bundles.tokens)
        names = ("latents", "metrics")
        self._rows = {name: getattr(bundles, name).reshape(count, -1) for name in names}
        self._rows["norms"] = certificate.norms.reshape(count, -1)

    def check(self, index: int, token: int) -> None:
        """Check a set and a token.

        Raises:
            RefusedError: if it is not shown.
        """
        bundle, size = self.claims.bundle_of[index][token], self.model.size
        with precision(self.bits):
            region = Region(
                exact_vector(self._rows["latents"][bundle]),
                triangle(self._rows["metrics"][bundle], size),
                arb(float(self.claims.bundles.radii[bundle])),
            )
            cells = ArbLatentCells(
                self.model,
                token,
                self.model.state(self.cover.box(index)),
                exact_vector(self.cover.latents[index, token]),
                triangle(self._rows["norms"][bundle], size),
                region,
            )
            if not cells.all_fall(MOST_CELLS):
                raise RefusedError(
                    f"norms[{bundle}]",
                    f"latents are not proved to fall in it at token {token} in set {index}, with at most "
                    f"{MOST_CELLS} cells",
                )


def check_latents(
    certificate: LatentsCertificate,
    weights: Weights,
    *,
    sha256: str,
    config: Mapping[str, Any],
    automaton: Automaton,
    bits: int = 128,
    processes: int = 1,
) -> None:
    """Verify a certificate: its head, its cover, that latents fall at every step, and its seal, in order.

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
    check_run(certificate, LATENTS_STATEMENTS, sha256=sha256, config=config, bits=bits)
    sizes = config["sizes"]
    check_sets(certificate, weights, sizes, automaton, bits=bits, processes=processes)
    entries = int(sizes["d_model"]) * (int(sizes["d_model"]) + 1) // 2
    if certificate.norms.size != len(certificate.bundles.tokens) * entries:
        raise RefusedError("norms", f"does not hold {entries} numbers for each bundle")
    tokens = range(len(automaton.table[0]))
    check_each(
        AttractionChecker,
        (certificate, dict(weights), sizes, bits),
        AttractionChecker.check,
        [(index, token) for index in range(len(certificate.labels)) for token in tokens],
        processes=processes,
        unit="step",
    )
    check_seal(certificate)
