"""Theorem 1 proved, not measured, of any (Φ, G) written for PyTorch: `prove_theorem1`.

The code of Φ and G is run on balls (`theory.rigorous.tensors`). At each state two things are proved, for the
one token that the transition holds: A1 to A4 of `theory.rigorous.enclosure`, and A6 of
`theory.rigorous.orbits`, that the damped iteration from zero tends to the fixed point. *Non-linear* compares
an entry of ∂h'/∂h at a state with the same entry where h, of all layers, is that of another state. It asks A1
to A3 and A6 at both: fixed points that the iteration does not find belong to another map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from automata.checks import at_least, at_most
from automata.errors import InputError
from theory.blocks import validate
from theory.fixed_point import solve_fixed_point
from theory.jacobian.coupling_entries import coupling_entries
from theory.pure_maps import validate_maps
from theory.rigorous.balls.ball import Array
from theory.rigorous.enclosure import Entries, approximate_slopes, enclose, newton_step_bound, refine
from theory.rigorous.orbits import orbits_into_basin
from theory.rigorous.tensors import EnclosedTransitionBatch
from theory.rigorous.tensors.agreement import compare, compare_beside, compare_orbit
from theory.transition import State, Transition, TransitionBatch

RADII = (2.0**-20, 2.0**-28, 2.0**-36)
"""Radii of the ball of latents that are tried, before the least that the residual allows."""
PARTNERS = 3
"""Other states whose h is tried until one shows that the transition is not linear."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Bounds:
    """Proved bounds at one state; `theory.rigorous.enclosure` says what each number bounds."""

    latent: Array  # z̃, near the fixed point
    radius: float  # of the ball around z̃ that holds exactly one fixed point
    error: float  # how far that is from z̃ at most
    singular_value: float  # a lower bound of the least of I − ∂zΦ
    # by which a damped step contracts in the long run, rounded for reading; None if not proved
    factor: float | None
    # after which the iteration from zero is provably so near that it tends to the fixed point; None if not
    # proved
    steps: int | None
    entries: tuple[Interval, ...]  # per layer an interval that holds ∂h'_i/∂h_j

    @property
    def attracts(self) -> bool:
        """Return whether C3 is proved whole: the step contracts, and the iteration from zero comes near."""
        return self.factor is not None and self.steps is not None

    @property
    def excludes_zero(self) -> bool:
        """Return whether no entry can be zero."""
        return all(low > 0 or high < 0 for low, high in self.entries)

    def differs_from(self, other: "Bounds") -> bool:
        """Return whether, in every layer, the entry lies in disjoint intervals."""
        pairs = zip(self.entries, other.entries, strict=True)
        return all(a[1] < b[0] or b[1] < a[0] for a, b in pairs)


@dataclass(frozen=True)
class StateProof:
    """The parts of Theorem 1 that are proved at one state.

    Example:
        >>> StateProof(here=None, places=((0, 1),)).non_diagonal
        False
    """

    here: Bounds | None  # None where no fixed point is proved
    places: tuple[tuple[int, int], ...]  # per layer row i and column j of the entry
    # with the h of another state, where all but the entry's sign is proved
    elsewhere: Bounds | None = None
    other: int | None = None  # the number of that state
    reasons: tuple[str, ...] = ()  # why a statement is not proved

    @property
    def contracts(self) -> bool:
        """Return whether A1, A2 and A3 are proved."""
        return self.here is not None and self.here.factor is not None

    @property
    def attracts(self) -> bool:
        """Return whether C1 to C3 are proved, C3 whole: the map that the exact iteration computes is F."""
        return self.here is not None and self.here.attracts

    @property
    def non_diagonal(self) -> bool:
        """Return whether C1 to C3 are proved and, in every layer, an entry off the diagonal is not zero."""
        off = all(row != column for row, column in self.places)
        return off and self.here is not None and self.here.attracts and self.here.excludes_zero

    @property
    def non_linear(self) -> bool:
        """Say whether, in every layer, the entry is proved to differ at two h, with C1 to C3 at both.

        With several layers the h of all of them differ: the transition of all h together is not linear, that
        of one layer with the others held may be.
        """
        if self.here is None or self.elsewhere is None:
            return False
        both = self.here.attracts and self.elsewhere.attracts
        return both and self.here.differs_from(self.elsewhere)


