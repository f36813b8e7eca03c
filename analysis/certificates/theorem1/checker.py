"""Whether a certificate is true: every claim proved again from the weights, at a higher precision.

The theorems behind it are those of `theory.rigorous.enclosure`; the arithmetic and the evaluation of the
model are others (`arb_mamba2`), the inverse is computed anew, and the singular value is bounded by a Cholesky
decomposition in place of a norm. A comparison of balls is true only if it is true of all numbers in them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.deltanet import ArbDeltaNet
from analysis.certificates.arb.linear import (
    identity,
    is_positive_definite,
    max_upper,
    precision,
    row_sum,
)
from analysis.certificates.arb.mamba2 import Rows, Vector, exact_vector
from analysis.certificates.arb.model import ArbModel
from analysis.certificates.arb.newton import contracting_newton_map
from analysis.certificates.arb.orbits import LONGEST_ORBIT, damped_orbit
from analysis.certificates.checking import Weights, check_each, check_run, check_seal, check_weights
from analysis.certificates.parts import Interval, RefusedError
from analysis.certificates.replay import Replay, Visit, check_state
from analysis.certificates.theorem1.document import (
    CHECKED,
    Certificate,
    Claim,
    Contraction,
    ControlPair,
    Pair,
    Point,
    layers_of,
    least_state_radius,
    statements_of,
    summarise,
)

Numbers = Mapping[str, NDArray[np.float64]]
"""A state as a document holds it."""
LARGEST_POWER = 2**20
EVALUATIONS: dict[str, type[ArbModel]] = {
    "implicit-mamba2": ArbModel,
    "mamba2": ArbModel,
    "implicit-deltanet": ArbDeltaNet,
}
"""By the model's name, those of `CHECKED`."""


