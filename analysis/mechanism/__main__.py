"""Run the command ``python -m analysis.mechanism``."""

import sys

from analysis.mechanism import main

sys.exit(main())