@dataclass(frozen=True)
class Theorem1Proof:
    """The parts of Theorem 1 that are proved of a transition, at each state that was given.

    Example:
        >>> nothing = StateProof(here=None, places=((0, 1),))
        >>> Theorem1Proof((nothing, nothing)).sentence
        'Nothing is proved at the 2 states.'
    """

    states: tuple[StateProof, ...]

    def summary(self) -> dict[str, int]:
        """Return at how many states each statement is proved."""
        return {
            "states": len(self.states),
            "existence": sum(state.here is not None for state in self.states),
            "contraction": sum(state.contracts for state in self.states),
            "orbit": sum(state.attracts for state in self.states),
            "non_diagonal": sum(state.non_diagonal for state in self.states),
            "non_linear": sum(state.non_linear for state in self.states),
        }

    @property
    def proved(self) -> bool:
        """Return whether every statement is proved at every state."""
        return len(set(self.summary().values())) == 1

    @property
    def sentence(self) -> str:
        """The proved statements, a line each with its number of states, and what is assumed."""
        count = self.summary()
        found = [state.here for state in self.states if state.here is not None]
        if not found:
            return f"Nothing is proved at the {count['states']} states."
        factors = [bounds.factor for bounds in found if bounds.factor is not None]
        several = len(self.states[0].places) > 1
        blocks = ", of every layer's own block" if several else ""
        another = "where the h of all layers are others" if several else "at another h"
        rate = f"; the damped step contracts by {at_most(max(factors))} or better" if factors else ""
        radius, error = min(b.radius for b in found), max(b.error for b in found)
        lines = (
            f"Of {count['states']} states it is proved of Φ and G as written:",
            f"- at {count['existence']}: exactly one fixed point in a ball of radius "
            f"{at_least(radius, 2)} or more around the latent, at most {at_most(error, 2)} from it",
            f"- at {count['contraction']}: the fixed point attracts{rate}",
            f"- at {count['orbit']}: the exact iteration from z0 = 0 tends to it",
            f"- at {count['non_diagonal']}: all of these, and ∂h'/∂h is non-diagonal{blocks}",
            f"- at {count['non_linear']}: ∂h'/∂h is different {another}, where the same is proved",
            "Arithmetic: real numbers; constants are the floats that they are.",
            "Assumed: Φ and G are functions of z and s alone, whenever and from wherever they are called.",
            "Not proved: anything at other states, and what the model's own floats, tolerance and limit of "
            f"iterations do{', nor anything of blocks between layers' if several else ''}.",
            "No independent check exists of this proof.",
        )
        return "\n".join(lines)


