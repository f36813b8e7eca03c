"""Proving of a cover that Φ maps all latents into a ball in which it contracts, at every step."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.certificates.certificate import at_most
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.image_ball import ImageBalls, image_balls
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import Cover, extents

STATED_SHARE = 1.05
"""Of a radius that is proved, what a certificate states: the checker's arithmetic has other roundings."""
AT_ONCE = 256
"""Steps that are bounded together, so that arrays of derivatives stay small."""


@dataclass(frozen=True, eq=False)
class ProvedImages:
    """At which steps of a cover all latents are proved to be attracted, by a ball that holds their images.

    Attributes:
        balls: around the latents of the cover, with the radii that a certificate states, ``[sets, tokens]``.

    Example:
        >>> found = ProvedImages(ImageBalls(np.array([[0.25, 0.5]]), np.array([[0.125, 0.25]])))
        >>> found.holds, found.sentence
        (True, 'all latents are attracted at all 2 steps (images within 0.5, contracting there by 0.25)')
    """

    balls: ImageBalls

    @property
    def holds(self) -> bool:
        """Whether it is proved at all of them."""
        return bool(self.balls.attracts.all())

    @property
    def sentence(self) -> str:
        """The finding."""
        proved, steps = self.balls.attracts.sum(), self.balls.attracts.size
        if not self.holds:
            return f"all latents are attracted at {proved} of {steps} steps"
        radius, lipschitz = (
            at_most(float(found.max())) for found in (self.balls.radius, self.balls.lipschitz)
        )
        return (
            f"all latents are attracted at all {steps} steps (images within {radius}, contracting there by "
            f"{lipschitz})"
        )

    def numbers(self) -> dict[str, Any]:
        """Return what is told beside the sentence, for JSON."""
        return {
            "proved": self.holds,
            "steps": int(self.balls.attracts.sum()),
            "largest_image_radius": float(self.balls.radius.max()),
            "largest_lipschitz_constant": float(self.balls.lipschitz.max()),
        }

    def fields(self) -> dict[str, Any]:
        """Return the fields of a certificate."""
        return {"image_radii": self.balls.radius}


def prove_images(loop: EnclosedClosedLoop, cover: Cover) -> ProvedImages:
    """Try to prove, at every step of a cover, that all latents are attracted.

    Args:
        loop: the model.
        cover: its sets; what is proved does not need it to be closed.

    Example:
        `analysis.certificates.proofs.lengths.analyse` calls it.
    """
    sets, tokens = cover.targets.shape
    reach = extents(cover, np.arange(sets))
    index, token = np.divmod(np.arange(sets * tokens), tokens)
    parts: list[tuple[Array, Array]] = []
    for start in range(0, sets * tokens, AT_ONCE):
        i, x = index[start : start + AT_ONCE], token[start : start + AT_ONCE]
        boxes, centres = Ball.around(cover.centres[i], reach[i]), cover.latents[i, x]
        found = image_balls(loop, x, boxes, centres, STATED_SHARE)
        parts.append((found.radius, found.lipschitz))
    radius, lipschitz = (np.concatenate(part).reshape(sets, tokens) for part in zip(*parts, strict=True))
    return ProvedImages(ImageBalls(radius, lipschitz))