class Checker:
    """Proves the claims of single pairs again.

    Args:
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.
        model: its name.

    Example:
        >>> from implicit.models.mamba2 import Mamba2, Mamba2Config
        >>> config = Mamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> weights = {name: value.numpy() for name, value in Mamba2(config).state_dict().items()}
        >>> Checker(weights, config.model_dump(), bits=128).shapes
        {'conv.0': (12, 3), 'ssm.0': (8, 2)}
    """

    def __init__(
        self, weights: Weights, sizes: Mapping[str, Any], bits: int, model: str = "implicit-mamba2"
    ) -> None:
        self.bits = bits
        self._made_of = EVALUATIONS[model], weights, sizes
        self._models: dict[int, ArbModel] = {}
        self.model = self.model_at(bits)
        self.shapes = self.model.shapes

    def model_at(self, bits: int) -> ArbModel:
        """Return the model with weights, and what is computed of them alone, at a precision."""
        if bits not in self._models:
            kind, weights, sizes = self._made_of
            with precision(bits):
                self._models[bits] = kind(weights, sizes)
        return self._models[bits]

    def check_pair(self, pair: Pair | ControlPair, others: list[Pair], line: str) -> None:
        """Check one pair.

        Args:
            pair: what is claimed.
            others: the pair, if any, whose h stands in for its own.
            line: names the pair in the refusal.

        Raises:
            RefusedError: naming the first line that fails.
        """
        for name, shape in self.shapes.items():
            if name not in pair.state or pair.state[name].size != np.prod(shape):
                raise RefusedError(
                    f"{line}.state", f"does not hold {name} with {int(np.prod(shape))} numbers"
                )
        if set(pair.state) != set(self.shapes):
            raise RefusedError(f"{line}.state", "holds more than the parts of a state")
        if pair.token >= len(self.model.embedding):
            raise RefusedError(f"{line}.token", "is not in the alphabet")
        with precision(self.bits):
            if isinstance(pair, ControlPair):
                self._check_control(pair, line)
            else:
                self._check_implicit(pair, others, line)

    def _check_implicit(self, pair: Pair, others: list[Pair], line: str) -> None:
        if len(pair.places) != len(self.model.blocks):
            raise RefusedError(f"{line}.places", "does not hold one entry per layer")
        for layer, place in enumerate(pair.places):
            if max(place) >= np.prod(self.shapes[self.model.blocks[layer]]):
                raise RefusedError(f"{line}.places[{layer}]", "lies outside of the matrix")
        if pair.point is not None:
            self.check_point(pair, pair.point, pair.state, f"{line}.point")
        if pair.elsewhere is not None:
            (other,) = others
            moved = {
                name: (other.state if name in self.model.blocks else pair.state)[name] for name in self.shapes
            }
            # two fixed points beside one h would be two branches, and say nothing of one transition
            if all((moved[name] == pair.state[name]).all() for name in self.shapes):
                raise RefusedError(f"{line}.elsewhere.pair", "is a pair with the same h")
            self.check_point(pair, pair.elsewhere, moved, f"{line}.elsewhere")
        if pair.range is not None:
            self._check_same_fixed_point(pair.point, pair.range, f"{line}.range")
            least = least_state_radius([pair.state[name] for name in self.model.blocks])
            if not pair.range.state_radius >= least:
                raise RefusedError(
                    f"{line}.range.state_radius",
                    f"is below {least:.3g}, so that the box need not hold another h",
                )
            box = self._state(pair.state, pair.range.state_radius)
            self.check_claim(pair, pair.range, box, f"{line}.range")

    def _check_same_fixed_point(self, point: Point | None, claim: Claim, line: str) -> None:
        """Whether the ball of a claim over a box holds the fixed point that the iteration tends to."""
        if point is None or not point.attracts:
            raise RefusedError(line, "is of a pair without an orbit that is proved to end in its fixed point")
        if point.latent.size != claim.latent.size:
            raise RefusedError(f"{line}.latent", f"does not hold {point.latent.size} numbers")
        pairs = zip(exact_vector(claim.latent), exact_vector(point.latent), strict=True)
        if not all(abs(a - b) + point.error <= claim.radius for a, b in pairs):
            raise RefusedError(f"{line}.latent", "is too far from that of the point, or its ball too small")

    def check_point(self, pair: Pair, point: Point, state: Numbers, line: str) -> None:
        """Check what is claimed of one state, and where the iteration from zero goes there."""
        self.check_claim(pair, point, self._state(state, 0.0), line)
        if point.orbit is not None:
            self._check_orbit(pair.token, point, state, line)

    def _check_orbit(self, token: int, point: Point, state: Numbers, line: str) -> None:
        if point.orbit is None or point.contraction is None:
            raise RefusedError(f"{line}.orbit", "has no contraction to end in")
        steps, distance = point.orbit.iterations, arb(point.orbit.distance)
        if steps > LONGEST_ORBIT:
            raise RefusedError(f"{line}.orbit.iterations", f"are more than {LONGEST_ORBIT}")
        if not point.contraction.growth * (distance + point.error) + point.error <= point.radius:
            raise RefusedError(f"{line}.orbit.distance", "is not where the iteration is proved to converge")

        def image_at(bits: int) -> tuple[Callable[[Vector], Vector], arb]:
            model = self.model_at(bits)
            numbers = model.state([e for name in self.shapes for e in exact_vector(state[name])])
            return partial(model.image, token, state=numbers), model.damping

        reached = damped_orbit(image_at, self.model.size, steps, self.bits)
        both = zip(reached, exact_vector(point.latent), strict=True)
        if not all(abs(a - b) <= distance for a, b in both):
            raise RefusedError(f"{line}.orbit.distance", f"is less than that after {steps} steps from zero")

    def check_claim(self, pair: Pair, claim: Claim, state: dict[str, Rows], line: str) -> None:
        """Check what is claimed of a box of states; `theory.rigorous.enclosure` has the theorems."""
        size = self.model.size
        if claim.latent.size != size:
            raise RefusedError(f"{line}.latent", f"does not hold {size} numbers")
        if not 0 <= claim.error <= claim.radius:
            raise RefusedError(f"{line}.error", "is not between 0 and the radius")
        centre = exact_vector(claim.latent)
        region = [arb(float(number), claim.radius) for number in claim.latent]
        _, slopes, found = self.model.evaluate(pair.token, region, state, [c for _, c in pair.places])
        A = arb_mat([row[:size] for row in slopes])
        newton = contracting_newton_map(A, lambda reason: RefusedError(f"{line}.radius", reason))
        inverse, defect, kappa = newton.inverse, newton.defect, newton.kappa
        image, _, _ = self.model.evaluate(pair.token, centre, state, None)
        residual = arb_mat(size, 1, [a - b for a, b in zip(image, centre, strict=True)])
        if not row_sum(inverse * residual) + kappa * claim.error <= claim.error:
            raise RefusedError(f"{line}.error", "the Newton map leaves the ball of that radius")
        remaining = 1 - (kappa * row_sum(defect.transpose())).sqrt()
        if not (claim.singular_value > 0 and remaining > 0):
            raise RefusedError(f"{line}.singular_value", "is not proved to be positive")
        # ‖P‖₂ ≤ remaining / σ, as a difference that is positive definite.
        bound = (remaining.lower() / claim.singular_value) ** 2
        if not is_positive_definite(bound * identity(size) - inverse.transpose() * inverse):
            raise RefusedError(f"{line}.singular_value", "is larger than what is proved")
        if claim.contraction is not None:
            self._check_contraction(A, claim.contraction, f"{line}.contraction")
        if len(claim.entries) != len(pair.places):
            raise RefusedError(f"{line}.entries", "does not hold one interval per layer")
        for layer, (place, interval) in enumerate(zip(pair.places, claim.entries, strict=True)):
            source = arb_mat(size, 1, [rates[size + layer] for rates in slopes])
            solved = inverse * source
            beyond = (kappa**2 / (1 - kappa) * row_sum(solved)).upper()
            response = [entry + arb(0, beyond) for entry in (solved + defect * solved).entries()]
            rates = self.model.entry_rates(found, layer, place, state)
            entry = sum((g * x for g, x in zip(rates[:size], response, strict=True)), rates[size + layer])
            if not _inside(entry, interval):
                raise RefusedError(f"{line}.entries[{layer}]", "does not hold all that the entry may be")

    def _check_contraction(self, A: arb_mat, contraction: Contraction, line: str) -> None:
        """By repeated squaring; a product of fewer than 2^j is one of products of 2^i, each i < j once."""
        power = contraction.power
        if power & (power - 1) or power > LARGEST_POWER:
            raise RefusedError(f"{line}.power", f"is not a power of two up to {LARGEST_POWER}")
        product = identity(A.nrows()) * (1 - self.model.damping) + A * self.model.damping
        growth = arb(1)
        for _ in range(power.bit_length() - 1):
            growth *= max_upper([arb(1), row_sum(product)])
            product = product * product
        if not (contraction.norm < 1 and row_sum(product) <= contraction.norm):
            raise RefusedError(f"{line}.norm", "is not a bound below 1 of the powers")
        if not growth <= contraction.growth:
            raise RefusedError(f"{line}.growth", "is not a bound of the lower powers")

    def _check_control(self, pair: ControlPair, line: str) -> None:
        """NaN in place of a layer's own h: what comes out finite was computed without it."""
        if pair.decay is None:
            return
        if self.model.implicit or len(pair.decay) != len(self.model.blocks):
            raise RefusedError(f"{line}.decay", "does not hold one list per layer of an explicit model")
        for layer, intervals in enumerate(pair.decay):
            state = self._state(pair.state, 0.0)
            state[f"ssm.{layer}"] = [[arb.nan()] * len(row) for row in state[f"ssm.{layer}"]]
            _, _, found = self.model.evaluate(pair.token, [], state, None)
            here = found[layer]
            numbers = [*here.decays, *here.inputs[0], *here.B[0]]
            if not all(number.is_finite() for number in numbers):
                raise RefusedError(f"{line}.decay[{layer}]", "the coefficients depend on h")
            if len(intervals) != len(here.decays) or not all(map(_inside, here.decays, intervals)):
                raise RefusedError(f"{line}.decay[{layer}]", "does not hold all that the decay may be")

    def _state(self, state: Numbers, radius: float) -> dict[str, Rows]:
        entries = []
        for name in self.shapes:
            if name in self.model.blocks and radius:
                entries += [arb(float(number), radius) for number in state[name]]
            else:
                entries += exact_vector(state[name])
        return self.model.state(entries)


