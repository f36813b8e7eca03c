"""Run the command ``python -m analysis.report``."""

import sys

from analysis.report import main

sys.exit(main())
