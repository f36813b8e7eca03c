"""What a checker prints of a certificate that holds: composed here of what it verified, never read from it.

Names come from the run, counts are taken again from the claims that were checked, bounds are rounded so that
nothing is added. What is not verified stands in the same sentence.
"""

import hashlib
import json
import math

from analysis.certificates.cover.document import CoverCertificate
from analysis.certificates.executed.document import ExecutedCertificate
from analysis.certificates.image_balls.document import ImagesCertificate
from analysis.certificates.parts import at_least
from analysis.certificates.theorem1.document import OF_LAYERS, Certificate, layers_of, summarise
from analysis.certificates.words.document import WordsCertificate
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import transition_monoid
from automata.machines.mealy import MealyMachine
from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    quaternion_group,
    symmetric_group,
)
from automata.monoids.isomorphism import find_isomorphism

AnyCertificate = Certificate | WordsCertificate | CoverCertificate | ImagesCertificate | ExecutedCertificate

LONGEST_NAME = 60
"""Characters."""
LARGEST_TABLE = 32
"""Entries that are shown."""
LARGEST_GROUP = 720
"""Maps of the states among which a group is looked for."""
VERIFIED = {
    "existence": "exactly one fixed point in a ball around the latent",
    "invertibility": "I − ∂zΦ invertible",
    "contraction": "the damped step contracting there",
    "orbit": "the exact iteration from zero tending to it",
    "non_diagonal": "of these ∂h'/∂h non-diagonal",
    "non_linear": "and another at another h, where the same is verified,",
    "range": "all but the orbit and non-linear over a box of h too",
    "explicit": "∂h'/∂h diagonal, and the same at every real h",
}
"""What a count of the summary counts, as the verdict has it."""
OF_REAL_NUMBERS = "of the model on real numbers, with its weights the exact numbers that they are"
OF_THESE_WEIGHTS = "of the model with its weights the exact numbers that they are"
OF_EVERY_START = (
    "in exact arithmetic and without end the simultaneous mode tends to the same answers, from every start "
    "whose latents z have sum (z_i / w_i)^2 <= d, w the weights of the last norm and d their number, zero "
    "among them; its rounding, tolerance and limit of iterations are not covered"
)
OF_THE_PROGRAM = "of what the model's own rounding, tolerance and limit of iterations do"


def verdict(certificate: AnyCertificate, model: str, task: str | None, names: str) -> str:
    """Return the sentence that a checker prints of a certificate whose every claim it verified.

    Args:
        certificate: that holds.
        model: whose weights it is about.
        task: what `described` says of its automaton; None if it has none.
        names: what the run calls itself, which nobody verified.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> certificate = analyse(run, length=2).certificate(run)
        >>> task = described(run.task.machine())
        >>> print(verdict(certificate, "implicit-mamba2", task, "folder parity-small"))
        The certificate holds of implicit-mamba2, on an automaton of 2 tokens whose words reach 2 of 2 states
        (...): ...
        ... (damping 0.8, rtol <= 1e-07, a limit of at least ... iterations a token), with a margin ...
        ...; of float64 it is assumed that + - * / round as in IEEE 754, that sums and matrix products are
        made of these, in any order, fused or not, and that exp, softplus, silu and roots are within 4 ulp;
        float32, and the run's own rtol of 0.0001, are not covered. The run's own words, not verified: folder
        parity-small.
    """
    on = "a task without an automaton" if task is None else task
    return (
        f"The certificate holds of {model}, on {on}: {_found(certificate)}. "
        f"The run's own words, not verified: {names}."
    )


def _found(certificate: AnyCertificate) -> str:
    if isinstance(certificate, Certificate):
        return _of_pairs(certificate)
    if isinstance(certificate, ExecutedCertificate):
        return _of_executed(certificate)
    if isinstance(certificate, WordsCertificate):
        words = f"all {certificate.words} words of up to {certificate.length} tokens are right"
    else:
        words = f"all words of every length are right, by {len(certificate.labels)} sets of states"
    starts = f"; {OF_EVERY_START}" if isinstance(certificate, ImagesCertificate) else ""
    return (
        f"the answers to {words}, {certificate.scope}, with a margin of at least "
        f"{at_least(certificate.margin)}, {OF_THESE_WEIGHTS}; {certificate.caveat}{starts}"
    )


