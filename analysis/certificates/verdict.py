"""What a checker prints of a certificate that holds: composed here of what it verified, never read from it.

Names come from the run, counts are taken again from the claims that were checked, bounds are rounded so that
nothing is added. What is not verified stands in the same sentence.
"""

from analysis.certificates.answers import Automaton
from analysis.certificates.attraction.document import LatentsCertificate
from analysis.certificates.cover.document import CoverCertificate
from analysis.certificates.executed.document import ExecutedCertificate
from analysis.certificates.image_balls.document import ImagesCertificate
from analysis.certificates.parts import at_least
from analysis.certificates.theorem1.document import OF_LAYERS, Certificate, layers_of, summarise
from analysis.certificates.words.document import WordsCertificate

OfEveryStart = LatentsCertificate | ImagesCertificate
AnyCertificate = Certificate | WordsCertificate | CoverCertificate | OfEveryStart | ExecutedCertificate

LONGEST_NAME = 60
"""Characters."""
LARGEST_TABLE = 32
"""Entries that are shown."""
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


def verdict(certificate: AnyCertificate, run: str) -> str:
    """Return the sentence that a checker prints of a certificate whose every claim it verified.

    Args:
        certificate: that holds.
        run: what it is about, from the run itself.

    Example:
        >>> from analysis.all_words import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> print(verdict(analyse(run, length=2).certificate(run), "parity-small"))
        The certificate holds of run parity-small, on a task whose words reach 2 of 2 states (table ...
        ... (damping 0.8, rtol <= 1e-07, a limit of at least ... iterations a token), with a margin ...
        ...; of float64 it is assumed that + - * / round as in IEEE 754, that sums and matrix products are
        made of these, in any order, fused or not, and that exp, softplus, silu and roots are within 4 ulp;
        float32, and the run's own rtol of 0.0001, are not covered.
    """
    if isinstance(certificate, Certificate):
        return f"The certificate holds of run {run}: {_of_pairs(certificate)}."
    task = f"on a task {_shown(certificate.automaton)}"
    if isinstance(certificate, ExecutedCertificate):
        return f"The certificate holds of run {run}, {task}: {_of_executed(certificate)}."
    if isinstance(certificate, WordsCertificate):
        words = f"all {certificate.words} words of up to {certificate.length} tokens are right"
    else:
        words = f"all words of every length are right, by {len(certificate.labels)} sets of states"
    starts = f"; {OF_EVERY_START}" if isinstance(certificate, OfEveryStart) else ""
    return (
        f"The certificate holds of run {run}, {task}: the answers to {words}, {certificate.scope}, with a "
        f"margin of at least {at_least(certificate.margin)}, {OF_THESE_WEIGHTS}; {certificate.caveat}"
        f"{starts}."
    )


def readable(name: str) -> str:
    """Return a name from a run folder, which may be a stranger's, in quotes where it could be taken for more.

    Example:
        >>> readable("parity"), readable("S5. Proved.")
        ('parity', "'S5. Proved.'")
    """
    plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if plain and len(name) <= LONGEST_NAME else ascii(name[:LONGEST_NAME])


def _shown(automaton: Automaton) -> str:
    """What the automaton is, of which its name says nothing: what of it words reach, and a small table."""
    table, reached, found = automaton.table, {automaton.initial_state}, [automaton.initial_state]
    for state in found:
        found += [after for after in dict.fromkeys(table[state]) if after not in reached]
        reached |= set(table[state])
    size = len(table) * len(table[0])
    shown = f"{table}" if size <= LARGEST_TABLE else f"of {size} entries"
    return f"whose words reach {len(reached)} of {len(table)} states (table {shown})"


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
