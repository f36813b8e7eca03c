"""Run the command ``python -m analysis.front_speed``."""

import sys

from analysis.front_speed import main

sys.exit(main())
