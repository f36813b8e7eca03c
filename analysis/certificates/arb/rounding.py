"""The rounding of a float64 program's step, bounded in FLINT's balls.

Program and assumptions are those that `analysis.certificates.claims.words` states. Each number of it is a
pair: a ball that holds what it would be without any rounding for all latents and states of a box, and a bound
of how far the program's number is from that. Roundings are counted for each formula of the cell as a whole,
where the producer counts them operation by operation. With e the error that comes in and |x| the largest
exact number, a result of k roundings is off by e and (|x| + e) ((1 + u)ᵏ − 1) more. Nothing is known of a
number, or of a sum on the way to it, that may be beyond `LARGEST`: its error is NaN, and no comparison holds.
"""

from dataclasses import dataclass
from typing import NamedTuple

from flint import arb, arb_mat

from analysis.certificates.arb.linear import (
    EPSILON,
    Vector,
    Weights,
    apply,
    exact_matrix,
    exact_vector,
    max_upper,
    norm_bound,
    sigmoid,
)
from analysis.certificates.arb.models import ArbModel, State, entries_of

UNIT = arb(2) ** -53
TINY = arb(2) ** -80
"""Added to every number once: more than all of its underflows, and what functions lose below 2⁻¹⁰⁰.

Where what is normalised is as large as 2⁸⁰, that of its inverse root alone is an error of 1.
"""
LARGEST = arb(2) ** 500
"""Squares of such numbers, and sums of squares, are far from overflowing: float64 ends at 2¹⁰²⁴."""
LINEAR_FROM = 20  # PyTorch's softplus returns its argument above


@dataclass(frozen=True, eq=False)
class Computed:
    """Numbers of the program: without rounding, and how far off they are at most."""

    exact: Vector
    error: Vector

    @property
    def size(self) -> Vector:
        """The largest absolute values that the program has."""
        return [_top(x, e) for x, e in zip(self.exact, self.error, strict=True)]

    def part(self, start: int, stop: int | None = None) -> "Computed":
        """Return consecutive numbers."""
        return Computed(self.exact[start:stop], self.error[start:stop])


class Off(NamedTuple):
    """Bounds of the error of a step, in Euclidean norms, and of the logits one by one."""

    step: arb
    state: arb
    logit: arb


class _Matrix(NamedTuple):
    exact: arb_mat
    sizes: arb_mat


def _with_sizes(matrix: arb_mat) -> _Matrix:
    return _Matrix(matrix, arb_mat([[abs(entry) for entry in row] for row in matrix.tolist()]))


