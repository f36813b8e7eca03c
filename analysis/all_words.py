"""The old name, for one release, of ``python -m analysis.certify RUN --claim words``."""

import sys

from analysis.certificates.proofs.words import prove_words
from analysis.certify import command_of

ANALYSIS = command_of("words", "all_words", old=True)
main = ANALYSIS.main
analyse = prove_words

if __name__ == "__main__":
    sys.exit(main())
