"""Run the command ``python -m analysis.agreement``."""

import sys

from analysis.agreement import main

sys.exit(main())