def check(
    certificate: Certificate,
    weights: Weights,
    *,
    sha256: str,
    config: Mapping[str, Any],
    visited: Sequence[Visit],
    bits: int = 128,
    processes: int = 1,
) -> None:
    """Verify a certificate: its head, every pair, its counts and its seal, in this order.

    Args:
        certificate: what is claimed.
        weights: the state dict of the run.
        sha256: the hash of its weights file.
        config: its configuration, as JSON.
        visited: the places of all pairs that its settings stand for, in order.
        bits: the precision.
        processes: how many work in parallel.

    Raises:
        RefusedError: naming the first line that fails.

    Example:
        >>> from pathlib import Path
        >>> from analysis.certify import certify
        >>> from analysis.check_certificate import visited_pairs
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "mamba2", d_model=4, head_size=4, d_state=2), make_task("parity")
        >>> run = Run(Path("runs/explicit"), config, initial_model(config, task), task, [])
        >>> certificate = certify(run, states=2, sequences=2, length=4)
        >>> check(
        ...     certificate,
        ...     {name: tensor.numpy() for name, tensor in run.model.state_dict().items()},
        ...     sha256=certificate.run["weights_sha256"],
        ...     config=config.as_json(),
        ...     visited=visited_pairs(task, certificate.settings),
        ... )
    """
    name = str(config["model"])
    if name not in CHECKED or config["sizes"].get("mlp_size"):
        raise RefusedError("config", "is of a model that the checker cannot evaluate")
    check_weights(weights)
    check_run(certificate, statements_of(name, layers_of(config)), sha256=sha256, config=config, bits=bits)
    _check_places(certificate, visited)
    check_states(certificate, visited, Replay(weights, config["sizes"], name))
    pairs = certificate.pairs
    jobs = [(pair, _others(pair, pairs, number), f"pairs[{number}]") for number, pair in enumerate(pairs)]
    arguments = (dict(weights), config["sizes"], bits, name)
    check_each(Checker, arguments, Checker.check_pair, jobs, processes=processes, unit="pair", at_once=8)
    counts = summarise(pairs)
    if set(certificate.summary) != set(counts):
        raise RefusedError("summary", f"does not hold the counts of its format, {', '.join(counts)}")
    for name, count in counts.items():
        if certificate.summary[name] != count:
            raise RefusedError(f"summary.{name}", f"is not what the pairs show, {count}")
    if not any(count for name, count in counts.items() if name != "pairs"):
        raise RefusedError("pairs", "claim nothing")
    check_seal(certificate)


