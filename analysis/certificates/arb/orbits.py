"""The damped iteration from z₀ = 0 in FLINT's balls: plain iteration, at a precision that outlasts it.

Every step widens the balls by more than it moves the numbers in them, as each operation takes its arguments
for independent; by about five bits a step in the stored models. Where that is provided for nothing is lost:
the start is exact, and so is the state, so that the balls begin at 2^−bits. A result that is still too wide
is found again with twice the bits.
"""

from collections.abc import Callable

from flint import arb

from analysis.certificates.arb.linear import precision
from analysis.certificates.arb.mamba2 import Vector

LONGEST_ORBIT = 512
"""Steps that a certificate may ask for."""
BITS_A_STEP = 6
STEP_OF_BITS = 64
"""Precisions are multiples of it, so that few models are made; so many are left at the end."""
NARROW = arb(2) ** -40
"""The radius at which an orbit is known well enough."""
ATTEMPTS = 3

Image = Callable[[Vector], Vector]


def damped_orbit(
    image_at: Callable[[int], tuple[Image, arb]], size: int, iterations: int, bits: int
) -> Vector:
    """Return an enclosure of z_K, with z_{n+1} = (1 − τ) z_n + τ Φ(z_n) from z_0 = 0.

    Args:
        image_at: from a precision to Φ in it, at one token and state, and τ.
        size: of the latent.
        iterations: K.
        bits: the least precision.

    Example:
        z ← z/2 + 1 from 0 is 2 − 2^{1−n} after n steps.

        >>> def half(bits):
        ...     return lambda z: [z[0] / 2 + 1], arb(1)
        >>> damped_orbit(half, 1, 4, 128)
        [1.87500000000000]
    """
    wanted = max(bits, STEP_OF_BITS * (1 + -(-BITS_A_STEP * iterations // STEP_OF_BITS)))
    for doublings in range(ATTEMPTS):
        with precision(wanted << doublings):
            image, damping = image_at(wanted << doublings)
            z = [arb(0)] * size
            for _ in range(iterations):
                z = [(1 - damping) * a + damping * b for a, b in zip(z, image(z), strict=True)]
                if not all(number.is_finite() for number in z):
                    break
        if all(number.rad() < NARROW for number in z):
            break
    return z
