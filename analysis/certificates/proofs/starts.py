"""Words of every length, and the simultaneous mode from every start where that is proved too."""

from dataclasses import replace

from analysis.certificates.proofs.cover_search import LengthsSettings
from analysis.certificates.proofs.lengths import PROOF as LENGTHS
from analysis.certificates.proofs.lengths import FoundLengths, analyse
from implicit.runs.loading import Run


def prove(run: Run, settings: LengthsSettings) -> FoundLengths:
    """Prove both; where only the first is proved, that is what is claimed.

    Args:
        run: as for words of every length.
        settings: likewise.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> [claim.kind for claim in prove(load_run("parity-attracted"), LengthsSettings()).claims]
        ['lengths', 'starts']
    """
    return analyse(run, settings, starts=True)


PROOF = replace(
    LENGTHS,
    claim="starts",
    question="Does the simultaneous mode tend to the right answers too? A proof, with a certificate.",
    description="Prove that a small implicit model is right on words of every length and, where all latents "
    "are attracted, that the simultaneous mode tends to the same answers from every start.",
    prove=prove,
)