def _check_places(certificate: Certificate, visited: Sequence[Visit]) -> None:
    if len(certificate.pairs) != len(visited):
        raise RefusedError(
            "pairs", f"are {len(certificate.pairs)}, where the settings stand for {len(visited)}"
        )
    for number, (pair, place) in enumerate(zip(certificate.pairs, visited, strict=True)):
        for name, found, expected in zip(
            ("sequence", "position", "token"),
            (pair.sequence, pair.position, pair.token),
            place[:3],
            strict=True,
        ):
            if found != expected:
                raise RefusedError(f"pairs[{number}].{name}", f"is not {expected}, as the settings have it")


def check_states(certificate: Certificate, visited: Sequence[Visit], replay: Replay) -> None:
    """Verify that the states of all pairs are those that the words before them lead to.

    Args:
        certificate: as many pairs as visits.
        visited: their places.
        replay: the model in float64.

    Raises:
        RefusedError: naming the first state that is another, or of which something is claimed though a token
            before it does not settle.

    Example:
        `check` calls it.
    """
    pairs = certificate.pairs
    found = replay.states([visit.word for visit in visited])
    used = {number for number, pair in enumerate(pairs) if pair.claims}
    used |= {pair.elsewhere.pair for pair in pairs if isinstance(pair, Pair) and pair.elsewhere is not None}
    for number, (pair, state) in enumerate(zip(pairs, found, strict=True)):
        if state is not None:
            check_state(pair.state, state, f"pairs[{number}].state")
        elif number in used:
            raise RefusedError(f"pairs[{number}].state", "is of a word with a token that does not settle")


def _others(pair: Pair | ControlPair, pairs: list[Any], number: int) -> list[Pair]:
    if not isinstance(pair, Pair) or pair.elsewhere is None:
        return []
    if pair.elsewhere.pair >= len(pairs):
        raise RefusedError(f"pairs[{number}].elsewhere.pair", "is not the number of a pair")
    return [pairs[pair.elsewhere.pair]]


def _inside(number: arb, interval: Interval) -> bool:
    return bool(number >= interval[0] and number <= interval[1])