class ArbRounding:
    """Bounds the rounding of the program of a stored implicit-mamba2 of one layer."""

    def __init__(self, weights: Weights, model: ArbModel, ulps: int) -> None:
        (self.layer,) = model.layers
        self.model, self.function = model, 2 * ulps * UNIT
        self.last_norm = exact_vector(weights["latent_norm.weight"])
        self.head, self.head_bias = _with_sizes(model.head), exact_vector(weights["head.bias"])
        self.in_proj, self.out_proj = _with_sizes(self.layer.in_proj), _with_sizes(self.layer.out_proj)
        # the injections: a norm of the embedding, and a product
        matrix = _with_sizes(exact_matrix(weights["injections.0.weight"]))
        norm = exact_vector(weights["embedding_norm.weight"])
        zero = [arb(0)] * model.size
        self.injections = [
            self._product(matrix, self._norm(Computed(exact_vector(row), zero), norm, 1))
            for row in weights["embedding.weight"]
        ]
        # −exp(A_log)
        off = [abs(rate).upper() * self.function + TINY for rate in self.layer.rates]
        self.rates = Computed(self.layer.rates, _held(off, [abs(rate) for rate in self.layer.rates]))

    def bound(self, token: int, z: Vector, state: State) -> Off:
        """Bound it for all latents and states of boxes."""
        image, after = self._step(token, Computed(z, [arb(0)] * len(z)), state)
        tau = self.model.damping
        # z + τ (Φ − z): three roundings of the change, and one of the sum
        change = [abs(a - b).upper() + e for a, b, e in zip(image.exact, z, image.error, strict=True)]
        follow = [
            tau * e + 3 * UNIT * c + UNIT * (abs(x).upper() + c) + TINY
            for e, c, x in zip(image.error, change, z, strict=True)
        ]
        # ‖Φ − z‖ and the tolerance, at most 1, times ‖z‖: a difference, squares, a sum, a root and a product
        counted = self._gamma(len(z) + 8) + 2 * self.function
        residual = norm_bound(image.error) + counted * (norm_bound(change) + norm_bound(z)) + TINY
        spread = apply(self.head.sizes, [abs(entry).upper() for entry in z])
        logits = [
            self._gamma(len(z) + 2) * (terms + abs(bias)) + TINY
            for terms, bias in zip(spread, self.head_bias, strict=True)
        ]
        step = norm_bound(_held(follow, change))
        return Off(
            max_upper([step, tau * residual]), norm_bound(after.error), max_upper(_held(logits, spread))
        )

    def _step(self, token: int, z: Computed, state: State) -> tuple[Computed, Computed]:
        layer = self.layer
        inner, channels = layer.d_inner, len(layer.taps)
        p = self._product(self.in_proj, self._norm(z, layer.norm_before, 1))
        p = self._counted(
            [a + b for a, b in zip(p.exact, self.injections[token].exact, strict=True)],
            [a + b for a, b in zip(p.error, self.injections[token].error, strict=True)],
            1,
        )
        gate, entering, raw = p.part(0, inner), p.part(inner, inner + channels), p.part(inner + channels)
        v = self._convolved(entering, state["conv.0"])
        dt = self._steps(raw)
        x, B, C = v.part(0, inner), v.part(inner, inner + layer.shared), v.part(inner + layer.shared)
        after, y = self._memory(dt, x, B, C, state["ssm.0"])
        gated: Computed = Computed([], [])
        for e, de, g, dg in zip(y.exact, y.error, gate.exact, gate.error, strict=True):
            opened = g * sigmoid(g)
            off = 1.1 * dg
            off += self.function * (abs(opened).upper() + off) + TINY
            gated.exact.append(e * opened)
            gated.error.extend(_held([self._times(e, de, opened, off)], [_top(g, dg)]))
        output = self._product(self.out_proj, self._norm(gated, layer.norm, layer.groups))
        stream = output
        if self.model.residual:
            exact = [a + b for a, b in zip(z.exact, output.exact, strict=True)]
            stream = self._counted(exact, output.error, 1)
        image = self._norm(stream, self.last_norm, 1)
        # what was in the window is moved, not computed; new is its last column
        window = [
            error
            for row, new in zip(state["conv.0"], entering.error, strict=True)
            for error in [*([arb(0)] * len(row)), new][1:]
        ]
        return image, Computed(entries_of(state), window + after)

    def _convolved(self, entering: Computed, window: list[Vector]) -> Computed:
        found = Computed([], [])
        for taps, bias, row, new, off in zip(
            self.layer.taps, self.layer.conv_bias, window, entering.exact, entering.error, strict=True
        ):
            terms = [t * w for t, w in zip(taps, [*row, new], strict=True)]
            q = sum(terms, bias)
            size = sum((abs(term).upper() for term in terms), abs(bias)) + abs(taps[-1]) * off
            error = abs(taps[-1]) * off + self._gamma(len(terms) + 2) * size + TINY
            value = q * sigmoid(q)
            found.exact.append(value)
            rounded = 1.1 * error + self.function * (abs(value).upper() + 1.1 * error) + TINY
            found.error.extend(_held([rounded], [_top(new, off), size]))
        return found

    def _steps(self, raw: Computed) -> Computed:
        found = Computed([], [])
        for value, error, bias in zip(raw.exact, raw.error, self.layer.dt_bias, strict=True):
            q = value + bias
            off = error + UNIT * _top(q, error) + TINY
            if not (q + off).upper() < LINEAR_FROM:  # the program returns its argument: at most e^−20 less
                off += (-arb(LINEAR_FROM)).exp()
            dt = q.exp().log1p()
            found.exact.append(dt)
            found.error.extend(_held([off + self.function * (abs(dt).upper() + off) + TINY], [_top(q, off)]))
        return found

    def _memory(
        self, dt: Computed, x: Computed, B: Computed, C: Computed, h: list[Vector]
    ) -> tuple[Vector, Computed]:
        """The errors of h', and y = h' C + D x."""
        layer = self.layer
        per_head, d_state = layer.d_inner // layer.heads, layer.shared // layer.groups
        after: Vector = []
        y = Computed([], [])
        for channel, row in enumerate(h):
            head, first = channel // per_head, channel // (layer.d_inner // layer.groups) * d_state
            step, off = dt.exact[head], dt.error[head]
            power = step * self.rates.exact[head]
            slack = self._times(step, off, self.rates.exact[head], self.rates.error[head])
            decay, stretched = power.exp(), slack.exp()
            decay_off = abs(decay).upper() * (stretched - 1 + stretched * self.function) + TINY
            own, own_off = x.exact[channel], x.error[channel]
            drive, drive_off = step * own, self._times(step, off, own, own_off)
            total, error, size = arb(0), arb(0), arb(0)
            for n, entry in enumerate(row):
                b, db, c, dc = B.exact[first + n], B.error[first + n], C.exact[first + n], C.error[first + n]
                new = decay * entry + drive * b
                kept = self._times(decay, decay_off, entry, arb(0))
                written = self._times(drive, drive_off, b, db)
                wrong = (kept + written) * (1 + UNIT) + UNIT * abs(new).upper() + TINY
                (wrong,) = _held([wrong], [_top(drive, drive_off), abs(decay * entry), abs(drive * b)])
                after.append(wrong.upper())
                total += new * c
                error += self._times(new, wrong, c, dc)
                size += _top(new, wrong) * _top(c, dc)
            skip = layer.skip[head]
            past = self._times(skip, arb(0), own, own_off)
            size += abs(skip) * _top(own, own_off)
            y.exact.append(total + skip * own)
            y.error.extend(_held([(error + past + self._gamma(len(row) + 2) * size + TINY).upper()], [size]))
        return after, y

    def _norm(self, x: Computed, weight: Vector, groups: int) -> Computed:
        """The norm: x w (mean x² + ε)^{−1/2}, of which the root alone has a sum."""
        count = len(x.exact) // groups
        found = Computed([], [])
        for start in range(0, len(x.exact), count):
            part = x.part(start, start + count)
            part = Computed(part.exact, _held(part.error, part.size))
            mean = sum((e * e for e in part.exact), arb(0)) / count + EPSILON
            moved = sum(
                (2 * abs(v).upper() * e + e * e for v, e in zip(part.exact, part.error, strict=True)), arb(0)
            )
            moved = moved / count + self._gamma(count + 8) * (abs(mean).upper() + moved / count) + TINY
            least = (mean - moved).lower()
            if not least > 0:
                nothing = [arb.nan()] * count
                found.exact.extend(nothing)
                found.error.extend(nothing)
                continue
            r, r_off = mean.rsqrt(), moved / (2 * least * least.sqrt())
            r_off += self.function * (abs(r).upper() + r_off) + TINY
            for v, e, w in zip(part.exact, part.error, weight[start : start + count], strict=True):
                scaled = self._times(v, e, r, r_off)
                found.exact.append(v * r * w)
                found.error.extend(_held([self._times(v * r, scaled, w, arb(0))], [_top(v * r * w, scaled)]))
        return found

    def _product(self, matrix: _Matrix, x: Computed) -> Computed:
        """A product of a matrix of weights: sums in any order."""
        passed, spread = apply(matrix.sizes, x.error), apply(matrix.sizes, x.size)
        gamma = self._gamma(matrix.exact.ncols())
        errors = [(e + gamma * s + TINY).upper() for e, s in zip(passed, spread, strict=True)]
        return Computed(apply(matrix.exact, x.exact), _held(errors, spread))

    def _counted(self, exact: Vector, error: Vector, count: int) -> Computed:
        grown = self._gamma(count)
        sizes = [_top(x, e) for x, e in zip(exact, error, strict=True)]
        errors = [(e + grown * size + TINY).upper() for e, size in zip(error, sizes, strict=True)]
        return Computed(exact, _held(errors, sizes))

    @staticmethod
    def _times(a: arb, a_off: arb, b: arb, b_off: arb) -> arb:
        off = abs(a).upper() * b_off + a_off * (abs(b).upper() + b_off)
        return (off + UNIT * _top(a, a_off) * _top(b, b_off) + TINY).upper()

    @staticmethod
    def _gamma(count: int) -> arb:
        return count * UNIT / (1 - count * UNIT)


def _top(x: arb, error: arb) -> arb:
    return abs(x).upper() + error


def _held(errors: Vector, sizes: Vector) -> Vector:
    """Return the errors, or NaN for all if a number on the way may be too large."""
    return errors if all(bool(size < LARGEST) for size in sizes) else [arb.nan()] * len(errors)