def readable(name: str) -> str:
    """Return a name from a run folder, which may be a stranger's, in quotes where it could be taken for more.

    Example:
        >>> readable("parity"), readable("S5. Proved.")
        ('parity', "'S5. Proved.'")
    """
    plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if plain and len(name) <= LONGEST_NAME else ascii(name[:LONGEST_NAME])


def described(machine: MealyMachine) -> str:
    """Return what an automaton is, of which its name says nothing.

    States and answers that words reach are numbered in the order in which words meet them, shorter words
    first, so that every spelling of an automaton has one hash.

    Example:
        >>> print(described(MealyMachine([[1, 0], [0, 1]], [[1, 0], [0, 1]], 1)))
        an automaton of 2 tokens whose words reach 2 of 2 states (table [[1, 0], [0, 1]], of SHA-256
        be555edbfc39d6a4327eb8ec81b88dbceedfec1812445ad8f0b7dfb80ea39d11; its tokens generate Z2)
    """
    order, numbers = [machine.initial], {machine.initial: 0}
    for state in order:  # grows while it is read
        fresh = [after for after in dict.fromkeys(machine.table[state].tolist()) if after not in numbers]
        numbers |= {after: len(order) + number for number, after in enumerate(fresh)}
        order += fresh
    table = [[numbers[after] for after in row] for row in machine.table[order].tolist()]
    small = f"{table}, " if len(table) * len(table[0]) <= LARGEST_TABLE else ""
    told = ""
    if (machine.answers[order] != machine.table[order]).any():
        seen: dict[int, int] = {}
        answers = [[seen.setdefault(a, len(seen)) for a in row] for row in machine.answers[order].tolist()]
        told = f"; answers of SHA-256 {_sha256(answers)}"
    return (
        f"an automaton of {machine.token_count} tokens whose words reach {len(table)} of "
        f"{machine.state_count} states (table {small}of SHA-256 {_sha256(table)}{told}; its tokens generate "
        f"{_generated(table)})"
    )


def _sha256(rows: list[list[int]]) -> str:
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def _generated(table: list[list[int]]) -> str:
    """The name of the group that the tokens generate as maps of the states, or what it is instead."""
    try:
        monoid = transition_monoid(DFA.from_table(table), LARGEST_GROUP)
    except InputError:
        return f"more than {LARGEST_GROUP} maps of the states"
    order = monoid.order
    if not monoid.is_group:
        return f"a monoid of {order} maps, which is no group"
    named = [cyclic_group(order)]
    named += [symmetric_group(n) for n in range(3, 7) if math.factorial(n) == order]
    named += [alternating_group(n) for n in range(4, 7) if math.factorial(n) == 2 * order]
    named += [quaternion_group()] * (order == 8)
    named += [dihedral_group(sides) for sides in range(2, order) if 2 * sides == order]
    found = (group.name for group in named if find_isomorphism(monoid, group) is not None)
    return next(found, f"a group of order {order} that is none of Z, S, A, D and Q8")


def _of_executed(certificate: ExecutedCertificate) -> str:
    return (
        "as float32 executes it on a CPU by PyTorch's own operations (no other kernels), without gradient or "
        "padding, from the zero state and latent, with the run's own damping, an absolute tolerance of 0, a "
        "relative one of at most "
        f"{certificate.rtol!r} and at least 2 iterations, all words of every length are right, in the "
        "sequential and the windowed mode at every token, in the simultaneous mode where tokens are reported "
        "as converged; assumed, and not verified, is that sums and products of matrices are of IEEE float32 "
        "operations in any order (no TF32) and that exp, softplus, silu and roots are within "
        f"{certificate.ulps} ulp"
    )


def _of_pairs(certificate: Certificate) -> str:
    counts = summarise(certificate.pairs)
    total = counts.pop("pairs")
    found = ", ".join(f"{VERIFIED[name]} at {count}" for name, count in counts.items())
    where = "" if "explicit" in counts else f", nor {OF_THE_PROGRAM}"
    layers = f", of {OF_LAYERS}" if layers_of(certificate.config) > 1 else ""
    return (
        f"of {total} pairs of a state and a token, {found}, {OF_REAL_NUMBERS}{layers}; "
        f"not verified is anything of other states{where}"
    )
