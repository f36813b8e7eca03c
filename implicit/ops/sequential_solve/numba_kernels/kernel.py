# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
# mypy: disable-error-code="assignment"
"""The kernel of the fused sequential solve: a few sequences side by side, each at its own pace.

A sequence whose token is done goes on to its next token at once, and a finished one gives its place to
another. The arithmetic of a place is the same whatever the others hold.
"""

import numpy as np

from implicit.fixed_point import Status
from implicit.ops.numba_shared.functions import zero_like
from implicit.ops.numba_shared.jit import compiled, inner, once
from implicit.ops.numba_shared.matrices import row_of
from implicit.ops.sequential_solve.numba_kernels.evaluate import advance, evaluate, read_windows

CONVERGED = int(Status.CONVERGED)
MAX_ITERATIONS = int(Status.MAX_ITERATIONS)
NON_FINITE = int(Status.NON_FINITE)


@compiled
def solve(weights, places, injections, start, mask, windows, states, found, rule, work, first, last):
    """Solve the sequences ``first`` … ``last − 1``; windows and states are replaced in place.

    The loop of a token is that of `implicit.fixed_point.solve` with `DampedPicard`: residual and state belong
    to the value returned.
    """
    damping, rtol, atol, limit, tiny = rule
    value, iterations, residuals, statuses = found
    features, length = start.shape[2], start.shape[1]
    size, layers = len(places.normed), weights.skips.shape[0]
    sequence, token, evaluations, reached, fresh = work
    waiting, count = first, 0
    fresh[:], token[:] = 1, length
    while True:
        # Sequences that wait take the free places; where none waits, the last places move up.
        place = np.int64(0)  # a literal would be another type: one more compilation
        while place < size:
            if fresh[place] and place <= count and (token[place] < length or waiting < last):
                if token[place] == length:
                    sequence[place], token[place], reached[place] = waiting, 0, 1
                    waiting += 1
                    count = max(count, place + 1)
                fresh[place] = not _begin(
                    weights, places, start, mask, windows, found, sequence, token, evaluations, reached, place
                )
            elif not fresh[place] and place < count:
                place += 1
            elif place < count:
                count -= 1
                if place < count:
                    _move(places, layers, sequence, token, evaluations, reached, fresh, count, place)
                fresh[count] = 1
                token[count] = length
            else:
                break
        if count == 0:
            return
        evaluate(weights, places, injections, states, sequence, token, count)
        # ‖Φ(z) − z‖ and ‖z‖; where squares overflow or vanish, once more from scaled entries.
        for place in range(count):
            squares, norm = zero_like(start), zero_like(start)
            latent, image = row_of(places.streams, place), row_of(places.images, place)
            for i in range(features):
                squares += (image[i] - latent[i]) * (image[i] - latent[i])
                norm += latent[i] * latent[i]
            residual, norm = np.sqrt(squares), np.sqrt(norm)
            if squares <= tiny or squares == np.inf:
                residual, norm = _scaled_norms(latent, image, features)
            # The status of `fixed_point.loop`: converged where ‖Φ(z) − z‖ ≤ atol + rtol ‖z‖.
            tolerance = atol + rtol * norm
            evaluations[place] += 1
            status = MAX_ITERATIONS
            if not residual < np.inf:  # nor is NaN; np.isfinite takes a difference, which may be reordered
                status = NON_FINITE
            elif residual <= tolerance and tolerance < np.inf:
                status = CONVERGED
            # Go on: z ← z + τ (Φ(z) − z).
            if status == MAX_ITERATIONS and evaluations[place] < limit:
                for i in range(features):
                    latent[i] += damping * (image[i] - latent[i])
                continue
            # The token is finished: z is stored, and G makes window and state after it.
            b, t = sequence[place], token[place]
            if status == CONVERGED and not reached[place]:
                status = MAX_ITERATIONS  # a fixed point above a wrong left context is none
            reached[place] = status == CONVERGED
            solved = row_of(value, b * length + t)
            for i in range(features):
                solved[i] = latent[i]
            iterations[b, t], residuals[b, t], statuses[b, t] = evaluations[place], residual, status
            advance(weights, places, windows, states, layers, size, place, b)
            token[place] += 1
            fresh[place] = 1


@once
def _scaled_norms(latent, image, features):
    """‖Φ(z) − z‖ and ‖z‖ where squares overflow or vanish."""
    largest, longest = zero_like(latent), zero_like(latent)
    for i in range(features):
        largest, longest = max(largest, abs(image[i] - latent[i])), max(longest, abs(latent[i]))
    squares, norm = zero_like(latent), zero_like(latent)
    for i in range(features):
        if largest > 0:
            change = (image[i] - latent[i]) / largest
            squares += change * change
        if longest > 0:
            norm += (latent[i] / longest) * (latent[i] / longest)
    return largest * np.sqrt(squares), longest * np.sqrt(norm)


@inner
def _begin(weights, places, start, mask, windows, found, sequence, token, evaluations, reached, place):
    """Begin the next real token of a place and return whether there is one.

    Padding is passed over: its latent is 0, which is a fixed point.
    """
    value, iterations, residuals, statuses = found
    b, length, features = sequence[place], start.shape[1], start.shape[2]
    while token[place] < length and not mask[b, token[place]]:
        t = token[place]
        for i in range(features):
            value[b, t, i] = 0
        iterations[b, t], residuals[b, t] = 1, 0
        statuses[b, t] = CONVERGED if reached[place] else MAX_ITERATIONS
        token[place] += 1
    if token[place] == length:
        return False
    for i in range(features):
        places.streams[place, i] = start[b, token[place], i]
    evaluations[place] = 0
    read_windows(weights, places, windows, weights.skips.shape[0], len(sequence), place, b)
    return True


@once
def _move(places, layers, sequence, token, evaluations, reached, fresh, origin, target):
    """Move what is known of a token to another place."""
    size = len(sequence)
    sequence[target], token[target] = sequence[origin], token[origin]
    evaluations[target], reached[target] = evaluations[origin], reached[origin]
    fresh[target] = fresh[origin]
    for i in range(places.streams.shape[1]):
        places.streams[target, i] = places.streams[origin, i]
    for layer in range(layers):
        for i in range(places.past.shape[1]):
            places.past[layer * size + target, i] = places.past[layer * size + origin, i]
