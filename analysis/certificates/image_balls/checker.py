"""Whether a certificate of every length and start by image balls is true: its cover, and its balls, in FLINT.

What is shown of a ball is in `analysis.certificates.arb.image_ball`; that it is enough is the proposition of
`implicit.enclosed.image_ball`.
"""

from collections.abc import Mapping
from typing import Any

from flint import arb

from analysis.certificates.answers import Automaton
from analysis.certificates.arb.image_ball import ArbImageBall
from analysis.certificates.arb.linear import precision
from analysis.certificates.arb.mamba2 import exact_vector
from analysis.certificates.arb.model import ArbModel
from analysis.certificates.checking import Weights, check_each, check_run, check_seal
from analysis.certificates.cover.checker import CoverChecker, check_sets
from analysis.certificates.image_balls.document import IMAGES_STATEMENTS, ImagesCertificate
from analysis.certificates.parts import RefusedError


class ImageBallChecker:
    """Shows of single sets that Φ maps all latents into a ball in which it contracts.

    Args:
        certificate: the claims; its arrays have the right sizes.
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.

    Example:
        `check_images` makes one.
    """

    def __init__(
        self, certificate: ImagesCertificate, weights: Weights, sizes: Mapping[str, Any], bits: int
    ) -> None:
        self.bits = bits
        self.cover = CoverChecker(certificate, weights, sizes, bits)
        with precision(bits):
            self.model = ArbModel(weights, sizes)
        self.radii = certificate.image_radii.reshape(self.cover.latents.shape[:2])

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


def check_images(
    certificate: ImagesCertificate,
    weights: Weights,
    *,
    sha256: str,
    config: Mapping[str, Any],
    automaton: Automaton,
    bits: int = 128,
    processes: int = 1,
) -> None:
    """Verify a certificate: its head, its cover, the ball of every step, and its seal, in order.

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
    check_run(certificate, IMAGES_STATEMENTS, sha256=sha256, config=config, bits=bits)
    sizes = config["sizes"]
    check_sets(certificate, weights, sizes, automaton, bits=bits, processes=processes)
    sets, tokens = len(certificate.labels), len(automaton.table[0])
    if certificate.image_radii.size != sets * tokens:
        raise RefusedError("image_radii", f"does not hold {sets * tokens} numbers, one per set and token")
    check_each(
        ImageBallChecker,
        (certificate, dict(weights), sizes, bits),
        ImageBallChecker.check,
        [(index, token) for index in range(sets) for token in range(tokens)],
        processes=processes,
        unit="step",
    )
    check_seal(certificate)
