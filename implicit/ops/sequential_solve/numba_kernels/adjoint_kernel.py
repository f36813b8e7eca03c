# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The kernel of the adjoint system: sequences side by side, each from its last token to its first.

At a token, (I − ∂zΦᵀ) v = g + ∂zGᵀ λ is solved by GMRES, which needs only products with ∂zΦᵀ: a tenth of
the work of forming ∂zΦ where it is iterated a few times, and no contraction. The residual that ends it is
measured with the very product that gives λ of the token before; it is not the one that GMRES estimates.

Source: Saad & Schultz 1986, "GMRES", SIAM J. Sci. Stat. Comput. 7(3).
"""

from typing import NamedTuple

import numpy as np

from implicit.ops.numba_shared.functions import zero_like
from implicit.ops.numba_shared.jit import compiled, inner, once
from implicit.ops.numba_shared.matrices import row_of
from implicit.ops.sequential_solve.numba_kernels.trail import linearise
from implicit.ops.sequential_solve.numba_kernels.transposed import pull_back, step_back

RESTARTS = 4


class Krylov(NamedTuple):
    """GMRES at the places; the basis is ``[places, steps + 1, features]``."""

    iterate: np.ndarray
    basis: np.ndarray
    triangle: np.ndarray
    cosines: np.ndarray
    sines: np.ndarray
    right: np.ndarray


class Sequences(NamedTuple):
    """The given sequences: z, g, which tokens are real, and their trail."""

    latents: np.ndarray
    gradients: np.ndarray
    mask: np.ndarray
    injections: np.ndarray
    windows: np.ndarray
    states: np.ndarray


class Bookkeeping(NamedTuple):
    """Numbers of the places: while ``whole``, the whole product with the iterate is taken."""

    sequence: np.ndarray
    token: np.ndarray
    steps: np.ndarray
    restarts: np.ndarray
    fresh: np.ndarray
    whole: np.ndarray


@compiled
def solve_adjoint(
    weights, transposed, given, trail, slopes, pulled, windows, states, krylov, places, found, rtol, count
):
    """Solve the adjoint system at the first ``count`` places; ``windows`` and ``states`` hold λ of them."""
    length, features, size = given.latents.shape[1], given.latents.shape[2], len(places.token)
    while True:
        # Places whose token is done go on to the one before, g first guess of v.
        busy = False
        for place in range(count):
            if places.fresh[place]:
                _begin(weights, given, trail, slopes, pulled, krylov, places, found, place)
            busy = busy or places.token[place] >= 0
        if not busy:
            return
        # One product for all places: ∂zΦᵀ v, and where `whole` ∂zΦᵀ v + ∂zGᵀ λ.
        whole, token = places.whole, places.token
        pull_back(weights, transposed, trail, slopes, pulled, windows, states, whole, token, length, count)
        for place in range(count):
            t = places.token[place]
            if t < 0:  # through: it idles on its last vector
                continue
            # Within GMRES: one step of Arnoldi; after the last the iterate is tried as v, with the whole
            # product.
            product, vector = row_of(pulled.streams, place), row_of(pulled.vectors, place)
            if not places.whole[place]:
                if _arnoldi(krylov, places, place, vector, product, rtol):
                    _improve(krylov, places.steps[place], place)
                    iterate = row_of(krylov.iterate, place)
                    for i in range(features):
                        vector[i] = iterate[i]
                    places.whole[place] = True
                continue
            # What v leaves of the system: ∂zΦᵀ v + ∂zGᵀ λ + g − v.
            b = places.sequence[place]
            g = row_of(given.gradients, b * length + t)
            squares, norm = zero_like(product), zero_like(product)
            for i in range(features):
                product[i] += g[i] - vector[i]
                squares += product[i] * product[i]
                norm += vector[i] * vector[i]
            left, norm = np.sqrt(squares), np.sqrt(norm)
            # v is found: λ becomes that of the token before.
            if left <= rtol * norm or places.restarts[place] == RESTARTS or not left < np.inf:
                value = row_of(found[0], b * length + t)
                for i in range(features):
                    value[i] = vector[i]
                found[1][b, t] = left
                step_back(weights, trail, slopes, pulled, windows, states, size, length, place, t)
                places.fresh[place] = True
            # GMRES begins anew with what is left as its first vector.
            else:
                places.restarts[place] += 1
                places.steps[place] = 0
                places.whole[place] = False
                krylov.right[place, 0] = left
                krylov.right[place, krylov.right.shape[1] - 1] = left + norm  # what the tolerance is of
                basis = row_of(krylov.basis, place * krylov.basis.shape[1])
                for i in range(features):
                    vector[i] = product[i] / left
                    basis[i] = vector[i]


@inner
def _begin(weights, given, trail, slopes, pulled, krylov, places, found, place):
    """Go on to the real token before; g is the first guess. At padding, whose image is constant, v = g."""
    length, features, b = given.latents.shape[1], given.latents.shape[2], places.sequence[place]
    places.fresh[place] = False
    places.token[place] -= 1
    while places.token[place] >= 0 and not given.mask[b, places.token[place]]:
        t = places.token[place]
        for i in range(features):
            found[0][b, t, i] = given.gradients[b, t, i]
        found[1][b, t] = 0
        places.token[place] -= 1
    t = places.token[place]
    if t < 0:
        return
    vector, iterate = row_of(pulled.vectors, place), row_of(krylov.iterate, place)
    g = row_of(given.gradients, b * length + t)
    for i in range(features):
        vector[i] = g[i]
        iterate[i] = g[i]
    places.whole[place] = True
    places.restarts[place] = 0
    linearise(weights, trail, slopes, length, len(places.token), place, t)


@once
def _arnoldi(krylov, places, place, vector, product, rtol):
    """Take one step of GMRES with I − ∂zΦᵀ; return whether it is the last."""
    features, most = len(vector), krylov.cosines.shape[1]
    rows = krylov.basis.shape[1]
    step = places.steps[place]
    for i in range(features):
        product[i] = vector[i] - product[i]
    for k in range(step + 1):
        basis, along = row_of(krylov.basis, place * rows + k), zero_like(product)
        for i in range(features):
            along += product[i] * basis[i]
        for i in range(features):
            product[i] -= along * basis[i]
        krylov.triangle[place, k, step] = along
    squares = zero_like(product)
    for i in range(features):
        squares += product[i] * product[i]
    norm = np.sqrt(squares)
    for k in range(step):
        c, s = krylov.cosines[place, k], krylov.sines[place, k]
        upper, lower = krylov.triangle[place, k, step], krylov.triangle[place, k + 1, step]
        krylov.triangle[place, k, step] = c * upper + s * lower
        krylov.triangle[place, k + 1, step] = c * lower - s * upper
    upper = krylov.triangle[place, step, step]
    length = np.sqrt(upper * upper + norm * norm)
    c, s = (upper / length, norm / length) if length > 0 else (1.0, 0.0)
    krylov.cosines[place, step], krylov.sines[place, step] = c, s
    krylov.triangle[place, step, step] = length
    krylov.right[place, step + 1] = -s * krylov.right[place, step]
    krylov.right[place, step] *= c
    places.steps[place] = step + 1
    left = abs(krylov.right[place, step + 1])
    scale = krylov.right[place, krylov.right.shape[1] - 1]
    if not left > 0.3 * rtol * scale or step + 1 == most:
        return True
    following = row_of(krylov.basis, place * rows + step + 1)
    for i in range(features):
        vector[i] = product[i] / norm
        following[i] = vector[i]
    return False


@once
def _improve(krylov, steps, place):
    """Add the combination of the basis that leaves least to the iterate."""
    iterate, rows = row_of(krylov.iterate, place), krylov.basis.shape[1]
    for k in range(steps - 1, -1, -1):
        total = krylov.right[place, k]
        for j in range(k + 1, steps):
            total -= krylov.triangle[place, k, j] * krylov.right[place, j]
        krylov.right[place, k] = total / krylov.triangle[place, k, k]
    for k in range(steps):
        factor, basis = krylov.right[place, k], row_of(krylov.basis, place * rows + k)
        for i in range(len(iterate)):
            iterate[i] += factor * basis[i]
