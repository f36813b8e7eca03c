"""Run the command ``python -m analysis.convergence``."""

import sys

from analysis.convergence import main

sys.exit(main())
