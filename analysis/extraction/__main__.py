"""Run the command ``python -m analysis.extraction``."""

import sys

from analysis.extraction import main

sys.exit(main())