@torch.no_grad()
def prove_theorem1(transition: Transition, states: Sequence[State]) -> Theorem1Proof:
    """Prove what can be proved of Theorem 1 at states, in rigorous arithmetic.

    The code has to be one function of tensors and of balls (`theory.rigorous.tensors.agreement`). Values and
    derivatives of both readings are compared at every fixed point of the proof, beside it, and where
    iterations begin: with gradients, without and in inference mode. Values of Φ are also compared along the
    iteration from z0 = 0 to the fixed point.

    Assumed: Φ and G compute the same whenever and from wherever they are called. Code that changes after the
    comparisons, counts its calls, reads the call stack, or follows a setting that you change later (autocast,
    the default type, a global of yours) cannot be told from the formula that it was until then. InputError
    without a latent or states, or for code with something that has no form on balls.

    Args:
        transition: (Φ, G), written with PyTorch's functions. Tensors and numbers that the code refers to are
            taken as the real numbers that their floats are.
        states: float64, without a batch axis; for *non-linear* at least two.

    Example:
        Φ(z; h) = tanh(W z + h)/2 and h' = h/2 + z, at two h.

        >>> W = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> transition = Transition(
        ...     self_map=lambda z, s: torch.tanh(W @ z + s["h"]) / 2,
        ...     state_update=lambda z, s: {"h": s["h"] / 2 + z},
        ...     latent_size=2,
        ...     layer_states=(("h",),),
        ... )
        >>> first, second = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
        >>> proof = prove_theorem1(transition, [{"h": first}, {"h": second}])
        >>> proof.proved, proof.summary()["orbit"], proof.summary()["non_linear"]
        (True, 2, 2)
    """
    states = list(states)
    if not states:
        raise InputError("states is empty; give at least one state, and two for non-linear")
    if not transition.latent_size:
        raise InputError(
            "latent_size is 0; the theorem speaks of fixed points, give a transition with a latent"
        )
    for state in states:
        validate(transition, state)
    validate_maps(transition, states[0])
    prover = _Prover(transition, states)
    everywhere = np.arange(len(states))
    latents = prover.fixed_points(prover.state, everywhere)
    count = len(states)
    compare(prover.batch(count), prover.on_balls(count), prover.state, latents, finite=True)
    compare(prover.batch(count), prover.on_balls(count), prover.state, np.zeros_like(latents))
    places = prover.places(latents)
    proofs = [
        StateProof(bounds, tuple((int(rows[index]), int(columns[index])) for rows, columns in places))
        for index, bounds in enumerate(prover.bounds(prover.state, latents, places))
    ]
    for attempt in range(PARTNERS if count > 1 else 0):
        missing = [i for i, proof in enumerate(proofs) if proof.attracts and not proof.non_linear]
        if not missing:
            break
        chosen = np.array(missing)
        lenders = prover.partners(attempt)[chosen]
        lent = prover.lent(chosen, lenders)
        some = [(rows[chosen], columns[chosen]) for rows, columns in places]
        found = prover.bounds(lent, prover.fixed_points(lent, chosen), some)
        for index, lender, bounds in zip(missing, lenders, found, strict=True):
            if bounds is not None:
                proofs[index] = replace(proofs[index], elsewhere=bounds, other=int(lender))
    return Theorem1Proof(tuple(replace(proof, reasons=_reasons(proof, count)) for proof in proofs))


