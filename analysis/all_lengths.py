"""The old name, for one release, of ``python -m analysis.certify RUN --claim starts``."""

import sys

from analysis.certificates.proofs.lengths import prove_lengths
from analysis.certify import command_of

ANALYSIS = command_of("starts", "all_lengths", old=True)
main = ANALYSIS.main
analyse = prove_lengths

if __name__ == "__main__":
    sys.exit(main())
