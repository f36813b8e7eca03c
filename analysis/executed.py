"""The old name, for one release, of ``python -m analysis.certify RUN --claim executed``."""

import sys

from analysis.certificates.proofs.executed import analyse as analyse
from analysis.certify import command_of

ANALYSIS = command_of("executed", "executed", old=True)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