class _Prover:
    """(Φ, G) of one token, in floating point and on balls, at all states at once."""

    def __init__(self, transition: Transition, states: Sequence[State]) -> None:
        self.transition, self.states = transition, states
        self.state = {name: np.stack([s[name].cpu().numpy() for s in states]) for name in states[0]}
        self.shapes = {name: tuple(entry.shape) for name, entry in states[0].items()}

    def batch(self, positions: int) -> TransitionBatch:
        transition = self.transition
        return TransitionBatch(
            advance=lambda z, s, _x: (transition.self_map(z, s), transition.state_update(z, s)),
            inputs={"position": torch.zeros(positions, dtype=torch.float64)},
            latent_size=transition.latent_size,
            layer_states=transition.layer_states,
            damping=transition.damping,
        )

    def on_balls(self, positions: int) -> EnclosedTransitionBatch:
        return EnclosedTransitionBatch(self.batch(positions), self.shapes)

    def fixed_points(self, state: Mapping[str, Array], places: NDArray[np.int64]) -> Array:
        """Where proofs start: the last iterate even where the iteration did not converge."""
        found = [
            solve_fixed_point(
                self.transition, {name: torch.as_tensor(entry[i]) for name, entry in state.items()}
            ).latent.numpy()
            for i in range(len(places))
        ]
        latents = np.nan_to_num(np.stack(found), posinf=0.0, neginf=0.0)
        balls = self.on_balls(len(places))
        return refine(balls, balls.enclosed(state), latents)

    def places(self, latents: Array) -> list[Entries]:
        balls = self.on_balls(len(latents))
        _, slopes = approximate_slopes(balls, balls.enclosed(self.state), latents)
        state = {name: torch.from_numpy(entry) for name, entry in self.state.items()}
        here = (self.batch(len(latents)), state, torch.from_numpy(latents), torch.from_numpy(slopes))
        try:
            found = coupling_entries(*here)
        except RuntimeError as fault:  # such as an in-place operator on what unbind returns
            raise InputError(
                f"Φ or G has no derivative in reverse mode: {' '.join(str(fault).split())}"
            ) from fault
        return [(rows.numpy(), columns.numpy()) for rows, columns in found]

    def partners(self, attempt: int) -> NDArray[np.int64]:
        """For each state another one, the farthest in h at first, nearer ones later."""
        blocks = [name for names in self.transition.layer_states for name in names]
        vectors = np.concatenate([self.state[name].reshape(len(self.states), -1) for name in blocks], axis=1)
        vectors = vectors / (np.abs(vectors).max(initial=0.0) or 1.0)  # squares of the largest are floats
        place = (len(vectors) - 1) * (2**attempt - 1) // 2**attempt
        away = (np.square(vectors - one).sum(-1) for one in vectors)  # a state at a time: memory stays small
        return np.array([np.argsort(-distances)[place] for distances in away])

    def lent(self, chosen: NDArray[np.int64], lenders: NDArray[np.int64]) -> dict[str, Array]:
        """The states with the h of others."""
        blocks = {name for names in self.transition.layer_states for name in names}
        return {name: entry[lenders if name in blocks else chosen] for name, entry in self.state.items()}

    def bounds(
        self, state: Mapping[str, Array], latents: Array, places: Sequence[Entries]
    ) -> list[Bounds | None]:
        """With the largest radius that proves everything, or else what the last ones prove."""
        balls = self.on_balls(len(latents))
        columns = [column for _, column in places]
        compare_beside(self.batch(len(latents)), balls, state, latents, columns)
        enclosed = balls.enclosed(state)
        best: list[Bounds | None] = [None] * len(latents)
        least = 2 * np.nan_to_num(newton_step_bound(balls, enclosed, latents), nan=1.0, posinf=1.0)
        for radius in (*(np.full(len(latents), radius) for radius in RADII), least):
            found = enclose(balls, enclosed, latents, radius, places)
            open_ones = np.array([one is None or not (one.attracts and one.excludes_zero) for one in best])
            region = np.where(found.contracts & open_ones, found.radius, 0.0)
            orbits = orbits_into_basin(balls, enclosed, latents, region, found.error, found.growth)
            for index, before in enumerate(best):
                entries = tuple((float(e.lower[index]), float(e.upper[index])) for e in found.entries)
                if not (open_ones[index] and found.exists[index] and np.isfinite(entries).all()):
                    continue
                factor = None
                if found.contracts[index]:
                    factor = float(found.power_norm[index] ** (1 / found.power[index]))
                candidate = Bounds(
                    latents[index],
                    float(found.radius[index]),
                    float(found.error[index]),
                    float(found.singular_value[index]),
                    factor,
                    int(orbits.iterations[index]) if orbits.arrive[index] else None,
                    entries,
                )
                if before is None or candidate.attracts or not before.attracts:
                    best[index] = candidate
        for index, proved in enumerate(best):
            if proved is not None and proved.steps:
                here = {name: entry[index] for name, entry in state.items()}
                compare_orbit(self.transition, self.on_balls(proved.steps), here, proved.steps)
        return best


def _reasons(proof: StateProof, states: int) -> tuple[str, ...]:
    if proof.here is None:
        return ("no fixed point was found, or I − ∂zΦ is too near to a singular matrix there",)
    reasons = []
    if not proof.contracts:
        reasons.append("no power up to 1024 of the damped step is proved to contract")
    elif not proof.attracts:
        reasons.append("the iteration from zero is not proved to come near this fixed point")
    if any(row == column for row, column in proof.places):
        reasons.append("a block of one number has nothing off the diagonal")
    elif not proof.here.excludes_zero:
        reasons.append("the interval of the entry off the diagonal holds zero")
    if states == 1:
        reasons.append("non-linear needs a second state")
    elif not proof.non_linear:
        reasons.append("at no other h a different entry is proved, with the iteration's limit at both")
    return tuple(reasons)
