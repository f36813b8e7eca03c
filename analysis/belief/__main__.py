"""Run the command ``python -m analysis.belief``."""

import sys

from analysis.belief import main

sys.exit(main())
